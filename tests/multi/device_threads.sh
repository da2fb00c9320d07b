#!/bin/sh
# Threads and device memory: short enough for ThreadSanitizer. Copies between host and device are made slow, so that one
# lasts while others are made.
HCOMM_NPU=$(pwd)/.libs/libnpusim.so
export HCOMM_NPU
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
NPUSIM_HOST_BANDWIDTH=32M $run tests/multi/device_threads -n 1 -- copies || result=$?
$run tests/multi/device_threads -n 2 -- messages || result=$?
exit $result
