#!/bin/sh
# Programs built with Open MPI find each other under hcommrun.
. "$(dirname "$0")/lib.sh"
if ! command -v mpicc.openmpi >/dev/null; then
	echo "skipped: mpicc.openmpi is missing (Debian package libopenmpi-dev)"
	exit 77
fi
mpicc.openmpi -o "$work/ring" "$(dirname "$0")/openmpi_ring.c" || exit 99
for n in 1 2 4; do
	run -n $n "$work/ring"
	expect_code 0 "Open MPI program with $n ranks"
	expect_out "ring of $n ranks: ok" "Open MPI program with $n ranks"
done
run --bind-to core -n 4 "$work/ring"
expect_code 0 "bound Open MPI program"
# Its shared memory has names, which are removed after ranks that could not do it.
OMPI_MCA_btl_vader_backing_directory=$work/segments
export OMPI_MCA_btl_vader_backing_directory
mkdir "$work/segments"
no_segments() { [ -z "$(ls "$work/segments")" ]; }
expect_no_segments() { # DESCRIPTION
	no_segments || fail "$1 leaves shared memory: $(ls "$work/segments")"
}
for round in 1 2 3 4 5 6 7 8 9 10; do
	run -n 3 "$work/ring" abort
	expect_code 17 "MPI_Abort decides the exit code"
	expect_err 'rank 1 .*aborted the job with code 17' "MPI_Abort is reported"
	expect_no_segments "MPI_Abort"
done
start -n 2 "$work/ring" wait
wait_for grep -q waiting "$work/out" || fail "the ranks do not start"
kill -KILL "$launcher"
wait "$launcher" 2>/dev/null
expect_nothing_left "kill -9 of hcommrun with Open MPI's ranks"
wait_for no_segments || fail "kill -9 of hcommrun leaves shared memory: $(ls "$work/segments")"
finish
