// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a recorder may still do once all is attached: it runs for hours, as root, and reads what
 * others name and write.  Its command was forked before, and loses nothing.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "record.h"

#define BIT(number) (1ull << (number))

/* The programs of a 32-bit program's calls, which may come later; /proc of others; an end of a
 * command that has another user. */
#define KEPT                                                                                \
	(BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYS_PTRACE) | \
	 BIT(CAP_KILL))
/* A daemon that begins later, or a virtual machine with a library, is found by
 * /proc/PID/map_files, and its functions are looked at: that needs all of it since kernel commit
 * ba677dbe77af ("perf: Revert to requiring CAP_SYS_ADMIN for uprobes"). */
#define KEPT_FOR_DAEMONS BIT(CAP_SYS_ADMIN)
/* The names of the kernel's functions, at the end. */
#define KEPT_FOR_STACKS BIT(CAP_SYSLOG)

/* Without these nothing is attached, in a container as well. */
static const struct {
	int number;
	const char *name;
} to_attach[] = {
	{ CAP_BPF, "CAP_BPF" },
	{ CAP_PERFMON, "CAP_PERFMON" },
};

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

/* No other program, no network, no other user, nothing mounted, no module, no other's memory. */
static const int refused[] = {
	SYS_execve,
	SYS_execveat,
	SYS_socket,
	SYS_socketpair,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_pidfd_getfd,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_setns,
	SYS_unshare,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setgroups,
	SYS_capset,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	SYS_userfaultfd,
	SYS_io_uring_setup,
	SYS_symlinkat,
	SYS_linkat,
	SYS_mknodat,
	SYS_sethostname,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_personality,
};

#define REFUSED_COUNT (sizeof(refused) / sizeof(*refused))

static bool has(int number)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2] = {};

	return !syscall(SYS_capget, &head, sets) && sets[number / 32].effective >> number % 32 & 1;
}

void privileges_missing(char *text, size_t size)
{
	size_t used = 0;

	*text = 0;
	for (unsigned int i = 0; i < sizeof(to_attach) / sizeof(*to_attach) && used < size; i++) {
		if (!has(to_attach[i].number))
			used += snprintf(text + used, size - used, "%s%s", used ? " and " : "",
					 to_attach[i].name);
	}
}

bool privileges_reach_modules(void)
{
	return has(CAP_SYS_ADMIN);
}

static int drop_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];

	/* One that the kernel does not know ends them. */
	for (int number = 0; prctl(PR_CAPBSET_READ, number) >= 0; number++) {
		if (!(kept & BIT(number)) && prctl(PR_CAPBSET_DROP, number) && errno != EPERM)
			return -errno;
	}
	if (syscall(SYS_capget, &head, sets))
		return -errno;
	for (int half = 0; half < 2; half++) {
		sets[half].permitted &= (uint32_t)(kept >> 32 * half);
		sets[half].effective &= sets[half].permitted;
		sets[half].inheritable = 0;
	}
	return syscall(SYS_capset, &head, sets) ? -errno : 0;
}

static int refuse_calls(void)
{
#ifdef OWN_ARCH
	struct sock_filter code[REFUSED_COUNT + 6], *next = code;
	struct sock_fprog program = { .len = REFUSED_COUNT + 6, .filter = code };

	*next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					       offsetof(struct seccomp_data, arch));
	*next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 0,
					       REFUSED_COUNT + 2);
	*next++ = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
					       offsetof(struct seccomp_data, nr));
	for (unsigned int i = 0; i < REFUSED_COUNT; i++)
		*next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
						       REFUSED_COUNT + 1 - i, 0);
	/* x32's numbers are others. */
	*next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1u << 30, 1, 0);
	*next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	*next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	/* A kernel without seccomp has no filters (EINVAL): the rest holds. */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) && errno != EINVAL)
		return -errno;
#endif
	return 0;
}

int privileges_drop(const struct options *options)
{
	uint64_t kept = KEPT;
	int error;

	if (options->duties & (DUTY_BIT(virtiofs) | DUTY_BIT(osd) | DUTY_BIT(vmm)))
		kept |= KEPT_FOR_DAEMONS;
	if (options->why)
		kept |= KEPT_FOR_STACKS;

	error = drop_capabilities(kept);
	if (!error && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		error = -errno;
	if (!error)
		error = refuse_calls();
	if (error)
		fail("privileges cannot be dropped: %s", strerror(-error));
	return error;
}
