// SPDX-License-Identifier: Apache-2.0
/* What a process has open of images that are not raw. */
#include <stdlib.h>

#include "record.h"

int main(int argc, char **argv)
{
	if (argc == 2)
		images_tell(atoi(argv[1]), stdout);
	return argc != 2;
}
