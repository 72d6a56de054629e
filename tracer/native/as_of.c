/* SPDX-License-Identifier: Apache-2.0 */
/* Rows by key and time: the last at or before, the first at or after. Both the rows and what is
 * asked for are walked in order of time once, and each key's latest row is kept. */
#include "native.h"

/* Open addressing; empty while ``row`` is -1. */
struct slot {
	int64_t key;
	int64_t row;
};

struct table {
	struct slot *slots;
	int64_t bits;
	uint64_t seed; /* Nobody can make a recording whose keys all meet. */
};

static void empty(const struct table *table)
{
	for (int64_t place = 0; place < (int64_t)1 << table->bits; place++)
		table->slots[place].row = -1;
}

static inline struct slot *slot_of(const struct table *table, int64_t key)
{
	uint64_t last = ((uint64_t)1 << table->bits) - 1;
	uint64_t mixed = ((uint64_t)key + table->seed) * (table->seed | 1);

	mixed = (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15u;
	mixed >>= 64 - table->bits;
	while (table->slots[mixed].row >= 0 && table->slots[mixed].key != key)
		mixed = (mixed + 1) & last;
	return &table->slots[mixed];
}

static inline void keep(const struct table *table, int64_t key, int64_t row)
{
	struct slot *slot = slot_of(table, key);

	slot->key = key;
	slot->row = row;
}

/* ``order``: of the rows by time, stable; null: they are in it. */
static inline int64_t row_at(const int64_t *order, int64_t place)
{
	return order ? order[place] : place;
}

/* ``slots``: 1 << bits of them, more than there are rows. */
PUBLIC int64_t as_of_before(const int64_t *keys, const int64_t *times, const int64_t *order,
			    int64_t count, const int64_t *asked, const int64_t *at,
			    const int64_t *asked_order, int64_t asked_count, struct slot *slots,
			    int64_t bits, uint64_t seed, int64_t *found)
{
	const struct table table = { slots, bits, seed };
	int64_t place = 0;

	empty(&table);
	for (int64_t i = 0; i < asked_count; i++) {
		int64_t query = row_at(asked_order, i);

		if ((uint64_t)query >= (uint64_t)asked_count)
			return WRONG;
		for (; place < count; place++) {
			int64_t row = row_at(order, place);

			if ((uint64_t)row >= (uint64_t)count)
				return WRONG;
			if (times[row] > at[query])
				break;
			keep(&table, keys[row], row);
		}
		found[query] = slot_of(&table, asked[query])->row;
	}
	return 0;
}

PUBLIC int64_t as_of_after(const int64_t *keys, const int64_t *times, const int64_t *order,
			   int64_t count, const int64_t *asked, const int64_t *at,
			   const int64_t *asked_order, int64_t asked_count, struct slot *slots,
			   int64_t bits, uint64_t seed, int64_t *found)
{
	const struct table table = { slots, bits, seed };
	int64_t place = count - 1;

	empty(&table);
	for (int64_t i = asked_count - 1; i >= 0; i--) {
		int64_t query = row_at(asked_order, i);

		if ((uint64_t)query >= (uint64_t)asked_count)
			return WRONG;
		for (; place >= 0; place--) {
			int64_t row = row_at(order, place);

			if ((uint64_t)row >= (uint64_t)count)
				return WRONG;
			if (times[row] < at[query])
				break;
			keep(&table, keys[row], row);
		}
		found[query] = slot_of(&table, asked[query])->row;
	}
	return 0;
}

/* Of each row, the next one of its key in order of time; -1: there is none. */
PUBLIC int64_t as_of_next(const int64_t *keys, const int64_t *order, int64_t count,
			  struct slot *slots, int64_t bits, uint64_t seed, int64_t *found)
{
	const struct table table = { slots, bits, seed };

	empty(&table);
	for (int64_t place = count - 1; place >= 0; place--) {
		int64_t row = row_at(order, place);
		struct slot *slot;

		if ((uint64_t)row >= (uint64_t)count)
			return WRONG;
		slot = slot_of(&table, keys[row]);
		found[row] = slot->row;
		slot->key = keys[row];
		slot->row = row;
	}
	return 0;
}
