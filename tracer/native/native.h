/* SPDX-License-Identifier: Apache-2.0 */
/* What the analysis does most often, without NumPy's pass for each step of it. Every function has
 * a twin in Python that says what it does. Nothing is allocated but by large.c, no C library is
 * needed, and no index is trusted: they come of a recording, which may be anybody's. */
#ifndef NATIVE_H
#define NATIVE_H

#include <stdint.h>

#define PUBLIC __attribute__((visibility("default")))

enum {
	WRONG = -1,    /* An index that leads nowhere. */
	TOO_MANY = -2, /* More than there is room for: the twin does it. */
};

#endif
