#!/bin/sh
# Streams, events and groups: without a device, and with one per rank from the simulator; the same must hold.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
HCOMM_NPU=$PWD/.libs/libnpusim.so
export HCOMM_NPU
$run tests/multi/streams_order -n "1 2" || result=$?
$run tests/multi/streams_order -n "2" -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
$run tests/multi/streams_order -n "2" -e STREAMS_DEVICE=1 || result=$?
$run tests/multi/streams_order -n "2" -e NPUSIM_CALLBACK_THREADS=device || result=$?
exit $result
