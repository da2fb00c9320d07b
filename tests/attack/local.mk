# What users should not do.
check_PROGRAMS += tests/attack/misuse
tests_attack_misuse_SOURCES = tests/attack/misuse.c
tests_attack_misuse_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/attack/attack.sh
TESTS += tests/attack/attack.sh
