#!/bin/sh
# boot_jobs.sh RANKS SCENARIOS LAUNCHER [ARG...]: the bootstrap's scenarios (a list of names, or "all") under the
# launcher given, and an abort. Passes the launcher's status 77 (cannot run here) on.
set -u
ranks=$1 scenarios=$2
shift 2
[ "$scenarios" != all ] || scenarios="print exchange cancel deadline instances"
. "${srcdir:-.}/tests/multi/goes.sh"
out=$(mktemp "${TMPDIR:-/tmp}/hcomm-boot.XXXXXX") || exit 99
trap 'rm -f "$out" "$out.err"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it

die() {
    echo "boot_jobs.sh: $*" >&2
    cat "$out" "$out.err" >&2
    exit 1
}

for scenario in $scenarios; do
    go "$out" "$out.err" "$@" tests/multi/boot_exchange $scenario
    [ "$status" -ne 77 ] || { cat "$out.err" >&2; exit 77; }
    [ "$status" -eq 0 ] || die "$* boot_exchange $scenario ended with status $status"
    [ "$scenario" != print ] || [ "$(grep -c "^rank [0-9]* of $ranks, .* launched 1" "$out")" -eq "$ranks" ] ||
        die "not every rank finds itself in a job of $ranks"
done
timeout 300 "$@" tests/multi/boot_exchange abort >"$out" 2>"$out.err"
status=$?
[ "$status" -eq 7 ] || die "an abort with code 7 ended the launcher with status $status"
