#!/bin/bash
# A sender that dies in the middle of a message: its receive fails, half the message is never taken for the whole.
set -u
build=${top_builddir:-.}
program=$build/tests/failure/halfway
for arguments in "posted 65536" "blocking 32768" "late 65536" "posted 1048576"; do
    # shellcheck disable=SC2086 # two arguments
    out=$(HCOMM_TRANSPORTS=shm timeout 300 "$build/hcommrun" --on-failure continue --oversubscribe -n 2 \
        "$program" $arguments 2>&1)
    code=$?
    if ! grep -q '^survived$' <<<"$out" || [ "$code" != 137 ]; then
        echo "FAIL: $arguments: exit code $code (137 expected)"
        printf '%s\n' "$out"
        exit 1
    fi
    echo "ok $arguments"
done
