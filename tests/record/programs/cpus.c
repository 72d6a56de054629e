// SPDX-License-Identifier: Apache-2.0
/* What the recorder makes of a list of CPUs. */
#include "record.h"

int main(int argc, char **argv)
{
	int limit = argc == 2 ? cpus_limit(argv[1]) : 0;

	printf("%d\n", limit);
	return limit < 0;
}
