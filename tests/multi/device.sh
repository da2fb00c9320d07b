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
# Four pieces of pinned memory for all messages: most arrive where none is free.
$run $program -n "4" -e HCOMM_DEVICE_IPC=off -e HCOMM_BUFFER_SIZE=1M || result=$?
$run $program -n "3" -e TEST_DEVICES=even -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
$run $program -n "3" -e TEST_DEVICES=even || result=$?
$run $program -n "2" -e HCOMM_TRANSPORTS=ofi:npu -e HCOMM_DEVICE_IPC=off || result=$?
# Imports refused, because the exporter knows the importer by another id: staged, and every rank says once why.
out=$(mktemp) || exit 99
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$out" "$folder"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
why='warn: device memory is not shared with .*: rank \([01]\): device \1 (physical \1): importing memory of physical device'
NPUSIM_BARE_TGID=1 timeout 300 ./hcommrun -n 2 $program >"$out" 2>&1 </dev/null || result=$?
grep "$why [01]: no permission (code 207006.*run all ranks as one user and in one container" "$out" | wc -l | grep -qx 2 || {
    echo "FAIL: refused imports are not told of by both ranks; it printed:"
    cat "$out"
    result=1
}
$run tests/multi/device_registrations -n 2 -e HCOMM_TRANSPORTS=ofi:npu -e HCOMM_DEVICE_IPC=off || result=$?
# Imports that are kept, and memory that is freed meanwhile.
$run tests/multi/device_imports -n 2 -- many || result=$?
$run tests/multi/device_imports -n 2 -e NPUSIM_MEMORY=64M -- outside "$folder" || result=$?
rm -f "$folder"/*
NPUSIM_MEMORY=64M timeout 300 ./hcommrun --on-failure continue -n 2 tests/multi/device_imports dies "$folder" >"$out" 2>&1 </dev/null
code=$?
if [ $code -eq 137 ] && grep -qx freed "$out"; then
    echo "ok    memory comes back from a process that dies"
else
    echo "FAIL: memory does not come back from a process that dies: status $code (137 expected); it printed:"
    cat "$out"
    result=1
fi
[ -n "${HC_SANITIZE-}" ] && exit $result # the rest is more of the same
$run $program -n "3" -e TEST_DEVICES=even -e HCOMM_TRANSPORTS=ofi:npu || result=$?
$run tests/multi/device_allocations -n 2 || result=$?
$run $program -n "3" -e TEST_DEVICES=same || result=$?
$run $program -n "4" -e NPUSIM_TOPOLOGY=pairs || result=$?
$run $program -n "2" -e ASCEND_RT_VISIBLE_DEVICES=2,3 || result=$?
$run $program -n "2" -e HCOMM_PROGRESS_THREAD=on || result=$?
$run $program -n "2" -e HCOMM_MODE=large_msg -e HCOMM_BUFFER_SIZE=1M -e HCOMM_QUEUE_DEPTH=1 || result=$?
exit $result
