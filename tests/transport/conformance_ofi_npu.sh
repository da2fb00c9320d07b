#!/bin/sh
# The transport conformance suite over hcomm's own provider npu, with host memory.
HCOMM_NPU=off FI_PROVIDER_PATH=$(pwd)/.libs
export HCOMM_NPU FI_PROVIDER_PATH
exec ./tests/transport/conformance ofi:npu
