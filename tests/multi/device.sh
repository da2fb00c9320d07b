#!/bin/sh
# Messages in device memory, on the simulator: over shared memory, and staged over tcp, as between hosts.
HCOMM_NPU=$(pwd)/.libs/libnpusim.so
export HCOMM_NPU
run="sh ${srcdir:-.}/tests/multi/run.sh"
program=tests/multi/device_messages
result=0
$run $program -n "1 2" || result=$?
$run $program -n "2" -e HCOMM_DEVICE_IPC=off || result=$?
$run $program -n "2" -e HCOMM_DEVICE_IPC=off -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
$run $program -n "3" -e TEST_DEVICES=even -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
$run $program -n "3" -e TEST_DEVICES=even || result=$?
[ -n "${HC_SANITIZE-}" ] && exit $result # the rest is more of the same
$run $program -n "3" -e TEST_DEVICES=same || result=$?
$run $program -n "4" -e NPUSIM_TOPOLOGY=pairs || result=$?
$run $program -n "2" -e ASCEND_RT_VISIBLE_DEVICES=2,3 || result=$?
$run $program -n "2" -e HCOMM_PROGRESS_THREAD=on || result=$?
$run $program -n "2" -e HCOMM_MODE=large_msg -e HCOMM_BUFFER_SIZE=1M -e HCOMM_QUEUE_DEPTH=1 || result=$?
exit $result
