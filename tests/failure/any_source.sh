#!/bin/bash
# Receives and probes from any source end when all other ranks are lost, and not before.
set -u
build=${top_builddir:-.}
for transports in shm ofi:tcp; do
    out=$(HCOMM_TRANSPORTS=$transports timeout 300 "$build/hcommrun" --on-failure continue --oversubscribe -n 3 \
        "$build/tests/failure/any_source" 2>&1)
    code=$?
    if ! grep -q '^survived$' <<<"$out" || [ "$code" != 137 ]; then
        echo "FAIL over $transports: exit code $code (137 expected)"
        printf '%s\n' "$out"
        exit 1
    fi
    echo "ok over $transports"
done
