#!/bin/sh
# The transport conformance suite over libfabric's tcp.
exec ./tests/transport/conformance ofi:tcp
