#!/bin/sh
# The whole bench for seconds: data are verified, costs per message counted, and every subject of the comparison
# that is installed runs once.
srcdir=${srcdir:-..}
export srcdir
failures=0
for step in bench/perf_checks.sh bench/costs.sh "bench/compare --quick --build ."; do
    echo "== $step"
    # shellcheck disable=SC2086
    "$srcdir"/$step
    code=$?
    case $code in
    0 | 77) ;;
    *)
        echo "smoke: $step failed with code $code" >&2
        failures=$((failures + 1))
        ;;
    esac
done
exit "$failures"
