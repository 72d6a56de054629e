/* SPDX-License-Identifier: Apache-2.0 */
/* System calls to what each writes or makes durable (stitch/calls.py), where all of them are of the
 * common kinds: else the twin does it. */
#include <stdbool.h>

#include "native.h"

enum {
	NUMBERS = 256,
	NONE = -1, /* Of methods, scopes and devices. */
};

/* What a call of a number is. */
enum kind {
	NOTHING,
	WRITES,    /* With flags of its own. */
	TRANSFERS, /* Without. */
	SYNCS,
	RARE, /* Of which more than its columns must be known. */
};

struct calls {
	const int64_t *time_ns;
	const int64_t *enter_ns;
	const int64_t *call;
	const int64_t *tid;
	const int64_t *tgid;
	const int64_t *device_key;
	const int64_t *inode;
	const int64_t *open_flags;
	const int64_t *flags;
	const int64_t *result;
	const int64_t *offset_bytes;
	const int64_t *size_bytes;
	const int64_t *generation; /* NULL: it is not known of any. */
	int64_t count;
};

/* By number; and which flags of a file, and of a call, make what it writes durable, and how. */
struct meaning {
	const int8_t *kind;
	const int8_t *method;
	const int8_t *scope;
	int64_t every_device; /* The number of those that are of no one device. */
	int64_t file_whole;
	int64_t file_data;
	int64_t file_inode;
	int64_t call_whole;
	int64_t call_data;
	int64_t whole;
	int64_t data;
	int64_t inode;
};

struct operations {
	int64_t *begin_ns;
	int64_t *end_ns;
	int64_t *effect_ns;
	int64_t *tid;
	int64_t *tgid;
	int64_t *device_key;
	int64_t *inode;
	int64_t *offset_bytes;
	int64_t *size_bytes;
	int8_t *method;
	int8_t *scope;
	bool *failed;
	int64_t *generation;
};

static int64_t method_of(const struct meaning *meaning, int64_t file, int64_t call)
{
	if (file & meaning->file_whole || call & meaning->call_whole)
		return meaning->whole;
	if (file & meaning->file_data || call & meaning->call_data)
		return meaning->data;
	return file & meaning->file_inode ? meaning->inode : NONE;
}

/* Returns how many there are. */
PUBLIC int64_t operations_of(const struct calls *calls, const struct meaning *meaning,
			     const struct operations *found)
{
	int64_t kept = 0;

	for (int64_t row = 0; row < calls->count; row++) {
		int64_t number = calls->call[row], result = calls->result[row];
		int kind = (uint64_t)number < NUMBERS ? meaning->kind[number] : NOTHING;
		bool syncs = kind == SYNCS;

		if (kind == RARE)
			return TOO_MANY;
		/* What wrote nothing did not have to be durable. */
		if (kind == NOTHING || (!syncs && !result))
			continue;
		found->begin_ns[kept] = calls->enter_ns[row];
		found->end_ns[kept] = calls->time_ns[row];
		found->effect_ns[kept] = syncs ? calls->enter_ns[row] : calls->time_ns[row];
		found->tid[kept] = calls->tid[row];
		found->tgid[kept] = calls->tgid[row];
		found->device_key[kept] =
			number == meaning->every_device ? NONE : calls->device_key[row];
		found->inode[kept] = calls->inode[row];
		found->offset_bytes[kept] = calls->offset_bytes[row];
		found->failed[kept] = result < 0;
		if (calls->generation)
			found->generation[kept] = calls->generation[row];
		if (syncs) {
			found->size_bytes[kept] = calls->size_bytes[row];
			found->method[kept] = meaning->method[number];
			found->scope[kept] = meaning->scope[number];
		} else {
			int64_t flags = kind == WRITES ? calls->flags[row] : 0;

			found->size_bytes[kept] = result < 0 ? 0 : result;
			found->method[kept] =
				(int8_t)method_of(meaning, calls->open_flags[row], flags);
			found->scope[kept] = NONE;
		}
		kept++;
	}
	return kept;
}
