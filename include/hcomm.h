/*
 * hcomm: communication runtime for collective libraries. This header brings in the whole public interface.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef HCOMM_H
#define HCOMM_H

#include <hcomm/comm.h>
#include <hcomm/config.h>
#include <hcomm/context.h>
#include <hcomm/mem.h>
#include <hcomm/p2p.h>
#include <hcomm/pool.h>
#include <hcomm/prefetch.h>
#include <hcomm/request.h>
#include <hcomm/stream.h>
#include <hcomm/topo.h>
#include <hcomm/transfer.h>
#include <hcomm/types.h>

#endif
