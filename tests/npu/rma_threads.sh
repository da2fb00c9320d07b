#!/bin/sh
# RMA and atomics by several threads of one process, while registrations come and go.
. "${srcdir:-.}/tests/npu/lib.sh"
"$build/tests/npu/rma_threads" || complain "threads"
[ "$failed" -eq 0 ]
