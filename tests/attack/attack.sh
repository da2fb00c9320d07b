#!/bin/sh
# Users who do what they should not: every attempt ends with one clear line and the right exit code.
set -u
hcommrun=${top_builddir:-.}/hcommrun
misuse=${top_builddir:-.}/tests/attack/misuse
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
HCOMMRUN_OVERSUBSCRIBE=on
export HCOMMRUN_OVERSUBSCRIBE
failures=0

# expect CODE PATTERN DESCRIPTION COMMAND...: its exit code, and a line of its standard error
expect() {
	code=$1 pattern=$2 what=$3
	shift 3
	timeout 300 "$@" >"$work/out" 2>"$work/err"
	got=$?
	if [ $got -ne "$code" ] || { [ -n "$pattern" ] && ! grep -q -e "$pattern" "$work/err"; }; then
		failures=$((failures + 1))
		echo "FAIL: $what: exit code $got ($code expected), '$pattern' expected in:"
		head -n 10 "$work/err"
	fi
}

# A fork's child and a stale handle get errors; the rank that forked goes on over every transport.
for transports in shm ofi:tcp; do
	expect 0 '' "finalize twice over $transports" env HCOMM_TRANSPORTS=$transports "$hcommrun" -n 2 "$misuse" finalize
	expect 0 '' "use after fork over $transports" env HCOMM_TRANSPORTS=$transports "$hcommrun" -n 2 "$misuse" fork
done
expect 1 'without PMIx_Finalize (hcomm_finalize' 'exit without finalize' "$hcommrun" -n 2 "$misuse" leave

# Limits are looked at before anything is started.
# shellcheck disable=SC2016 # the inner shell expands
expect 125 'need at least .* open files, the limit is 12' 'few open files' \
	sh -c 'ulimit -n 12 && exec "$1" -n 2 true' sh "$hcommrun"
# shellcheck disable=SC2016
expect 125 '60000 ranks need at least' 'more ranks than files' \
	sh -c 'ulimit -n 1000 && exec "$1" -n 60000 true' sh "$hcommrun"

# Many dead children are reaped without looking at each again and again.
expect 3 'exited with code 3' 'many ranks that fail' "$hcommrun" -n 200 --grace 100 sh -c 'exit 3'

# shellcheck disable=SC2016
expect 125 'cannot write standard output' 'help on a full disk' sh -c '"$1" --help >/dev/full' sh "$hcommrun"
expect 3 "'bogus' (in \"bogus\") is not known here; there are .*shm.*ofi" 'an unknown transport' \
	env HCOMM_TRANSPORTS=bogus "$misuse" leave
expect 3 "'ofi:tpc' (in \"shm,ofi:tpc\") is not known here; there are .*shm.*ofi:tcp" 'one misspelt item' \
	env HCOMM_TRANSPORTS=shm,ofi:tpc "$misuse" leave
expect 3 "'tcp' (in \"tcp\") is not known here .did you mean ofi:tcp.*; there are .*shm.*ofi" 'half a name' \
	env HCOMM_TRANSPORTS=tcp "$misuse" leave
expect 3 'HCOMM_NET_IF=nope names no network interface of this machine; there are .*lo' 'an unknown interface' \
	env HCOMM_TRANSPORTS=ofi:tcp HCOMM_NET_IF=nope "$hcommrun" -n 2 "$misuse" leave

[ $failures -eq 0 ]
