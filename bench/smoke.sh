#!/bin/sh
# The bench for seconds: data are verified, costs per message counted, and every subject of the comparison that is
# installed runs once. In continuous integration ($CI) nothing may be left out.
srcdir=${srcdir:-..}
export srcdir
failures=0

step() {
    echo "== $*"
    script=$1
    shift
    "$srcdir/bench/$script" "$@"
    code=$?
    [ "$code" -ne 77 ] || [ -n "${CI:-}" ] || return
    [ "$code" -eq 0 ] || {
        echo "smoke: $script failed with code $code" >&2
        failures=$((failures + 1))
    }
}

# has PROGRAM SCRIPT: whether the peer's program is there with which the script compares.
has() {
    command -v "$1" >/dev/null && return
    echo "smoke: $2 is left out: $1 is not there" >&2
    [ -z "${CI:-}" ] || failures=$((failures + 1))
    return 1
}

step perf_checks.sh
step costs.sh
step ladder --build . --out . --steps 2
step compare --quick --groups shm,tcp,barrier,match --build .
step idle --build . --ranks 2,4 --seconds 0.5 --out .
has mpirun.openmpi startup && has mpiexec.mpich startup && step startup --build . --rounds 1 --ranks 2 --out .
has fi_pingpong npu_provider && step npu_provider --build . --rounds 1 --iterations 10 --size 64
exit "$failures"
