/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A 32-bit ARM program without a C library: calls that write or make durable, one of each kind
 * whose number or registers are ARM's own.  Numbers: arch/arm/tools/syscall.tbl.
 */
#define DATA "12345678"
#define FOUR_GIB 0, 1 /* its low half, its high half */

static int call(int number, long a, long b, long c, long d, long e, long f)
{
	register long r0 __asm__("r0") = a;
	register long r1 __asm__("r1") = b;
	register long r2 __asm__("r2") = c;
	register long r3 __asm__("r3") = d;
	register long r4 __asm__("r4") = e;
	register long r5 __asm__("r5") = f;
	register long r7 __asm__("r7") = number;

	__asm__ volatile("svc 0"
			 : "+r"(r0)
			 : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r7)
			 : "memory");
	return r0;
}

void _start(void)
{
	struct {
		const void *base;
		long length;
	} part = { DATA, 8 };
	/* openat: O_RDWR, O_CREAT, O_LARGEFILE */
	int file = call(322, -100, (long)"data", 0400102, 0644, 0, 0);
	int failed = file < 0;

	failed |= call(4, file, (long)DATA, 8, 0, 0, 0) != 8;        /* write */
	failed |= call(181, file, (long)DATA, 8, 0, FOUR_GIB) != 8;  /* pwrite64 */
	failed |= call(362, file, (long)&part, 1, FOUR_GIB, 0) != 8; /* pwritev */
	failed |= call(393, file, (long)&part, 1, FOUR_GIB, 2) != 8; /* pwritev2: RWF_DSYNC */
	failed |= call(341, file, 7, FOUR_GIB, 4096, 0) != 0;        /* sync_file_range2 */
	failed |= call(118, file, 0, 0, 0, 0, 0) != 0;               /* fsync */
	failed |= call(148, file, 0, 0, 0, 0, 0) != 0;               /* fdatasync */
	failed |= call(373, file, 0, 0, 0, 0, 0) != 0;               /* syncfs */
	call(36, 0, 0, 0, 0, 0, 0);                                  /* sync */
	call(1, failed, 0, 0, 0, 0, 0);                              /* exit */
}
