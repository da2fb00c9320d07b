#!/bin/sh
# Streams, events and groups: without a device, and with one per rank from the simulator; the same must hold.
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
older=$(mktemp -d) || exit 99
trap 'rm -rf "$older"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
HCOMM_NPU=$PWD/.libs/libnpusim.so
export HCOMM_NPU

operations=1000
[ -z "${HC_SANITIZE-}" ] || operations=150 # instrumented programs take many times as long
# What must hold both ways.
host() {
    $run tests/multi/streams_order -n "1 2" || result=1
    $run tests/multi/streams_threads -n "1 2" || result=1
    $run tests/multi/streams_model -n "4" -- $operations || result=1
    $run tests/multi/streams_failures -n "2" -- stuck || result=1
    $run tests/multi/streams_failures -n "1" -- finalize || result=1
    $run tests/multi/streams_failures -n "1" -- forever || result=1
}
host
$run tests/multi/streams_order -n "2" -e HCOMM_TRANSPORTS=ofi:tcp || result=1
$run tests/multi/streams_model -n "4" -e HCOMM_TRANSPORTS=ofi:tcp -- $operations 7 || result=1

STREAMS_DEVICE=1
export STREAMS_DEVICE
host
$run tests/multi/streams_device -n "1" -e NPUSIM_STREAMS=40 || result=1
$run tests/multi/streams_device -n "1" -e NPUSIM_FAULT=0:copy@1 -- fault || result=1
# All functions of the device's streams on one thread: none may block it.
$run tests/multi/streams_order -n "2" -e NPUSIM_CALLBACK_THREADS=device || result=1
$run tests/multi/streams_model -n "4" -e NPUSIM_CALLBACK_THREADS=device -- $operations 8 || result=1
# Device runtimes without aclrtLaunchHostFunc: a thread of the context's runs the functions. Then without either.
hide() {
    LC_ALL=C sed "s/$2/$3/g" "$1"
}
hide "$HCOMM_NPU" aclrtLaunchHostFunc aclrtLaunchHostNone >"$older/libolder.so" || result=1
hide "$older/libolder.so" aclrtLaunchCallback aclrtLaunchNoneback >"$older/libneither.so" || result=1
HCOMM_NPU=$older/libolder.so
$run tests/multi/streams_device -n "1" -e NPUSIM_STREAMS=40 || result=1
$run tests/multi/streams_device -n "1" -e NPUSIM_FAULT=0:copy@1 -- fault || result=1
$run tests/multi/streams_order -n "2" || result=1
$run tests/multi/streams_threads -n "2" || result=1
$run tests/multi/streams_failures -n "1" -- finalize || result=1
$run tests/multi/streams_failures -n "1" -- forever || result=1
HCOMM_NPU=$older/libneither.so
$run tests/multi/streams_device -n "1" -- missing || result=1
exit $result
