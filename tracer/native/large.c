/* SPDX-License-Identifier: Apache-2.0 */
/* How NumPy gets memory (PyDataMem_Handler, NEP 49): as ever, but what is large, and more than
 * there may be in memory at once, lies in files that have no name, which the kernel may write to
 * the disk and take the memory back from. All that it needs is given by memory.py: NumPy's own
 * way, and functions of the C library. */
#include <stdbool.h>
#include <stddef.h>

#include "native.h"

enum {
	FILES = 4096, /* At once; any more are in memory. */
	OWNER_ONLY = 0600,
	PAGE_BYTES = 4096,
	READ_WRITE = 3, /* PROT_READ | PROT_WRITE */
	SHARED = 1,     /* MAP_SHARED: of a child that was forked, too. */
};

struct file {
	void *address;
	size_t size;
};

/* ``flags``: of open, for a file without a name. In bytes: ``least`` is large, ``in_memory`` of
 * ``most_in_memory`` are, ``in_files`` of ``most_in_files``. */
struct large {
	void *(*malloc)(void *own, size_t size);
	void *(*calloc)(void *own, size_t count, size_t size);
	void *(*realloc)(void *own, void *address, size_t size);
	void (*free)(void *own, void *address, size_t size);
	void *own;
	int (*open)(const char *path, int flags, ...);
	int (*fallocate)(int file, int mode, int64_t offset, int64_t size);
	void *(*mmap)(void *address, size_t size, int protection, int flags, int file,
		      int64_t offset);
	int (*munmap)(void *address, size_t size);
	int (*close)(int file);
	const char *directory;
	int64_t flags;
	uint64_t least;
	uint64_t most_in_memory;
	uint64_t most_in_files;
	uint64_t in_memory;
	uint64_t in_files;
	int64_t count;
	int64_t locked;
	struct file files[FILES];
};

static void lock(struct large *large)
{
	while (__atomic_exchange_n(&large->locked, 1, __ATOMIC_ACQUIRE))
		;
}

static void unlock(struct large *large)
{
	__atomic_store_n(&large->locked, 0, __ATOMIC_RELEASE);
}

/* Its disk is set aside at once: who writes to it later is never told that there is none. */
static void *mapped(struct large *large, size_t size)
{
	int file = large->open(large->directory, (int)large->flags, OWNER_ONLY);
	void *address = (void *)-1;

	if (file < 0)
		return NULL;
	if (!large->fallocate(file, 0, 0, (int64_t)size))
		address = large->mmap(NULL, size, READ_WRITE, SHARED, file, 0);
	large->close(file);
	return address == (void *)-1 ? NULL : address;
}

/* NULL: it is for memory. */
static void *in_file(struct large *large, size_t size)
{
	void *address = NULL;

	lock(large);
	if (large->in_memory + size > large->most_in_memory && large->count < FILES &&
	    large->in_files + size <= large->most_in_files)
		address = mapped(large, size);
	if (address) {
		large->files[large->count++] = (struct file){ address, size };
		large->in_files += size;
	} else {
		large->in_memory += size;
	}
	unlock(large);
	return address;
}

/* What is at an address, if that is a file's; nothing of memory begins with a page, but for
 * chance. */
static struct file *file_at(struct large *large, const void *address)
{
	if ((uintptr_t)address % PAGE_BYTES)
		return NULL;
	for (int64_t i = large->count - 1; i >= 0; i--)
		if (large->files[i].address == address)
			return &large->files[i];
	return NULL;
}

/* Its size; 0: it is in no file. */
static size_t size_in_file(struct large *large, const void *address)
{
	struct file *file;
	size_t size = 0;

	lock(large);
	file = file_at(large, address);
	if (file)
		size = file->size;
	unlock(large);
	return size;
}

static size_t forget(struct large *large, void *address, size_t told)
{
	struct file *file;
	size_t size = 0;

	lock(large);
	file = file_at(large, address);
	if (file) {
		size = file->size;
		large->in_files -= size;
		*file = large->files[--large->count];
	} else if (told >= large->least) {
		/* What was made larger or smaller since was not counted so. */
		large->in_memory -= told < large->in_memory ? told : large->in_memory;
	}
	unlock(large);
	return size;
}

PUBLIC void *large_malloc(struct large *large, size_t size)
{
	void *address = size >= large->least ? in_file(large, size) : NULL;

	return address ? address : large->malloc(large->own, size);
}

PUBLIC void *large_calloc(struct large *large, size_t count, size_t size)
{
	size_t all;
	void *address = NULL;

	/* A new file is all zeros. */
	if (!__builtin_mul_overflow(count, size, &all) && all >= large->least)
		address = in_file(large, all);
	return address ? address : large->calloc(large->own, count, size);
}

PUBLIC void large_free(struct large *large, void *address, size_t told)
{
	size_t size = forget(large, address, told);

	if (size)
		large->munmap(address, size);
	else
		large->free(large->own, address, told);
}

PUBLIC void *large_realloc(struct large *large, void *address, size_t size)
{
	size_t had = address ? size_in_file(large, address) : 0;
	void *moved;

	if (!had)
		return large->realloc(large->own, address, size);
	moved = large_malloc(large, size);
	if (moved) {
		__builtin_memcpy(moved, address, had < size ? had : size);
		large_free(large, address, had);
	}
	return moved;
}
