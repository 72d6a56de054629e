/* SPDX-License-Identifier: Apache-2.0 */
/* A number of each of some keys, by open addressing. */
#ifndef KEYS_H
#define KEYS_H

#include <stdint.h>

/* Where ``number`` is -1, there is no key; there are more places, 1 << bits, than keys. */
struct keys {
	int64_t *key;
	int32_t *number;
	int64_t bits;
	uint64_t seed; /* Nobody can make a recording whose keys all meet. */
};

static inline void empty(const struct keys *keys)
{
	for (int64_t place = 0; place < (int64_t)1 << keys->bits; place++)
		keys->number[place] = -1;
}

/* The highest bits say where a key is looked for first. */
static inline uint64_t hash_of(const struct keys *keys, int64_t key)
{
	uint64_t mixed = ((uint64_t)key + keys->seed) * (keys->seed | 1);

	return (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15u;
}

/* Where a key is, or would be. */
static inline uint64_t place_of(const struct keys *keys, int64_t key)
{
	uint64_t last = ((uint64_t)1 << keys->bits) - 1;
	uint64_t place = hash_of(keys, key) >> (64 - keys->bits);

	while (keys->number[place] >= 0 && keys->key[place] != key)
		place = (place + 1) & last;
	return place;
}

#endif
