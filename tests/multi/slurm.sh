#!/bin/sh
# The examples run under Slurm's srun: hello on one node, training spread over two, over whatever is
# best and over tcp.
run=${srcdir:-.}/tests/multi/slurm-run
check=${srcdir:-.}/tests/multi/launched.sh

sh "$check" hello 4 "$run" -N 1 srun --mpi=pmix -n 4 || exit
sh "$check" train 4 "$run" -N 2 srun --mpi=pmix -N 2 -n 4 || exit
HCOMM_TRANSPORTS=self,shm,ofi:tcp sh "$check" train 4 "$run" -N 2 srun --mpi=pmix -N 2 -n 4
