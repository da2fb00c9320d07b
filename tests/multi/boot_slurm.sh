#!/bin/sh
# The bootstrap under Slurm's srun, on one node and on two. Between nodes only what a program does: Slurm's PMIx
# plugin gives up sending between two nodes of one host when requests come in hundreds.
run=${srcdir:-.}/tests/multi/slurm-run
jobs=${srcdir:-.}/tests/multi/boot_jobs.sh
"$run" -N 1 sh "$jobs" 4 all srun --mpi=pmix -n 4 || exit
"$run" -N 2 sh "$jobs" 4 "print exchange instances" srun --mpi=pmix -N 2 -n 4
