// SPDX-License-Identifier: Apache-2.0
/*
 * int80 FILE COUNT: a 64-bit program that writes and syncs by the system calls of 32-bit ones,
 * with a while between them.  3: the kernel takes none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 8192

/* arch/x86/entry/syscalls/syscall_32.tbl */
enum {
	WRITE = 4,
	GETPID = 20,
	FSYNC = 118
};

static long call(long number, long first, long second, long third)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(first), "c"(second), "d"(third)
			 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_WRONLY | O_CREAT, 0600) : -1;
	/* Where an address of 32 bits leads. */
	char *data = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (fd < 0 || data == MAP_FAILED)
		return 1;
	if (call(GETPID, 0, 0, 0) != getpid())
		return 3;
	for (int count = atoi(argv[2]); count > 0; count--) {
		if (call(WRITE, fd, (long)data, SIZE) != SIZE || call(FSYNC, fd, 0, 0))
			return 2;
		usleep(10000);
	}
	return 0;
}
