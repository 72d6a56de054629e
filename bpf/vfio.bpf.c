// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Devices that virtual machines have as their own: what these ask of them passes the host by, but
 * each of their interrupts (MSI, MSI-X) comes to it first.  facts/passthrough tells whose it is.
 */
#include "emit.bpf.h"
#include "stand_in.bpf.h"

PROGRAM("fentry/vfio_msihandler", vfio_interrupt, __u64 *ctx)
{
	union event *e = emit_reserve(POINT_vfio_interrupt);

	if (!e)
		return 0;
	e->vfio_interrupt.irq = ctx[0];
	emit_submit(e, POINT_vfio_interrupt);
	return 0;
}
