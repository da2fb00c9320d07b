# Programs that the launcher tests start, and the tests themselves.
check_PROGRAMS += tests/launcher/pmix_client tests/launcher/helper
tests_launcher_pmix_client_SOURCES = tests/launcher/pmix_client.c
tests_launcher_pmix_client_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_launcher_pmix_client_LDADD = $(PMIX_LIBS)
tests_launcher_helper_SOURCES = tests/launcher/helper.c

LAUNCHER_TESTS = \
	tests/launcher/args.sh \
	tests/launcher/binding.sh \
	tests/launcher/exit.sh \
	tests/launcher/kill.sh \
	tests/launcher/oom.sh \
	tests/launcher/openmpi.sh \
	tests/launcher/pmix.sh \
	tests/launcher/stdio.sh
TESTS += $(LAUNCHER_TESTS)
dist_check_SCRIPTS += $(LAUNCHER_TESTS)
EXTRA_DIST += tests/launcher/lib.sh tests/launcher/openmpi_ring.c
