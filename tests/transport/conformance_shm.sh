#!/bin/sh
# The transport conformance suite over shm.
exec ./tests/transport/conformance shm
