#!/bin/sh
# run.sh PROGRAM -n LIST [-t SECONDS] [-e NAME=VALUE]... [-- ARGUMENT...]
#
# Run a program with each number of ranks in LIST ("1 2 4"), one after the other, each at most SECONDS (300) long.
# Prints one line per run, and all a run printed when it fails. Paths are relative to the build folder. The launcher
# is hcommrun; TEST_LAUNCHER takes another, with its options: "mpirun.openmpi --oversubscribe".
# Status: 0 when all runs ended with 0; 77 when a program said that it cannot run here; 1 otherwise.
set -u
usage() {
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ $# -ge 1 ] || usage
program=$1
shift
list='' seconds=300 settings=''
while [ $# -gt 0 ]; do
    case $1 in
    -n) list=$2 ;;
    -t) seconds=$2 ;;
    -e)
        # Settings are exported: every launcher on one host passes its environment on, if asked in its own way.
        settings="$settings $2"
        export "${2?}"
        ;;
    --)
        shift
        break
        ;;
    *) usage ;;
    esac
    shift 2
done
[ -n "$list" ] || usage
[ -x "$program" ] || {
    echo "run.sh: $program is not there: run make check in the build folder" >&2
    exit 1
}
out=$(mktemp "${TMPDIR:-/tmp}/hcomm-multi.XXXXXX") || exit 99
trap 'rm -f "$out"' EXIT
trap 'exit 1' INT TERM HUP PIPE

result=0
for ranks in $list; do
    start=$(date +%s)
    # shellcheck disable=SC2086
    timeout --kill-after=10 "$seconds" ${TEST_LAUNCHER:-./hcommrun} -n "$ranks" "$program" "$@" \
        >"$out" 2>&1 </dev/null
    status=$?
    took=$(($(date +%s) - start))
    case $status in
    0) echo "ok    $program, $ranks ranks$settings ($took s)" ;;
    77)
        sed -n 's/^.*SKIP: */SKIP: /p' "$out" | head -n 1
        exit 77
        ;;
    *)
        [ "$status" -ne 124 ] && [ "$status" -ne 137 ] || why=", no end within $seconds s"
        echo "FAIL  $program, $ranks ranks$settings: status $status${why-} after $took s; it printed:"
        sed 's/^/      /' "$out"
        result=1
        ;;
    esac
    unset why
done
exit $result
