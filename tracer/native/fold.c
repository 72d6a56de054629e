/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to the sixteen that have the same CRC-32, by multiplying without carries, as Intel's "Fast
 * CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (2009) tells. */
#include <stdbool.h>

#include "native.h"

enum {
	LANE_BYTES = 16,
	LANES = 4,
	AHEAD_BYTES = 4096 /* Nothing else fetches what is on the next page. */
};

#ifdef __x86_64__
#include <cpuid.h>
#include <emmintrin.h>
#include <wmmintrin.h>

#define FOLDS __attribute__((target("pclmul")))

enum {
	UNASKED,
	THERE,
	MISSING
};

/* Asked once: where a hypervisor answers, that takes longer than the CRC of a whole packet. */
static int multiplies;

static bool can_multiply(void)
{
	int known = __atomic_load_n(&multiplies, __ATOMIC_RELAXED);
	unsigned int a, b, c = 0, d;

	if (known == UNASKED) {
		known = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_PCLMUL) ? THERE : MISSING;
		__atomic_store_n(&multiplies, known, __ATOMIC_RELAXED);
	}
	return known == THERE;
}

/* What is so many bits further on is this much of what it comes to: x^n modulo the polynomial, bits
 * in the order of the CRC, of each half of a lane. */
static const uint64_t BY_LANES[2] = { 0x154442bd4, 0x1c6e41596 };
static const uint64_t BY_ONE[2] = { 0x1751997d0, 0x0ccaa009e };

FOLDS static inline __m128i at(const uint8_t *bytes)
{
	return _mm_loadu_si128((const __m128i *)bytes);
}

FOLDS static inline __m128i further(__m128i lane, __m128i by, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
	__m128i high = _mm_clmulepi64_si128(lane, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

FOLDS static void folded(const uint8_t *bytes, int64_t count, uint32_t before, uint8_t *found)
{
	__m128i by = at((const uint8_t *)BY_LANES), lanes[LANES], one;

	for (int lane = 0; lane < LANES; lane++)
		lanes[lane] = at(bytes + lane * LANE_BYTES);
	lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)before));
	for (int64_t place = LANES * LANE_BYTES; place < count; place += LANES * LANE_BYTES) {
		__builtin_prefetch(bytes + place + AHEAD_BYTES);
		for (int lane = 0; lane < LANES; lane++)
			lanes[lane] =
				further(lanes[lane], by, at(bytes + place + lane * LANE_BYTES));
	}
	by = at((const uint8_t *)BY_ONE);
	one = lanes[0];
	for (int lane = 1; lane < LANES; lane++)
		one = further(one, by, lanes[lane]);
	_mm_storeu_si128((__m128i *)found, one);
}

/* ``count``: whole lanes. ``before``: the register. ``found``: what has the same CRC from 0 on. */
PUBLIC int64_t fold(const uint8_t *bytes, int64_t count, uint64_t before, uint8_t *found)
{
	if (count <= 0 || count % (LANES * LANE_BYTES))
		return WRONG;
	if (!can_multiply())
		return TOO_MANY;
	folded(bytes, count, (uint32_t)before, found);
	return 0;
}
#else
PUBLIC int64_t fold(const uint8_t *bytes, int64_t count, uint64_t before, uint8_t *found)
{
	(void)bytes, (void)before, (void)found;
	return count <= 0 || count % (LANES * LANE_BYTES) ? WRONG : TOO_MANY;
}
#endif
