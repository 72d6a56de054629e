/* SPDX-License-Identifier: Apache-2.0 */
/* Times that ascend in each of several runs to one order of all; equal ones in that of the runs. */
#include <stdbool.h>

#include "native.h"

struct run {
	uint64_t time_ns;
	int64_t next;
	int64_t number;
};

static inline bool before(const struct run *one, const struct run *other)
{
	if (one->time_ns != other->time_ns)
		return one->time_ns < other->time_ns;
	return one->number < other->number;
}

static void sink(struct run *heap, int64_t count, int64_t at)
{
	struct run sinking = heap[at];

	for (int64_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &sinking))
			break;
		heap[at] = heap[child];
	}
	heap[at] = sinking;
}

/* ``edges``: where each run begins, and the last one's end. ``places``: of each time among all. */
PUBLIC int64_t merge(const uint64_t *times_ns, const int64_t *edges, int64_t runs, struct run *heap,
		     uint32_t *places, uint64_t *merged_ns)
{
	int64_t left = 0;

	for (int64_t number = 0; number < runs; number++)
		if (edges[number] < edges[number + 1])
			heap[left++] =
				(struct run){ times_ns[edges[number]], edges[number], number };
	for (int64_t at = left / 2; at--;)
		sink(heap, left, at);
	for (uint32_t place = 0; left; place++) {
		struct run *first = &heap[0];

		merged_ns[place] = first->time_ns;
		places[first->next++] = place;
		if (first->next < edges[first->number + 1])
			first->time_ns = times_ns[first->next];
		else
			*first = heap[--left];
		sink(heap, left, 0);
	}
	return 0;
}
