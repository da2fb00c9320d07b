#!/bin/bash
# Operations with a dead rank fail and name it; operations with others go on; finalize ends.
set -u
build=${top_builddir:-.}
program=$build/tests/failure/survivors
for transports in shm ofi:tcp; do
    out=$(HCOMM_TRANSPORTS=$transports timeout 300 "$build/hcommrun" --on-failure continue --oversubscribe -n 4 \
        "$program" 2>&1)
    code=$?
    survived=$(grep -c '^survived$' <<<"$out")
    if [ "$survived" != 3 ] || [ "$code" != 137 ]; then
        echo "FAIL over $transports: $survived of 3 survived, exit code $code (137 expected)"
        printf '%s\n' "$out"
        exit 1
    fi
    echo "ok over $transports"
done
