/* SPDX-License-Identifier: Apache-2.0 */
/* The different ones of many values, if they are few: mostly one. */
#include "native.h"

enum {
	TOGETHER = 64
};

/* Of ``room`` that are in order, ``count`` have been found. */
struct found {
	int64_t *value;
	int64_t count;
	int64_t room;
};

/* Returns whether there was room for it. */
static int find(struct found *found, int64_t value)
{
	int64_t place = 0;

	while (place < found->count && found->value[place] < value)
		place++;
	if (place < found->count && found->value[place] == value)
		return 1;
	if (found->count == found->room)
		return 0;
	for (int64_t at = found->count++; at > place; at--)
		found->value[at] = found->value[at - 1];
	found->value[place] = value;
	return 1;
}

/* Returns how many there are. */
PUBLIC int64_t few(const int64_t *values, int64_t count, int64_t *value, int64_t room)
{
	struct found found = { value, 0, room };

	for (int64_t first = 0; first < count; first += TOGETHER) {
		int64_t last = first + TOGETHER < count ? first + TOGETHER : count;
		int64_t differ = 0;

		for (int64_t i = first; i < last; i++)
			differ |= values[i] ^ values[first];
		if (!differ)
			last = first + 1;
		for (int64_t i = first; i < last; i++) {
			if (!find(&found, values[i]))
				return TOO_MANY;
		}
	}
	return found.count;
}
