#!/bin/bash
# Ordinary memory that the kernel may copy at once, where it may.
set -u
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
export HCOMM_TRANSPORTS=shm
if ./hcomm_info --transports | grep -q 'single copy by cross-memory attach' &&
    [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ]; then
    $run tests/multi/one_copy -n 2 -e EXPECT_BOTH=65537 || result=1
    $run tests/multi/one_copy -n 2 -e EXPECT_BOTH=65537 -e HCOMM_PROGRESS_THREAD=on || result=1
    $run tests/multi/one_copy -n 2 -e EXPECT_BOTH=8192 -e HCOMM_MODE=LARGE_MSG || result=1
else
    echo "SKIP: no cross-memory attach, or one processor"
    exit 77
fi
exit $result
