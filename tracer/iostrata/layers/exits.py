# SPDX-License-Identifier: Apache-2.0
"""Why a virtual CPU left guest mode: the processor's own number in, its name out.

Names are those of Linux, without their prefix and in small letters: asm/svm.h and asm/vmx.h
of its user-space headers, which follow AMD's manual, volume 2, appendix C ("SVM intercept
exit codes"), and Intel's, volume 3, appendix C ("VMX basic exit reasons").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

# enum kvm_isa of bpf/events.h
VMX: Final = 1
SVM: Final = 2
NOT_KNOWN: Final = 0xFFFF_FFFF

# One after the other, from the given number on.
SVM_RUNS: Final = {
    0x060: "intr nmi smi init vintr cr0_sel_write idtr_read gdtr_read ldtr_read tr_read "
    "idtr_write gdtr_write ldtr_write tr_write rdtsc rdpmc pushf popf cpuid rsm iret swint invd "
    "pause hlt invlpg invlpga ioio msr task_switch ferr_freeze shutdown vmrun vmmcall vmload "
    "vmsave stgi clgi skinit rdtscp icebp wbinvd monitor mwait mwait_cond xsetbv rdpru "
    "efer_write_trap",
    0x0A2: "invpcid",
    0x0A5: "bus_lock idle_hlt",
    0x400: "npf avic_incomplete_ipi avic_unaccelerated_access vmgexit",
    0x407: "pml_full",
}
VMX_RUNS: Final = {
    0: "exception_nmi external_interrupt triple_fault init_signal sipi_signal",
    7: "interrupt_window nmi_window task_switch cpuid",
    12: "hlt invd invlpg rdpmc rdtsc",
    18: "vmcall vmclear vmlaunch vmptrld vmptrst vmread vmresume vmwrite vmoff vmon cr_access "
    "dr_access io_instruction msr_read msr_write invalid_state msr_load_fail",
    36: "mwait_instruction monitor_trap_flag",
    39: "monitor_instruction pause_instruction mce_during_vmentry",
    43: "tpr_below_threshold apic_access eoi_induced gdtr_idtr ldtr_tr ept_violation "
    "ept_misconfig invept rdtscp preemption_timer invvpid wbinvd xsetbv apic_write rdrand invpcid "
    "vmfunc encls rdseed pml_full xsaves xrstors",
    67: "umwait tpause",
    74: "bus_lock notify seamcall tdcall",
    84: "msr_read_imm msr_write_imm",
}
# A guest that has nothing to do leaves by one of these.
IDLE: Final = {
    SVM: ("hlt", "idle_hlt", "mwait", "mwait_cond"),
    VMX: ("hlt", "mwait_instruction"),
}


def _in_runs(runs: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    for first, names in runs.items():
        yield from enumerate(names.split(), first)


def _svm_registers() -> Iterator[tuple[int, str]]:
    for number in range(16):
        yield 0x000 + number, f"read_cr{number}"
        yield 0x010 + number, f"write_cr{number}"
        yield 0x020 + number, f"read_dr{number}"
        yield 0x030 + number, f"write_dr{number}"
        yield 0x090 + number, f"cr{number}_write_trap"
    for vector in range(32):
        yield 0x040 + vector, f"exception_{vector}"


NAMES: Final[Mapping[int, Mapping[int, str]]] = {
    SVM: dict([*_svm_registers(), *_in_runs(SVM_RUNS)]),
    VMX: dict(_in_runs(VMX_RUNS)),
}


def exit_name(isa: int, reason: int) -> str:
    """A number that has no name here is shown as it is; what the recorder could not read, so."""
    if reason == NOT_KNOWN:
        return "not known"
    return NAMES.get(isa, {}).get(reason, f"{reason:#x}")


def is_idle(isa: NDArray[np.integer], reason: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Of exits, equal length: whether the guest had nothing to do."""
    idle = np.zeros(len(reason), np.bool_)
    for number, names in IDLE.items():
        reasons = [reason for reason, name in NAMES[number].items() if name in names]
        idle |= (isa == number) & np.isin(reason, reasons)
    return idle
