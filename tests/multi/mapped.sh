#!/bin/bash
# Memory that is mapped into peers: every combination, with and without permission to read others' memory,
# without address space to map it or files to hold it, over tcp; a rank that dies with it; nothing is left behind.
set -u
build=${top_builddir:-.}
run="sh ${srcdir:-.}/tests/multi/run.sh"
result=0
export EXPECT_MAPPED=1
$run tests/multi/mapped -n "2 4" -e HCOMM_TRANSPORTS=shm || result=$?
$run tests/multi/mapped -n "2" -e HCOMM_TRANSPORTS=shm -e HCOMM_PROGRESS_THREAD=on || result=$?
unset EXPECT_MAPPED
$run tests/multi/mapped -n "2" -e HCOMM_TRANSPORTS=ofi:tcp || result=$?
# No room to map the peer's memory: messages travel in pieces.
if [ -z "${HC_SANITIZE-}" ]; then
    out=$(timeout 300 "$build/hcommrun" -n 2 sh -c \
        "ulimit -v 600000; HCOMM_MEM_POOL_SIZE=256M exec $build/tests/multi/mapped" 2>&1) || {
        echo "FAIL without address space: $out"
        result=1
    }
fi
# No room in files for what is mapped, nor for the segment of shm: other ways are found, and no signal ends a rank.
for limit in "100000 shm" "100 shm,ofi:shm,ofi:npu,ofi:tcp"; do
    out=$(timeout 300 "$build/hcommrun" -n 2 sh -c \
        "ulimit -f ${limit% *}; HCOMM_TRANSPORTS=${limit#* } exec $build/tests/multi/mapped" 2>&1) || {
        echo "FAIL with ulimit -f and transports $limit: $out"
        result=1
    }
done
for transport in shm ofi:shm ofi:npu; do # alone they say what is too low, and how to mend it
    out=$(timeout 300 "$build/hcommrun" -n 2 sh -c \
        "ulimit -f 100; HCOMM_TRANSPORTS=$transport exec $build/tests/multi/mapped" 2>&1)
    grep -q "File too large; raise the limit (ulimit -f)" <<<"$out" || {
        echo "FAIL with ulimit -f: $transport does not name the limit: $out"
        result=1
    }
done
out=$(timeout 300 "$build/hcommrun" --on-failure continue --oversubscribe -n 3 \
    "$build/tests/multi/mapped_ends" 2>&1)
code=$?
survived=$(grep -c '^survived$' <<<"$out")
if [ "$survived" != 2 ] || [ "$code" != 137 ]; then
    echo "FAIL: $survived of 2 survived, exit code $code (137 expected)"
    printf '%s\n' "$out"
    result=1
fi
exit $result
