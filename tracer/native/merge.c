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

/* ``sinking`` in place of the run at ``at``. It is no part of the heap before: what was just written
 * there in parts, the CPU cannot read as a whole for a while. */
static inline void sink(struct run *heap, int64_t count, int64_t at, struct run sinking)
{
	for (int64_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &sinking))
			break;
		heap[at] = heap[child];
	}
	heap[at] = sinking;
}

/* Up to which time the first run comes before all others. */
static uint64_t until_ns(const struct run *heap, int64_t count)
{
	const struct run *other = &heap[1];

	if (count < 2)
		return UINT64_MAX;
	if (count > 2 && before(&heap[2], other))
		other = &heap[2];
	/* It is before that one: where it is not so at the same time, there is an earlier one. */
	return other->time_ns - (heap[0].number > other->number);
}

/* ``times_ns``: of each run; ``edges``: where its ``places`` begin, and where the last one's end.
 * ``places``: of each time among all. */
PUBLIC int64_t merge(const uint64_t *const *times_ns, const int64_t *edges, int64_t runs,
		     struct run *heap, uint32_t *places, uint64_t *merged_ns)
{
	int64_t left = 0;
	uint32_t place = 0;

	for (int64_t number = 0; number < runs; number++)
		if (edges[number] < edges[number + 1])
			heap[left++] = (struct run){ times_ns[number][0], edges[number], number };
	for (int64_t at = left / 2; at--;)
		sink(heap, left, at, heap[at]);
	while (left) {
		int64_t number = heap[0].number, next = heap[0].next;
		int64_t begin = edges[number], end = edges[number + 1];
		const uint64_t *own_ns = times_ns[number];
		uint64_t last_ns = until_ns(heap, left);

		for (; next < end && own_ns[next - begin] <= last_ns; next++) {
			merged_ns[place] = own_ns[next - begin];
			places[next] = place++;
		}
		if (next < end)
			sink(heap, left, 0, (struct run){ own_ns[next - begin], next, number });
		else if (--left)
			sink(heap, left, 0, heap[left]);
	}
	return 0;
}
