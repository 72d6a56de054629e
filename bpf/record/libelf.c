// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What elfutils 0.192's libelf.a (Debian 13) calls of elfutils' internal libeu.a, which no
 * package ships. The tree holds the chunks of elf_getdata_rawchunk, which nobody calls here:
 * it stays empty. Weak: a libelf.a that has its own keeps it.
 */
#include <stddef.h>

void eu_search_tree_init(void **root);
void eu_search_tree_fini(void **root, void (*free_node)(void *));

__attribute__((weak)) void eu_search_tree_init(void **root)
{
	*root = NULL;
}

__attribute__((weak)) void eu_search_tree_fini(void **root, void (*free_node)(void *))
{
	(void)root;
	(void)free_node;
}
