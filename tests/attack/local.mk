# What users, and strangers, should not do.
check_PROGRAMS += tests/attack/blob tests/attack/garbage tests/attack/misuse
tests_attack_blob_SOURCES = tests/attack/blob.c
tests_attack_blob_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_attack_blob_LDADD = libhcommrt.la $(PMIX_LIBS)
tests_attack_garbage_SOURCES = tests/attack/garbage.c
tests_attack_garbage_LDADD = libhcommrt.la
tests_attack_misuse_SOURCES = tests/attack/misuse.c
tests_attack_misuse_LDADD = libhcommrt.la
ATTACK_TESTS = tests/attack/attack.sh tests/attack/launcher.sh tests/attack/strangers.sh
dist_check_SCRIPTS += $(ATTACK_TESTS)
TESTS += $(ATTACK_TESTS)
