# Tests of tests/multi/ are listed here.

check_PROGRAMS += tests/multi/boot_exchange
tests_multi_boot_exchange_SOURCES = tests/multi/boot_exchange.c
tests_multi_boot_exchange_LDADD = libhcrt.la
EXTRA_DIST += tests/multi/boot_jobs.sh
HC_BOOT_CHECKS = \
	tests/multi/boot_hcommrun.sh \
	tests/multi/boot_openmpi.sh \
	tests/multi/boot_slurm.sh \
	tests/multi/info.sh
dist_check_SCRIPTS += $(HC_BOOT_CHECKS)
TESTS += $(HC_BOOT_CHECKS)

check_PROGRAMS += tests/multi/ring
tests_multi_ring_SOURCES = tests/multi/ring.c examples/ring_allreduce.c examples/ring_allreduce.h
tests_multi_ring_LDADD = libhcommrt.la

# The examples under other launchers.
EXTRA_DIST += tests/multi/goes.sh tests/multi/launched.sh tests/multi/slurm-run
HC_LAUNCHER_CHECKS = tests/multi/openmpi.sh tests/multi/ring.sh tests/multi/slurm.sh
dist_check_SCRIPTS += $(HC_LAUNCHER_CHECKS)
TESTS += $(HC_LAUNCHER_CHECKS)

# Programs that run.sh starts with several numbers of ranks; one script per subject says which.
dist_check_SCRIPTS += tests/multi/run.sh
MULTI_TESTS = tests/multi/barriers.sh tests/multi/communicators.sh tests/multi/namespaces.sh
dist_check_SCRIPTS += $(MULTI_TESTS)
TESTS += $(MULTI_TESTS)

check_PROGRAMS += tests/multi/barrier_failures tests/multi/barrier_order tests/multi/comm_shapes tests/multi/comm_threads
tests_multi_barrier_failures_SOURCES = tests/multi/barrier_failures.c tests/multi/check.h
tests_multi_barrier_failures_LDADD = libhcrt.la
tests_multi_barrier_order_SOURCES = tests/multi/barrier_order.c tests/multi/check.h
tests_multi_barrier_order_LDADD = libhcrt.la
tests_multi_comm_shapes_SOURCES = tests/multi/comm_shapes.c tests/multi/check.h
tests_multi_comm_shapes_LDADD = libhcrt.la
tests_multi_comm_threads_SOURCES = tests/multi/comm_threads.c tests/multi/check.h
tests_multi_comm_threads_LDADD = libhcrt.la

# Where ranks run.
check_PROGRAMS += tests/multi/placement
tests_multi_placement_SOURCES = tests/multi/placement.c tests/multi/check.h
tests_multi_placement_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/multi/placement.sh
TESTS += tests/multi/placement.sh

# Point-to-point messages.
check_PROGRAMS += tests/multi/p2p_messages \
	tests/multi/p2p_requests \
	tests/multi/p2p_threads \
	tests/multi/p2p_unfinished \
	tests/multi/p2p_withdraw \
	tests/multi/p2p_first \
	tests/multi/p2p_huge
tests_multi_p2p_messages_SOURCES = tests/multi/p2p_messages.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_p2p_messages_LDADD = libhcommrt.la
tests_multi_p2p_requests_SOURCES = tests/multi/p2p_requests.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_p2p_requests_LDADD = libhcommrt.la
tests_multi_p2p_threads_SOURCES = tests/multi/p2p_threads.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_p2p_threads_LDADD = libhcommrt.la
tests_multi_p2p_unfinished_SOURCES = tests/multi/p2p_unfinished.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_p2p_unfinished_LDADD = libhcommrt.la
tests_multi_p2p_withdraw_SOURCES = tests/multi/p2p_withdraw.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_p2p_withdraw_LDADD = libhcommrt.la
tests_multi_p2p_first_SOURCES = tests/multi/p2p_first.c tests/multi/check.h
tests_multi_p2p_first_LDADD = libhcommrt.la
tests_multi_p2p_huge_SOURCES = tests/multi/p2p_huge.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_p2p_huge_LDADD = libhcommrt.la
P2P_TESTS = tests/multi/p2p.sh tests/multi/p2p_modes.sh tests/multi/withdraw.sh tests/multi/first.sh
dist_check_SCRIPTS += $(P2P_TESTS)
TESTS += $(P2P_TESTS)

# Messages of ordinary memory that the kernel may copy.
check_PROGRAMS += tests/multi/lent tests/multi/one_copy
tests_multi_lent_SOURCES = tests/multi/lent.c tests/multi/check.h
tests_multi_lent_LDADD = libhcrt.la
tests_multi_one_copy_SOURCES = tests/multi/one_copy.c tests/multi/check.h
tests_multi_one_copy_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/multi/one_copy.sh
TESTS += tests/multi/one_copy.sh

