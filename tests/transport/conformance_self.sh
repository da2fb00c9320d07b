#!/bin/sh
# The transport conformance suite over self.
exec ./tests/transport/conformance self
