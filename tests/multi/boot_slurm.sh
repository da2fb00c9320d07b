#!/bin/sh
# The bootstrap under Slurm's srun, on one node and on two.
run=${srcdir:-.}/tests/multi/slurm-run
jobs=${srcdir:-.}/tests/multi/boot_jobs.sh
"$run" -N 1 sh "$jobs" 4 srun --mpi=pmix -n 4 || exit
"$run" -N 2 sh "$jobs" 4 srun --mpi=pmix -N 2 -n 4
