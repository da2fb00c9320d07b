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
run -n 3 "$work/ring" abort
expect_code 17 "MPI_Abort decides the exit code"
expect_err 'rank 1 .*aborted the job with code 17' "MPI_Abort is reported"
[ -z "$(ls /dev/shm | grep "$(basename "$work")")" ] || fail "left in /dev/shm"
finish
