# Programs that the launcher tests start, and the tests themselves.
check_PROGRAMS += tests/launcher/pmix_client
tests_launcher_pmix_client_SOURCES = tests/launcher/pmix_client.c
tests_launcher_pmix_client_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_launcher_pmix_client_LDADD = $(PMIX_LIBS)
