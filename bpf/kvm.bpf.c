// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Virtual CPUs, as the host sees them: out of guest mode and in again, and the
 * interrupts that their machines are given.  Points whose arguments are numbers are
 * attached to as they are, which takes no types that only a module has.
 */
#include "stand_in.bpf.h"
#include "thread.bpf.h"

#define NOT_KNOWN -1u
#define VMX_BASIC_REASON 0xffff /* flags above */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kvm_vcpu {
	int vcpu_id;
};

struct vmcb_control_area {
	__u32 exit_code;
};

struct vmcb {
	struct vmcb_control_area control;
};

struct vcpu_svm {
	struct kvm_vcpu vcpu;
	struct vmcb *vmcb;
};

union vmx_exit_reason {
	__u32 full;
};

struct vcpu_vt {
	union vmx_exit_reason exit_reason;
};

struct vcpu_vmx {
	struct kvm_vcpu vcpu;
	struct vcpu_vt vt;
};

struct vcpu_vmx___before {
	union vmx_exit_reason exit_reason; /* in vt since Linux 7172c753c26a (in v6.16) */
};

#pragma clang attribute pop

static __always_inline __u32 svm_reason(struct kvm_vcpu *vcpu)
{
	struct vcpu_svm *svm;
	struct vmcb *vmcb;

	if (!bpf_core_field_exists(struct vcpu_svm, vmcb))
		return NOT_KNOWN;
	svm = (void *)vcpu - bpf_core_field_offset(struct vcpu_svm, vcpu);
	vmcb = PEEK(svm, vmcb);
	return PEEK(vmcb, control.exit_code);
}

static __always_inline __u32 vmx_reason(struct kvm_vcpu *vcpu)
{
	struct vcpu_vmx *vmx;

	if (!bpf_core_type_exists(struct vcpu_vmx))
		return NOT_KNOWN;
	vmx = (void *)vcpu - bpf_core_field_offset(struct vcpu_vmx, vcpu);
	if (bpf_core_field_exists(vmx->vt.exit_reason))
		return PEEK(vmx, vt.exit_reason.full) & VMX_BASIC_REASON;
	if (bpf_core_field_exists(struct vcpu_vmx___before, exit_reason))
		return PEEK((struct vcpu_vmx___before *)vmx, exit_reason.full) & VMX_BASIC_REASON;
	return NOT_KNOWN;
}

/* The current virtual CPU's thread, if its machine is recorded. */
static __always_inline struct thread *vcpu_thread(void)
{
	struct thread *thread = thread_of(current_tid());

	return thread && thread->kind == THREAD_VMM ? thread : NULL;
}

static __always_inline void left_guest(struct thread *thread, __u32 isa, __u32 reason, __u32 vcpu)
{
	thread->exit_isa = isa;
	thread->exit_reason = reason;
	thread->vcpu = vcpu;
	thread->exit_ns = bpf_ktime_get_ns();
}

PROGRAM("tp_btf/kvm_exit", kvm_exit, __u64 *ctx)
{
	struct kvm_vcpu *vcpu = ARGUMENT(struct kvm_vcpu *, 0);
	struct thread *thread = vcpu_thread();
	__u32 isa = ctx[1];

	if (!vcpu || !thread)
		return 0;
	left_guest(thread, isa, isa == KVM_ISA_SVM ? svm_reason(vcpu) : vmx_reason(vcpu),
		   vcpu->vcpu_id);
	return 0;
}

/* As above where nothing describes a module's points (before Linux 36e68442d1af, in v5.11).
 * There the reason is an argument (until Linux 0a62a0319abb, in v5.16); a kernel that has
 * one argument less refuses this program. */
SEC("raw_tp/kvm_exit")
int kvm_exit_blind(__u64 *ctx)
{
	struct thread *thread = vcpu_thread();

	if (thread)
		left_guest(thread, ctx[2], ctx[0], NOT_KNOWN);
	return 0;
}

/* As vcpu_thread(); a machine that was started after the recording is met when it first runs. */
static __always_inline struct thread *vcpu_thread_met(void)
{
	struct thread *thread = thread_that_serves();
	__u32 tgid = current_tgid();

	if (thread)
		return thread;
	thread_add(tgid, tgid, THREAD_VMM);
	return thread_that_serves();
}

SEC("raw_tp/kvm_entry")
int kvm_entry(__u64 *ctx)
{
	struct thread *thread = vcpu_thread_met();
	union event *e;

	(void)ctx;
	if (!thread || !thread->exit_ns)
		return 0;
	e = emit_reserve(POINT_kvm_exit);
	if (e) {
		e->kvm_exit.exit_ns = thread->exit_ns;
		e->kvm_exit.tgid = thread->tgid;
		e->kvm_exit.vcpu = thread->vcpu;
		e->kvm_exit.reason = thread->exit_reason;
		e->kvm_exit.isa = thread->exit_isa;
		emit_submit(e, POINT_kvm_exit);
	}
	thread->exit_ns = 0;
	return 0;
}

static __always_inline int interrupt(__u32 tgid, __u32 vcpu, __u32 vector, __u32 point)
{
	union event *e = emit_reserve(point);

	if (!e)
		return 0;
	e->kvm_msi.tgid = tgid;
	e->kvm_msi.vcpu = vcpu;
	e->kvm_msi.vector = vector;
	emit_submit(e, point);
	return 0;
}

/* A kernel thread may do it for any machine (vhost, irqfd's worker). */
SEC("raw_tp/kvm_msi_set_irq")
int kvm_msi(__u64 *ctx)
{
	struct thread *thread = vcpu_thread();

	if (!thread && !current_is_kernel_thread())
		return 0;
	return interrupt(thread ? thread->tgid : 0, NOT_KNOWN, ctx[1] & 0xff, POINT_kvm_msi);
}

SEC("raw_tp/kvm_inj_virq")
int kvm_inject(__u64 *ctx)
{
	struct thread *thread = vcpu_thread();

	if (!thread)
		return 0;
	return interrupt(thread->tgid, thread->exit_ns ? thread->vcpu : NOT_KNOWN, ctx[0],
			 POINT_kvm_inject);
}
