// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * zlib's CRC-32, of a packet: a third of what the recorder does for an event.  Where the CPU
 * multiplies without carries, bytes are folded onto those behind them, as Gopal and others of Intel
 * have it ("Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009), until
 * sixteen are left that have the same remainder.
 */
#include <string.h>
#include <zlib.h>

#include "record.h"

#ifdef __x86_64__

#include <cpuid.h>

#define LANES 4

typedef long long block __attribute__((vector_size(16)));

/* What moves a block's low and high half on by so many bits (the paper's k1 to k4). */
static const block by_512 = { 0x154442bd4, 0x1c6e41596 };
static const block by_128 = { 0x1751997d0, 0x0ccaa009e };

/* Asked once: a virtual machine's hypervisor answers. */
static bool multiplies(void)
{
	static int known = -1;
	unsigned int a, b, c = 0, d;

	if (known < 0)
		known = __get_cpuid(1, &a, &b, &c, &d) && c & bit_PCLMUL;
	return known;
}

static block load(const uint8_t *bytes)
{
	block value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

__attribute__((target("pclmul"))) static block fold(block value, block by, block onto)
{
	return __builtin_ia32_pclmulqdq128(value, by, 0x00) ^
	       __builtin_ia32_pclmulqdq128(value, by, 0x11) ^ onto;
}

/* Folds whole blocks, at least LANES of them, into one that is left in rest. */
__attribute__((target("pclmul"))) static void fold_all(const uint8_t *bytes, size_t blocks,
						       uint8_t rest[16])
{
	block lanes[LANES], value;
	size_t at = LANES;

	for (unsigned int i = 0; i < LANES; i++)
		lanes[i] = load(bytes + i * sizeof(block));
	lanes[0] ^= (block){ 0xffffffff, 0 }; /* what a CRC-32 begins with */
	for (; at + LANES <= blocks; at += LANES) {
		for (unsigned int i = 0; i < LANES; i++)
			lanes[i] = fold(lanes[i], by_512, load(bytes + (at + i) * sizeof(block)));
	}
	value = lanes[0];
	for (unsigned int i = 1; i < LANES; i++)
		value = fold(value, by_128, lanes[i]);
	for (; at < blocks; at++)
		value = fold(value, by_128, load(bytes + at * sizeof(block)));
	memcpy(rest, &value, sizeof(value));
}

uint32_t checksum(const uint8_t *bytes, size_t size)
{
	size_t blocks = size / sizeof(block);
	uint8_t rest[sizeof(block)];

	if (blocks < LANES || !multiplies())
		return crc32(0, bytes, size);
	fold_all(bytes, blocks, rest);
	/* The rest has its beginning in it: from nothing, as zlib inverts it. */
	return crc32(crc32(0xffffffff, rest, sizeof(rest)), bytes + blocks * sizeof(block),
		     size % sizeof(block));
}

#else

uint32_t checksum(const uint8_t *bytes, size_t size)
{
	return crc32(0, bytes, size);
}

#endif
