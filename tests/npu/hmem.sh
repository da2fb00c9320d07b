#!/bin/sh
# Memory of simulated devices in the provider: two devices or one, copied by engines or through the host.
. "${srcdir:-.}/tests/npu/lib.sh"
export HCOMM_NPU="$build/.libs/libnpusim.so" NPUSIM_DEVICES=2
for devices in other same; do
    "$build/tests/npu/hmem" $devices || complain "$devices device, copied by engines"
    FI_NPU_DIRECT_COPY=0 "$build/tests/npu/hmem" $devices || complain "$devices device, through the host"
done
[ "$failed" -eq 0 ]
