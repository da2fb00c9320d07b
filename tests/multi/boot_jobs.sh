#!/bin/sh
# boot_jobs.sh RANKS SCENARIOS LAUNCHER [ARG...]: the bootstrap's scenarios (a list of names, or "all") under the
# launcher given, and an abort. Passes the launcher's status 77 (cannot run here) on.
set -u
ranks=$1 scenarios=$2
shift 2
[ "$scenarios" != all ] || scenarios="print exchange cancel deadline instances"
out=$(mktemp "${TMPDIR:-/tmp}/hcomm-boot.XXXXXX") || exit 99
trap 'rm -f "$out"' EXIT

die() {
    echo "boot_jobs.sh: $*" >&2
    cat "$out" >&2
    exit 1
}

# Slurm 22.05's daemons give up sending to each other when one of them starts slowly, and say so; that is not the
# bootstrap's failure, so it has up to three goes. A failure without those words counts at once.
run() {
    for go in 1 2 3; do
        timeout 120 "$@" >"$out" 2>&1
        status=$?
        [ "$status" -ne 0 ] && grep -q 'pmixp_p2p_send.*exceeded the retry limit' "$out" || return 0
        echo "go $go of $*: Slurm's own daemons did not reach each other" >&2
    done
}

for scenario in $scenarios; do
    run "$@" tests/multi/boot_exchange $scenario
    [ "$status" -ne 77 ] || { cat "$out" >&2; exit 77; }
    [ "$status" -eq 0 ] || die "$* boot_exchange $scenario ended with status $status"
    [ "$scenario" != print ] || [ "$(grep -c "^rank [0-9]* of $ranks, .* launched 1" "$out")" -eq "$ranks" ] ||
        die "not every rank finds itself in a job of $ranks"
done
timeout 60 "$@" tests/multi/boot_exchange abort >"$out" 2>&1
status=$?
[ "$status" -eq 7 ] || die "an abort with code 7 ended the launcher with status $status"
