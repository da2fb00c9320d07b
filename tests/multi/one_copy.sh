#!/bin/bash
# Ordinary memory that the kernel may copy at once, where it may.
set -u
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
# One rank may open the other's memory, but not the other way round: another transport serves both directions. Without
# root's capability to open all.
drop="setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace"
$drop true 2>/dev/null || drop=
for closed in 0 1; do
    # shellcheck disable=SC2086
    out=$(CLOSED=$closed HCOMM_TRANSPORTS=shm,ofi:tcp timeout 300 ./hcommrun -n 2 \
        $drop tests/multi/one_copy 2>&1) || {
        echo "FAIL when rank $closed cannot be opened: $out"
        result=1
    }
done
export HCOMM_TRANSPORTS=shm
if ./hcomm_info --transports | grep -q 'single copy by cross-memory attach' &&
    [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ]; then
    $run tests/multi/one_copy -n 2 -e EXPECT_BOTH=65537 || result=1
    $run tests/multi/one_copy -n 2 -e EXPECT_BOTH=65537 -e HCOMM_PROGRESS_THREAD=on || result=1
    $run tests/multi/one_copy -n 2 -e EXPECT_BOTH=8192 -e HCOMM_MODE=LARGE_MSG || result=1
    $run tests/multi/lent -n 2 || result=1
    $run tests/multi/lent -n 2 -e HCOMM_PROGRESS_THREAD=on || result=1
else
    echo "SKIP: no cross-memory attach, or one processor"
    [ "$result" -ne 0 ] || exit 77
fi
exit $result
