# The libfabric provider: libfabric's own programs, and conformance cases after its man pages.
dist_check_SCRIPTS += tests/npu/info.sh tests/npu/pingpong.sh
TESTS += tests/npu/info.sh tests/npu/pingpong.sh
EXTRA_DIST += tests/npu/lib.sh
