#!/bin/sh
# launched.sh hello|train RANKS LAUNCHER [ARG...]: start an example with the launcher given and check what it
# prints. Passes the launcher's status 77 (cannot run here) on.
set -u
example=$1 ranks=$2
shift 2
. "${srcdir:-.}/tests/multi/goes.sh"
out=$(mktemp "${TMPDIR:-/tmp}/hcomm-launched.XXXXXX") || exit 99
trap 'rm -f "$out" "$out.err"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it

die() {
    echo "launched.sh: $*" >&2
    cat "$out" "$out.err" >&2
    exit 1
}

case $example in
hello) program=examples/hello ;;
train) program=examples/train_digits ;;
*) die "hello or train, not $example" ;;
esac

go "$out" "$out.err" "$@" "$program"
[ "$status" -ne 77 ] || { cat "$out.err" >&2; exit 77; }
[ "$status" -eq 0 ] || die "$* $program ended with status $status"

case $example in
hello)
    rank=0
    while [ "$rank" -lt "$ranks" ]; do
        grep -q "^hello from rank $rank of $ranks on " "$out" || die "no greeting from rank $rank of $ranks"
        rank=$((rank + 1))
    done
    [ "$(wc -l <"$out")" -eq "$ranks" ] || die "more lines than greetings"
    ;;
train)
    grep -q "ranks: $ranks\$" "$out" || die "not $ranks ranks"
    awk '/^test accuracy/ { found = $3 > 94 } END { exit !found }' "$out" || die "no accuracy above 94 %"
    grep -q '^weights .*, the same on all ranks$' "$out" || die "the ranks' weights differ"
    ;;
esac
