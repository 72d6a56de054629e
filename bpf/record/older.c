// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Opens the skeleton for a kernel whose BPF lacks instructions of its programs, which its verifier
 * refuses even where they are never reached: others take their place.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/bpf.h>

#include <bpf/libbpf.h>

#include "record.h"
#include "iostrata.skel.h"

/* Atomic operations that give the old value back: since Linux 5ffa25502b5a, in v5.12. */
static bool is_new_atomic(const struct bpf_insn *instruction)
{
	return BPF_CLASS(instruction->code) == BPF_STX &&
	       BPF_MODE(instruction->code) == BPF_ATOMIC && instruction->imm & BPF_FETCH;
}

static bool asks_for_typed_task(const struct bpf_insn *instruction)
{
	return instruction->code == (BPF_JMP | BPF_CALL) && !instruction->src_reg &&
	       instruction->imm == BPF_FUNC_get_current_task_btf;
}

/* An atomic operation does nothing then; the current task is an address only. */
static void replace(struct bpf_insn *instructions, size_t count, bool has_typed_task)
{
	for (size_t i = 0; i < count; i++) {
		if (instructions[i].code == (BPF_LD | BPF_IMM | BPF_DW))
			i++; /* its second half is no instruction */
		else if (is_new_atomic(&instructions[i]))
			instructions[i] = (struct bpf_insn){ .code = BPF_JMP | BPF_JA };
		else if (!has_typed_task && asks_for_typed_task(&instructions[i]))
			instructions[i].imm = BPF_FUNC_get_current_task;
	}
}

static void replace_all(char *object)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)object;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(object + head->e_shoff);
	bool has_typed_task = libbpf_probe_bpf_helper(BPF_PROG_TYPE_TRACEPOINT,
						      BPF_FUNC_get_current_task_btf, NULL) > 0;

	for (unsigned int i = 0; i < head->e_shnum; i++) {
		if (sections[i].sh_type == SHT_PROGBITS && sections[i].sh_flags & SHF_EXECINSTR)
			replace((struct bpf_insn *)(object + sections[i].sh_offset),
				sections[i].sh_size / sizeof(struct bpf_insn), has_typed_task);
	}
}

struct iostrata *older_open(const struct bpf_object_open_opts *options)
{
	struct iostrata *skeleton = calloc(1, sizeof(*skeleton));
	char *object = NULL;
	int error = skeleton ? iostrata__create_skeleton(skeleton) : -ENOMEM;

	if (!error)
		object = malloc(skeleton->skeleton->data_sz);
	if (!error && !object)
		error = -ENOMEM;
	if (!error) {
		memcpy(object, skeleton->skeleton->data, skeleton->skeleton->data_sz);
		replace_all(object);
		skeleton->skeleton->data = object;
		error = bpf_object__open_skeleton(skeleton->skeleton, options);
	}
	free(object);
	if (!error)
		return skeleton;
	iostrata__destroy(skeleton);
	errno = -error;
	return NULL;
}
