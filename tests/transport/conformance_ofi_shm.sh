#!/bin/sh
# The transport conformance suite over libfabric's shared memory.
exec ./tests/transport/conformance ofi:shm
