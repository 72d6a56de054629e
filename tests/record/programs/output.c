// SPDX-License-Identifier: Apache-2.0
/* The directory that a trace is written into: prepared, with --force. */
#include "record.h"

int main(int argc, char **argv)
{
	struct options options = { .directory = argv[argc - 1], .force = true };

	return output_open(&options) < 0;
}
