// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether files can share what they have: only then ioctl, which does it, is looked at. */
#include "record.h"

static const char *const sharing[] = {
	"xfs", "btrfs", "bcachefs", "nfs4", "cifs", "smb3", "ocfs2"
};

static bool shares(const char *type)
{
	return mounts_has_type(type, sharing, sizeof(sharing) / sizeof(sharing[0]));
}

bool clones_are_possible(const struct options *options)
{
	return mounts_any(options, shares);
}
