# What scripts among the tests need to know of the build.
AM_TESTS_ENVIRONMENT = CC='$(CC)' CXX='$(CXX)' PKG_CONFIG='$(PKG_CONFIG)' HC_SANITIZE='$(HC_SANITIZE)' \
	CRITERION_VERBOSITY_LEVEL=2 \
	LSAN_OPTIONS=suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0; \
	export CC CXX PKG_CONFIG HC_SANITIZE CRITERION_VERBOSITY_LEVEL LSAN_OPTIONS;

# The folders with the longest tests first: make -j begins them in this order.
include tests/failure/local.mk
include tests/multi/local.mk
include tests/unit/local.mk
include tests/transport/local.mk
include tests/npu/local.mk
include tests/npusim/local.mk
include tests/launcher/local.mk
include tests/fuzz/local.mk
include tests/check/local.mk
include tests/verbs/local.mk
include tests/install/local.mk
include tests/attack/local.mk
EXTRA_DIST += tests/lsan.supp

print-tests:
	@echo $(TESTS)
.PHONY: print-tests
