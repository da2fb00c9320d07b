#!/bin/sh
# Transfers and buffers: between host memories, and with device memory on the simulator.
run="sh ${srcdir:-.}/tests/multi/run.sh"
HCOMM_NPU=.libs/libnpusim.so
export HCOMM_NPU
result=0
$run tests/multi/transfer_calls -n "1 2" || result=$?
$run tests/multi/buffer_pools -n "1 2" || result=$?
$run tests/multi/buffer_pools -n 1 -- device || result=$?
$run tests/multi/prefetch_batches -n 1 || result=$?
$run tests/multi/prefetch_batches -n 1 -- device || result=$?
$run tests/multi/transfer_program -n 1 || result=$?
$run tests/multi/transfer_program -n 1 -- device || result=$?
$run tests/multi/transfer_device -n 1 || result=$?
NPUSIM_HOST_LATENCY=50000000 $run tests/multi/transfer_device -n 1 -- slow || result=$?
NPUSIM_FAULT=0:copy@1 $run tests/multi/transfer_device -n 1 -- fault || result=$?
NPUSIM_FAULT=0:lost@1 $run tests/multi/transfer_device -n 1 -- lost || result=$?
exit $result
