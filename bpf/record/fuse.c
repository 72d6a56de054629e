// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether daemons may serve file systems here: only then it is looked at what processes read. */
#include <string.h>

#include "record.h"
#include "types.h"

/* These are mounted on many machines, and hold nobody's data. */
static const char *const without_data[] = { "fuse.lxcfs", "fuse.portal", "fuse.gvfsd-fuse" };

static bool has_data(const char *type)
{
	return !mounts_has_type(type, without_data,
				sizeof(without_data) / sizeof(without_data[0])) &&
	       (!strncmp(type, "fuse ", 5) || !strncmp(type, "fuse.", 5) ||
		!strncmp(type, "fuseblk", 7));
}

static bool look_for(const char *point, bool *present)
{
	struct types types;
	int error = types_open(&types);

	if (error)
		return false;
	error = presence_test(&types, &point, present, 1);
	types_close(&types);
	return !error;
}

bool fuse_is_served(const struct options *options)
{
	static const char *const point = "btf_trace_fuse_request_end";
	static bool is_known, present;

	if (!mounts_any(options, has_data))
		return false;
	/* Without the points of its requests, nothing tells who serves. */
	if (!is_known)
		is_known = look_for(point, &present);
	return present;
}
