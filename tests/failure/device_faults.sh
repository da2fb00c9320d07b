#!/bin/bash
# Devices and processes that fail under messages in device memory, on the simulator: what failed says so, the rest
# goes on, nothing hangs.
set -u
build=${top_builddir:-.}
export HCOMM_NPU=$build/.libs/libnpusim.so
program=$build/tests/failure/device_faults
failures=0

# run RANKS WELL CASE...: so many ranks must end well; the environment is the caller's.
run() {
    local ranks=$1 well=$2 out code count
    shift 2
    out=$(timeout 300 "$build/hcommrun" --on-failure continue --oversubscribe -n "$ranks" "$program" "$@" 2>&1)
    code=$?
    count=$(grep -c '^well$' <<<"$out")
    if [ "$count" != "$well" ] || [ "$code" = 124 ]; then
        echo "FAIL $*: $count of $well ranks ended well, exit code $code"
        printf '%s\n' "$out"
        failures=$((failures + 1))
        return
    fi
    last=$out
    echo "ok   $*"
}

NPUSIM_FAULT=1:lost@5 run 3 3 lost 1
for copy in 3 8 13; do
    NPUSIM_FAULT=1:copy@$copy run 2 2 copy 1
    NPUSIM_FAULT=1:copy@$copy HCOMM_DEVICE_IPC=off run 2 2 copy 1
    NPUSIM_FAULT=0:copy@$copy HCOMM_TRANSPORTS=ofi:tcp HCOMM_DEVICE_IPC=off run 2 2 copy 0
done
run 3 2 dies 1
HCOMM_DEVICE_IPC=off run 3 2 dies 1
HCOMM_DEVICE_IPC=off HCOMM_TRANSPORTS=ofi:tcp run 3 2 dies 1
HCOMM_TIMEOUT_MS=3000 run 2 2 timeout
HCOMM_TIMEOUT_MS=3000 HCOMM_DEVICE_IPC=off run 2 2 timeout
last=
HCOMM_LOG=info NPUSIM_TOPOLOGY=pairs ASCEND_RT_VISIBLE_DEVICES=0,2 run 2 2 denied
grep -q 'device memory is not shared with rank [01] .*rank [01]: device [01] (physical [02])' <<<"$last" || {
    echo "FAIL denied: no line tells why"
    failures=$((failures + 1))
}
exit $((failures > 0))
