#!/bin/sh
# hcomm_perf runs every test with verified data: all kinds of memory, all modes, with and without progress thread,
# over every transport there is; and refuses a wrong command line with one line and exit code 2.
set -u
failures=0

complain() {
    echo "perf_checks: $*" >&2
    failures=$((failures + 1))
}

measure() {
    ranks=$1
    shift
    timeout 300 ./hcommrun --oversubscribe -n "$ranks" ./hcomm_perf --check -w 2 "$@" >/dev/null ||
        complain "hcomm_perf $* with $ranks ranks failed"
}

refuses() {
    said=$(./hcomm_perf "$@" 2>&1 >/dev/null)
    code=$?
    [ "$code" -eq 2 ] || complain "hcomm_perf $*: exit code $code, not 2"
    [ "$(printf '%s\n' "$said" | grep -c '^hcomm_perf: ')" -eq 1 ] || complain "hcomm_perf $* said: $said"
}

measure 2 -i 5 -s 0:256K --queue 1:1000 all
measure 3 -i 3 --queue 0:1000 match_rate
measure 2 -i 3 --queue 1000 --mode small -t shm,ofi:tcp match_rate
measure 4 -i 3 -s 1:4K one_to_many many_to_one mbw_mr multi_lat barrier
measure 2 -i 3 -s 1:128K --mode small latency bibw
measure 2 -i 3 -s 1:128K --mode large latency bibw
measure 2 -i 3 -s 4K:1M --memory hcomm --footprint 4M latency bw
measure 2 -i 3 -s 1:1M -t ofi:tcp latency bw
measure 2 -i 3 -s 64K:1M --compute device:2 overlap
HCOMM_NPU=sim measure 2 -i 3 -s 0:1M --memory device --footprint 2M latency bibw

refuses
refuses nothing_of_the_kind
refuses -s 4X:8 latency
refuses -s 8:4 latency
refuses -i 0 latency
refuses -T 0 latency
refuses -W
refuses --mode medium latency
refuses --memory tape latency
refuses --compute tape overlap
refuses --compute device: overlap
refuses --compute cpu:0 overlap
refuses --pin=a latency
refuses --csv --json latency
refuses -i 5 -T 1 latency
refuses -t shm,,ofi:tcp latency
refuses -t shm, latency
refuses -t shm+ latency
refuses --m auto latency
refuses --unknown latency

# bench/compare refuses before it measures.
compare_refuses() {
    words=$1
    shift
    said=$("$srcdir/bench/compare" "$@" 2>&1 >/dev/null)
    code=$?
    [ "$code" -eq 2 ] || complain "bench/compare $*: exit code $code, not 2"
    case $said in
    *"error: "*"$words"*) ;;
    *) complain "bench/compare $* said: $said" ;;
    esac
}
if command -v python3 >/dev/null; then
    compare_refuses "no group 'none'" --groups none
    compare_refuses "no subject 'MPICHH' in these groups: choose of hcomm, Open MPI, " --only MPICHH
    compare_refuses "no subject 'UCX tcp'" --groups shm --only "UCX tcp"
    compare_refuses "must be positive" --rounds 0
    compare_refuses "must be positive" --seconds 0
    compare_refuses "not MIN:MAX" --sizes 8
    compare_refuses "1024 is more than 8" --queues 1K:8
    compare_refuses "cannot write /nowhere/x" --csv /nowhere/x
    compare_refuses "cannot read /nowhere/x" --read /nowhere/x
fi

# A rank that cannot start says which one it is.
HCOMM_NUM_QP=99 PMIX_RANK=1 ./hcomm_perf latency 2>&1 | grep -q '^hcomm_perf: rank 1: start: HCOMM_NUM_QP' ||
    complain "rank 1 does not name itself when it cannot start"

# What a plot wants is looked for before anything is measured. The program itself, because its wrapper needs a PATH.
cannot_plot() {
    words=$1 path=$2
    shift 2
    said=$(PATH=$path LD_LIBRARY_PATH=.libs .libs/hcomm_perf -i 1 -s 8 "$@" latency 2>&1)
    code=$?
    [ "$code" -eq 1 ] || complain "hcomm_perf $*: exit code $code, not 1"
    case $said in
    "hcomm_perf: --plot: "*"$words"*) ;;
    *) complain "hcomm_perf $* said: $said" ;;
    esac
}
cannot_plot "install the package gnuplot" /nowhere --plot plot.svg
! command -v gnuplot >/dev/null || cannot_plot "cannot write" "$PATH" --plot /nowhere/plot.svg
# Nothing is left of a plot that came to nothing.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hcomm-perf.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' INT TERM HUP # sh does not come to the line above when a signal ends it
printf '#!/bin/sh\nexit 1\n' >"$scratch/gnuplot" && chmod +x "$scratch/gnuplot"
PATH=$scratch:$PATH timeout 300 ./hcommrun --oversubscribe -n 2 ./hcomm_perf -i 1 -s 8 --plot "$scratch/plot.svg" latency \
    >/dev/null 2>&1 && complain "a gnuplot that fails is not told"
[ ! -e "$scratch/plot.svg" ] || complain "an empty image is left"
[ "$failures" -eq 0 ]