# Messages through memory that is mapped into peers.
check_PROGRAMS += tests/multi/mapped tests/multi/mapped_ends
tests_multi_mapped_SOURCES = tests/multi/mapped.c tests/multi/check.h
tests_multi_mapped_LDADD = libhcommrt.la
tests_multi_mapped_ends_SOURCES = tests/multi/mapped_ends.c tests/multi/check.h
tests_multi_mapped_ends_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/multi/mapped.sh tests/multi/providers.sh
TESTS += tests/multi/mapped.sh tests/multi/providers.sh

# Random patterns against a model; check-long runs the full number of them.
check_PROGRAMS += tests/multi/model_random
tests_multi_model_random_SOURCES = tests/multi/model_random.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_model_random_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/multi/model.sh
TESTS += tests/multi/model.sh
.PHONY: check-long
check-long: all $(check_PROGRAMS)
	srcdir=$(srcdir) sh $(srcdir)/tests/multi/model.sh long

check_PROGRAMS += tests/multi/settings_effects
tests_multi_settings_effects_SOURCES = tests/multi/settings_effects.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_settings_effects_LDADD = libhcommrt.la
dist_check_SCRIPTS += tests/multi/settings.sh
TESTS += tests/multi/settings.sh

# Streams, events, groups: host only, and on simulated devices.
check_PROGRAMS += tests/multi/streams_order tests/multi/streams_model tests/multi/streams_failures \
	tests/multi/streams_device tests/multi/streams_threads
tests_multi_streams_threads_SOURCES = tests/multi/streams_threads.c tests/multi/streams_cases.h tests/multi/check.h
tests_multi_streams_threads_LDADD = libhcrt.la
tests_multi_streams_failures_SOURCES = tests/multi/streams_failures.c tests/multi/streams_cases.h tests/multi/check.h
tests_multi_streams_failures_LDADD = libhcrt.la
tests_multi_streams_device_SOURCES = tests/multi/streams_device.c tests/multi/streams_cases.h tests/multi/check.h
tests_multi_streams_device_LDADD = libhcrt.la
tests_multi_streams_model_SOURCES = tests/multi/streams_model.c tests/multi/streams_cases.h tests/multi/check.h
tests_multi_streams_model_LDADD = libhcrt.la
tests_multi_streams_order_SOURCES = tests/multi/streams_order.c tests/multi/streams_cases.h tests/multi/check.h
tests_multi_streams_order_LDADD = libhcrt.la
STREAMS_TESTS = tests/multi/streams.sh
dist_check_SCRIPTS += $(STREAMS_TESTS)
TESTS += $(STREAMS_TESTS)

# Transfers, buffers.
check_PROGRAMS += tests/multi/transfer_calls
tests_multi_transfer_calls_SOURCES = tests/multi/transfer_calls.c tests/multi/check.h
tests_multi_transfer_calls_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/buffer_pools
tests_multi_buffer_pools_SOURCES = tests/multi/buffer_pools.c tests/multi/check.h
tests_multi_buffer_pools_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/transfer_program
tests_multi_transfer_program_SOURCES = tests/multi/transfer_program.c tests/multi/check.h
tests_multi_transfer_program_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/prefetch_batches
tests_multi_prefetch_batches_SOURCES = tests/multi/prefetch_batches.c tests/multi/check.h
tests_multi_prefetch_batches_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/transfer_device
tests_multi_transfer_device_SOURCES = tests/multi/transfer_device.c tests/multi/check.h
tests_multi_transfer_device_LDADD = libhcrt.la
dist_check_SCRIPTS += tests/multi/transfers.sh
TESTS += tests/multi/transfers.sh

# Messages in device memory, on the simulator.
check_PROGRAMS += tests/multi/device_messages
tests_multi_device_messages_SOURCES = tests/multi/device_messages.c tests/multi/p2p_cases.h tests/multi/check.h
tests_multi_device_messages_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/device_threads
tests_multi_device_threads_SOURCES = tests/multi/device_threads.c tests/multi/check.h
tests_multi_device_threads_LDADD = libhcommrt.la
# Its malloc is the process's, which a sanitizer's would be, too.
if !SANITIZE_ADDRESS
if !SANITIZE_THREAD
check_PROGRAMS += tests/multi/device_allocations
endif
endif
tests_multi_device_allocations_SOURCES = tests/multi/device_allocations.c tests/multi/check.h
tests_multi_device_allocations_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/device_imports
tests_multi_device_imports_SOURCES = tests/multi/device_imports.c tests/multi/check.h
tests_multi_device_imports_LDADD = libhcommrt.la
check_PROGRAMS += tests/multi/device_registrations
tests_multi_device_registrations_SOURCES = tests/multi/device_registrations.c tests/multi/check.h
tests_multi_device_registrations_LDADD = libhcommrt.la
DEVICE_TESTS = tests/multi/device.sh tests/multi/device_hosts.sh tests/multi/device_threads.sh
dist_check_SCRIPTS += $(DEVICE_TESTS)
TESTS += $(DEVICE_TESTS)
