# What happens when processes die.
check_PROGRAMS += tests/failure/late tests/failure/traffic tests/failure/survivors
tests_failure_late_SOURCES = tests/failure/late.c
tests_failure_late_LDADD = libhcommrt.la
tests_failure_traffic_SOURCES = tests/failure/traffic.c
tests_failure_traffic_LDADD = libhcommrt.la
tests_failure_survivors_SOURCES = tests/failure/survivors.c
tests_failure_survivors_LDADD = libhcommrt.la
HC_FAILURE_CHECKS = tests/failure/late.sh tests/failure/survivors.sh tests/failure/kill_random.sh
dist_check_SCRIPTS += $(HC_FAILURE_CHECKS)
TESTS += $(HC_FAILURE_CHECKS)
