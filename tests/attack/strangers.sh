#!/bin/sh
# Bytes from where nobody should send any: connections at the port of ofi:tcp, descriptions published by a process that
# is no member.
set -u
hcommrun=${top_builddir:-.}/hcommrun
tests=${top_builddir:-.}/tests/attack
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
failures=0

# survive NAME=VALUE COMMAND...
survive() {
	timeout 300 env HCOMMRUN_OVERSUBSCRIBE=on "$@" >"$out" 2>&1 </dev/null && return
	code=$?
	[ $code -eq 77 ] && cat "$out" && return
	failures=$((failures + 1))
	echo "FAIL: exit code $code of $*; it printed:"
	head -n 20 "$out"
}

survive HCOMM_TRANSPORTS=ofi:tcp "$hcommrun" -n 2 "$tests/garbage"
for seed in 1 2 3; do
	survive HCOMM_TRANSPORTS=shm "$hcommrun" -n 2 "$tests/blob" noise $seed
done
for seed in 1 2 3 4; do
	survive HCOMM_TRANSPORTS=shm "$hcommrun" -n 2 "$tests/blob" flip $seed
	survive HCOMM_TRANSPORTS=ofi:tcp "$hcommrun" -n 2 "$tests/blob" flip $seed
done
[ $failures -eq 0 ]
