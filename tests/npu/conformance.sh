#!/bin/sh
# The provider's objects and messages behave as libfabric's man pages say.
. "${srcdir:-.}/tests/npu/lib.sh"
for program in direct objects messages processes threads; do
    timeout 300 "tests/npu/$program" || complain "$program failed"
done
[ "$failed" -eq 0 ]
