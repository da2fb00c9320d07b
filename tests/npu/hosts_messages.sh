#!/bin/sh
# Messages between two hosts: all ways a message can take, bounded memory for unexpected ones, completion levels, sleeping,
# a peer that is killed, a host that vanishes; RMA and atomics; device memory. NPU_HUGE=1 adds a message of more than 4 GiB.
. "${srcdir:-.}/tests/npu/lib.sh"
. "${srcdir:-.}/tests/npu/hosts.sh"
make_hosts
export PAIR_HOSTS="/run/netns/$host_a $addr_a /run/netns/$host_b $addr_b"

for case in sizes unexpected announced levels sleeping killed leaving ${NPU_HUGE:+huge}; do
    limited 300 tests/npu/hosts "$case" >"$scratch/out" 2>&1 || complain "$case: status $?: $(cat "$scratch/out")"
done
limited 300 env FI_NPU_PEER_TIMEOUT=1 tests/npu/hosts vanished >"$scratch/out" 2>&1 ||
    complain "vanished: status $?: $(cat "$scratch/out")"
limited 300 tests/npu/rma >"$scratch/out" 2>&1 || complain "RMA and atomics: status $?: $(cat "$scratch/out")"
export HCOMM_NPU="$build/.libs/libnpusim.so" NPUSIM_DEVICES=2
limited 300 tests/npu/hmem other >"$scratch/out" 2>&1 ||
    complain "device memory: status $?: $(cat "$scratch/out")"
for what in message write read; do
    for side in 0 1; do
        limited 300 env NPUSIM_FAULT="$side:copy@20" tests/npu/hmem "$what" >"$scratch/out" 2>&1 ||
            complain "a failing copy, $what, side $side: status $?: $(cat "$scratch/out")"
    done
done
[ "$failed" -eq 0 ]
