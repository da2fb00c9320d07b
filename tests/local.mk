# What scripts among the tests need to know of the build.
AM_TESTS_ENVIRONMENT = CC='$(CC)' CXX='$(CXX)' PKG_CONFIG='$(PKG_CONFIG)' HC_SANITIZE='$(HC_SANITIZE)' \
	CRITERION_VERBOSITY_LEVEL=2 \
	LSAN_OPTIONS=suppressions=$(abs_top_srcdir)/tests/lsan.supp:print_suppressions=0; \
	export CC CXX PKG_CONFIG HC_SANITIZE CRITERION_VERBOSITY_LEVEL LSAN_OPTIONS;

include tests/unit/local.mk
include tests/transport/local.mk
include tests/npu/local.mk
include tests/npusim/local.mk
include tests/multi/local.mk
include tests/launcher/local.mk
include tests/fuzz/local.mk
include tests/check/local.mk
include tests/verbs/local.mk
include tests/install/local.mk
include tests/failure/local.mk
include tests/attack/local.mk
EXTRA_DIST += tests/lsan.supp

# Tests that wait more than they work, for time-outs and for processes to end, and look at nothing that other tests
# do: scripts/test runs several at a time.
HC_PATIENT_TESTS = \
	tests/attack/attack.sh \
	tests/attack/launcher.sh \
	tests/attack/strangers.sh \
	tests/failure/device_faults.sh \
	tests/failure/late.sh \
	tests/failure/survivors.sh \
	tests/launcher/args.sh \
	tests/launcher/exit.sh \
	tests/launcher/kill.sh \
	tests/launcher/pmix.sh \
	tests/launcher/stdio.sh \
	tests/multi/barriers.sh \
	tests/multi/boot_hcommrun.sh \
	tests/multi/boot_openmpi.sh \
	tests/multi/boot_slurm.sh \
	tests/multi/openmpi.sh \
	tests/multi/settings.sh \
	tests/multi/slurm.sh \
	tests/multi/withdraw.sh
print-tests:
	@echo $(TESTS)
print-patient-tests:
	@echo $(HC_PATIENT_TESTS)
.PHONY: print-tests print-patient-tests
