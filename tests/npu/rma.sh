#!/bin/sh
# RMA and atomics of the provider, with direct copies across processes and, where they are denied, through rings.
. "${srcdir:-.}/tests/npu/lib.sh"
"$build/tests/npu/rma" || complain "with direct copies"
FI_NPU_DIRECT_COPY=0 "$build/tests/npu/rma" || complain "without direct copies"
[ "$failed" -eq 0 ]
