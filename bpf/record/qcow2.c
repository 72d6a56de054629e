// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Where an image of qcow2 keeps what the guest sees (docs/interop/qcow2.rst of QEMU): a line
 * `time_ns dev inode offset size place` for each range of its file that is one range of the
 * guest's, and with `-` as its offset where the image's own tables are.
 *
 * QEMU has the image open, and writes its tables late: what is not there yet is not told.  Formats
 * within the format that keep data elsewhere (another file, parts of clusters) are not told either.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record.h"

#define LEAST_CLUSTER_BITS 12
#define MOST_CLUSTER_BITS 21
/* More than half a TiB of clusters of 64 KiB: reading that much takes a second or so. */
#define MOST_TABLES_BYTES (64u << 20)
#define MOST_LINES (1u << 18)

/* Of an entry of any table: where that is.  Of one of the second level: compressed. */
#define PLACE 0x00fffffffffffe00ull
#define COMPRESSED (1ull << 62)
/* incompatible_features: another file has the data, clusters have parts. */
#define ELSEWHERE (1ull << 2 | 1ull << 4)

struct header {
	uint32_t magic, version;
	uint64_t backing_file;
	uint32_t backing_file_size, cluster_bits;
	uint64_t size;
	uint32_t crypt_method, l1_count;
	uint64_t l1_place, refcount_place;
	uint32_t refcount_clusters, snapshot_count;
	uint64_t snapshots, incompatible_features;
} __attribute__((packed));

struct image {
	int fd;
	uint64_t cluster, time_ns, inode;
	unsigned int dev, lines;
	FILE *out;
	/* The range that is not told yet, as the next may go on with it; size 0: none. */
	uint64_t offset, size, place;
};

/* Zeros stand for what is beyond the file's end; NULL: no memory. */
static void *read_table(const struct image *image, uint64_t place, uint64_t size)
{
	uint64_t room = (size + BLOCK_BYTES - 1) & ~(uint64_t)(BLOCK_BYTES - 1), got = 0;
	char *table = NULL;

	if (place % BLOCK_BYTES || posix_memalign((void **)&table, BLOCK_BYTES, room))
		return NULL;
	memset(table, 0, room);
	while (got < room) {
		ssize_t length = pread(image->fd, table + got, room - got, place + got);

		if (length <= 0)
			break;
		got += length;
	}
	return table;
}

static void tell_own(struct image *image, uint64_t place, uint64_t size)
{
	if (size && image->lines++ < MOST_LINES)
		fprintf(image->out, "%llu\t%u\t%llu\t-\t%llu\t%llu\n",
			(unsigned long long)image->time_ns, image->dev,
			(unsigned long long)image->inode, (unsigned long long)size,
			(unsigned long long)place);
}

static void tell_range(struct image *image)
{
	if (image->size && image->lines++ < MOST_LINES)
		fprintf(image->out, "%llu\t%u\t%llu\t%llu\t%llu\t%llu\n",
			(unsigned long long)image->time_ns, image->dev,
			(unsigned long long)image->inode, (unsigned long long)image->offset,
			(unsigned long long)image->size, (unsigned long long)image->place);
	image->size = 0;
}

static void add_cluster(struct image *image, uint64_t offset, uint64_t place)
{
	bool follows = image->size && offset == image->offset + image->size &&
		       place == image->place + image->size;

	if (!follows) {
		tell_range(image);
		image->offset = offset;
		image->place = place;
	}
	image->size += image->cluster;
}

/* One table of the second level: the clusters from `first` on. */
static void tell_clusters(struct image *image, uint64_t first, uint64_t place)
{
	uint64_t *entries = read_table(image, place, image->cluster);

	for (uint64_t i = 0; entries && i < image->cluster / sizeof(*entries); i++) {
		uint64_t entry = be64toh(entries[i]);

		if (!(entry & COMPRESSED) && entry & PLACE)
			add_cluster(image, first + i * image->cluster, entry & PLACE);
	}
	free(entries);
	tell_own(image, place, image->cluster);
}

static void tell_data(struct image *image, const struct header *header)
{
	uint64_t count = be32toh(header->l1_count), place = be64toh(header->l1_place);
	uint64_t *tables = read_table(image, place, count * sizeof(*tables));
	uint64_t clusters = (count * sizeof(*tables) + image->cluster - 1) / image->cluster;

	for (uint64_t i = 0; tables && i < count; i++) {
		uint64_t table = be64toh(tables[i]) & PLACE;
		uint64_t covered = image->cluster / sizeof(*tables) * image->cluster;

		if (table)
			tell_clusters(image, i * covered, table);
	}
	free(tables);
	tell_range(image);
	/* Nothing else is in its last cluster, and QEMU writes whole sectors. */
	tell_own(image, place, clusters * image->cluster);
}

static void tell_refcounts(struct image *image, const struct header *header)
{
	uint64_t place = be64toh(header->refcount_place);
	uint64_t size = be32toh(header->refcount_clusters) * image->cluster;
	uint64_t *blocks = read_table(image, place, size);

	for (uint64_t i = 0; blocks && i < size / sizeof(*blocks); i++) {
		uint64_t block = be64toh(blocks[i]) & PLACE;

		if (block)
			tell_own(image, block, image->cluster);
	}
	free(blocks);
	tell_own(image, place, size);
}

/* Whether all of it is told here, and is not too much. */
static bool is_known(const struct header *header)
{
	uint64_t count = be32toh(header->l1_count), version = be32toh(header->version);
	uint32_t bits = be32toh(header->cluster_bits);

	if (bits < LEAST_CLUSTER_BITS || bits > MOST_CLUSTER_BITS || version < 2 || version > 3)
		return false;
	if (version > 2 && be64toh(header->incompatible_features) & ELSEWHERE)
		return false;
	return (count << bits) + ((uint64_t)be32toh(header->refcount_clusters) << bits) <=
	       MOST_TABLES_BYTES;
}

bool qcow2_tell(int fd, unsigned int dev, uint64_t inode, FILE *out)
{
	struct image image = { .fd = fd, .dev = dev, .inode = inode, .out = out };
	struct header *header = read_table(&image, 0, BLOCK_BYTES);
	bool backed = header && header->backing_file;

	image.time_ns = now_ns();
	if (header && is_known(header)) {
		image.cluster = 1ull << be32toh(header->cluster_bits);
		tell_own(&image, 0, image.cluster);
		tell_data(&image, header);
		tell_refcounts(&image, header);
	}
	free(header);
	return backed;
}
