#!/bin/sh
# The examples run under Slurm's srun: hello and training.
run=${srcdir:-.}/tests/multi/slurm-run
check=${srcdir:-.}/tests/multi/launched.sh

sh "$check" hello 4 "$run" -N 1 srun --mpi=pmix -n 4 || exit
sh "$check" train 4 "$run" -N 1 srun --mpi=pmix -n 4
