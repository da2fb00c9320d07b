#!/bin/sh
# How long 16 MiB take between two hosts, from host and from device memory: a measurement, no test. Run in the build folder:
# srcdir=... sh .../tests/npu/hosts_rate.sh [BANDWIDTH of the devices in bytes per second, default 1G]
. "${srcdir:-.}/tests/npu/lib.sh"
. "${srcdir:-.}/tests/npu/hosts.sh"
make_hosts
export PAIR_HOSTS="/run/netns/$host_a $addr_a /run/netns/$host_b $addr_b"
export HCOMM_NPU="$build/.libs/libnpusim.so" NPUSIM_DEVICES=2 NPUSIM_HOST_BANDWIDTH="${1:-1G}"
echo "device bandwidth $NPUSIM_HOST_BANDWIDTH byte/s per direction; medians"
timeout 300 tests/npu/hmem rate
