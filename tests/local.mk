include tests/unit/local.mk
include tests/transport/local.mk
include tests/multi/local.mk
include tests/launcher/local.mk
include tests/fuzz/local.mk
include tests/check/local.mk
