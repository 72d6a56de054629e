// SPDX-License-Identifier: Apache-2.0
/* The checksum of each beginning of standard input, up to so many bytes, and of all of it. */
#include <stdlib.h>

#include "record.h"

int main(int argc, char **argv)
{
	static uint8_t bytes[1 << 20];
	size_t size = fread(bytes, 1, sizeof(bytes), stdin);
	size_t most = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;

	for (size_t length = 0; length < most && length < size; length++)
		printf("%u\n", checksum(bytes, length));
	printf("%u\n", checksum(bytes, size));
	return 0;
}
