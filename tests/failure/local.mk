# What happens when processes die.
check_PROGRAMS += tests/failure/late tests/failure/unread tests/failure/traffic tests/failure/survivors tests/failure/halfway \
	tests/failure/any_source
tests_failure_late_SOURCES = tests/failure/late.c
tests_failure_late_LDADD = libhcommrt.la
tests_failure_unread_SOURCES = tests/failure/unread.c
tests_failure_unread_LDADD = libhcommrt.la
tests_failure_traffic_SOURCES = tests/failure/traffic.c
tests_failure_traffic_LDADD = libhcommrt.la
tests_failure_survivors_SOURCES = tests/failure/survivors.c
tests_failure_survivors_LDADD = libhcommrt.la
tests_failure_any_source_SOURCES = tests/failure/any_source.c
tests_failure_any_source_LDADD = libhcommrt.la
tests_failure_halfway_SOURCES = tests/failure/halfway.c
tests_failure_halfway_LDADD = libhcommrt.la
HC_FAILURE_CHECKS = tests/failure/late.sh tests/failure/survivors.sh tests/failure/any_source.sh tests/failure/halfway.sh \
	tests/failure/kill_random.sh
dist_check_SCRIPTS += $(HC_FAILURE_CHECKS)
TESTS += $(HC_FAILURE_CHECKS)

# Devices that fail, on the simulator.
check_PROGRAMS += tests/failure/device_faults
tests_failure_device_faults_SOURCES = tests/failure/device_faults.c
tests_failure_device_faults_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/failure/device_faults.sh
TESTS += tests/failure/device_faults.sh
