#!/bin/sh
# Ranks of one host in different name spaces of process ids or users: shared memory does not reach between them, so they
# meet through ofi:tcp, unless that is excluded, which one line says.
set -u
out=$(mktemp) || exit 99
trap 'rm -f "$out"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
result=0 ran=0

# in_rank_1 UNSHARE-OPTIONS PROGRAM...: rank 1 alone in name spaces of its own
in_rank_1() {
	options=$1
	shift
	# shellcheck disable=SC2016 # the inner shell expands
	timeout 300 ./hcommrun --oversubscribe -n 3 sh -c \
		'if [ "$PMIX_RANK" = 1 ]; then exec unshare $1 "$2"; else exec "$2"; fi' sh "$options" "$@" \
		>"$out" 2>&1 </dev/null
}

fail() {
	echo "FAIL: $*; it printed:"
	head -n 20 "$out"
	result=1
}

for options in '--pid --fork --mount-proc' '--user --map-root-user' '--user --map-root-user --pid --fork --mount-proc'; do
	# shellcheck disable=SC2086
	unshare $options true 2>/dev/null || {
		echo "left out: unshare $options is not allowed here"
		continue
	}
	ran=$((ran + 1))
	in_rank_1 "$options" tests/multi/ring || fail "ring with a rank under unshare $options: status $?"
	HCOMM_TRANSPORTS=shm in_rank_1 "$options" tests/multi/ring && fail "shm alone reaches over unshare $options"
	grep -q 'rank . on host .* cannot be reached .*HCOMM_TRANSPORTS=ofi:tcp works everywhere' "$out" ||
		fail "unshare $options with ofi excluded is not explained"
done
[ $ran -gt 0 ] || {
	echo "SKIP: unshare(1) may not make name spaces of process ids or users here"
	exit 77
}
[ $result -ne 0 ] || echo "ok: $ran kinds of name spaces"
exit $result
