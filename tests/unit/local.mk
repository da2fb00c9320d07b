# Unit tests: one Criterion program per subject, linked against the internals.
if HAVE_CRITERION
UNIT_CFLAGS = $(AM_CFLAGS) $(CRITERION_CFLAGS)
UNIT_LIBS = libhcrt.la $(CRITERION_LIBS)
UNIT_TESTS =
# runtime/base, boot, topo
UNIT_TESTS += tests/unit/boot_single \
	tests/unit/boot_util \
	tests/unit/config_unknown \
	tests/unit/config_values \
	tests/unit/list_order \
	tests/unit/lock_threads \
	tests/unit/log_lines \
	tests/unit/pool_reuse \
	tests/unit/status_detail \
	tests/unit/topo_affinity \
	tests/unit/topo_cpulist \
	tests/unit/topo_host
tests_unit_boot_single_SOURCES = tests/unit/boot_single.c tests/unit/capture.h
tests_unit_boot_single_CFLAGS = $(UNIT_CFLAGS)
tests_unit_boot_single_LDADD = $(UNIT_LIBS)
tests_unit_boot_util_SOURCES = tests/unit/boot_util.c
tests_unit_boot_util_CFLAGS = $(UNIT_CFLAGS)
tests_unit_boot_util_LDADD = $(UNIT_LIBS)
tests_unit_config_unknown_SOURCES = tests/unit/config_unknown.c tests/unit/capture.h
tests_unit_config_unknown_CFLAGS = $(UNIT_CFLAGS)
tests_unit_config_unknown_LDADD = $(UNIT_LIBS)
tests_unit_config_values_SOURCES = tests/unit/config_values.c
tests_unit_config_values_CFLAGS = $(UNIT_CFLAGS)
tests_unit_config_values_LDADD = $(UNIT_LIBS)
tests_unit_list_order_SOURCES = tests/unit/list_order.c
tests_unit_list_order_CFLAGS = $(UNIT_CFLAGS)
tests_unit_list_order_LDADD = $(UNIT_LIBS)
tests_unit_lock_threads_SOURCES = tests/unit/lock_threads.c
tests_unit_lock_threads_CFLAGS = $(UNIT_CFLAGS)
tests_unit_lock_threads_LDADD = $(UNIT_LIBS)
tests_unit_log_lines_SOURCES = tests/unit/log_lines.c tests/unit/capture.h
tests_unit_log_lines_CFLAGS = $(UNIT_CFLAGS)
tests_unit_log_lines_LDADD = $(UNIT_LIBS)
tests_unit_pool_reuse_SOURCES = tests/unit/pool_reuse.c
tests_unit_pool_reuse_CFLAGS = $(UNIT_CFLAGS)
tests_unit_pool_reuse_LDADD = $(UNIT_LIBS)
tests_unit_status_detail_SOURCES = tests/unit/status_detail.c
tests_unit_status_detail_CFLAGS = $(UNIT_CFLAGS)
tests_unit_status_detail_LDADD = $(UNIT_LIBS)
tests_unit_topo_affinity_SOURCES = tests/unit/topo_affinity.c
tests_unit_topo_affinity_CFLAGS = $(UNIT_CFLAGS)
tests_unit_topo_affinity_LDADD = $(UNIT_LIBS)
tests_unit_topo_cpulist_SOURCES = tests/unit/topo_cpulist.c
tests_unit_topo_cpulist_CFLAGS = $(UNIT_CFLAGS)
tests_unit_topo_cpulist_LDADD = $(UNIT_LIBS)
tests_unit_topo_host_SOURCES = tests/unit/topo_host.c
tests_unit_topo_host_CFLAGS = $(UNIT_CFLAGS)
tests_unit_topo_host_LDADD = $(UNIT_LIBS)

# launcher
LAUNCHER_UNIT_LIBS = libhclaunch.la $(CRITERION_LIBS)
UNIT_TESTS += tests/unit/launcher_map \
	tests/unit/launcher_options \
	tests/unit/launcher_slurm
tests_unit_launcher_map_SOURCES = tests/unit/launcher_map.c
tests_unit_launcher_map_CFLAGS = $(UNIT_CFLAGS)
tests_unit_launcher_map_LDADD = $(LAUNCHER_UNIT_LIBS)
tests_unit_launcher_options_SOURCES = tests/unit/launcher_options.c
tests_unit_launcher_options_CFLAGS = $(UNIT_CFLAGS)
tests_unit_launcher_options_LDADD = $(LAUNCHER_UNIT_LIBS)
tests_unit_launcher_slurm_SOURCES = tests/unit/launcher_slurm.c
tests_unit_launcher_slurm_CFLAGS = $(UNIT_CFLAGS)
tests_unit_launcher_slurm_LDADD = $(LAUNCHER_UNIT_LIBS)

# transports
UNIT_TESTS += tests/unit/copy_bytes \
	tests/unit/npu_ring \
	tests/unit/npu_ways \
	tests/unit/shm_parts \
	tests/unit/shm_pool \
	tests/unit/shm_ring \
	tests/unit/shm_segment \
	tests/unit/shm_tuner \
	tests/unit/transport_select
tests_unit_copy_bytes_SOURCES = tests/unit/copy_bytes.c
tests_unit_copy_bytes_CFLAGS = $(UNIT_CFLAGS)
tests_unit_copy_bytes_LDADD = $(UNIT_LIBS)
tests_unit_npu_ring_SOURCES = tests/unit/npu_ring.c
tests_unit_npu_ring_CFLAGS = $(UNIT_CFLAGS)
tests_unit_npu_ring_LDADD = $(UNIT_LIBS)
tests_unit_npu_ways_SOURCES = tests/unit/npu_ways.c
tests_unit_npu_ways_CFLAGS = $(UNIT_CFLAGS)
tests_unit_npu_ways_LDADD = $(UNIT_LIBS)
tests_unit_shm_parts_SOURCES = tests/unit/shm_parts.c
tests_unit_shm_parts_CFLAGS = $(UNIT_CFLAGS)
tests_unit_shm_parts_LDADD = $(UNIT_LIBS)
tests_unit_shm_pool_SOURCES = tests/unit/shm_pool.c
tests_unit_shm_pool_CFLAGS = $(UNIT_CFLAGS)
tests_unit_shm_pool_LDADD = $(UNIT_LIBS)
tests_unit_shm_ring_SOURCES = tests/unit/shm_ring.c
tests_unit_shm_ring_CFLAGS = $(UNIT_CFLAGS)
tests_unit_shm_ring_LDADD = $(UNIT_LIBS)
tests_unit_shm_segment_SOURCES = tests/unit/shm_segment.c
tests_unit_shm_segment_CFLAGS = $(UNIT_CFLAGS)
tests_unit_shm_segment_LDADD = $(UNIT_LIBS)
tests_unit_shm_tuner_SOURCES = tests/unit/shm_tuner.c
tests_unit_shm_tuner_CFLAGS = $(UNIT_CFLAGS)
tests_unit_shm_tuner_LDADD = $(UNIT_LIBS)
tests_unit_transport_select_SOURCES = tests/unit/transport_select.c
tests_unit_transport_select_CFLAGS = $(UNIT_CFLAGS)
tests_unit_transport_select_LDADD = $(UNIT_LIBS)

# core: communicators, barriers, memory
UNIT_TESTS += tests/unit/comm_groups tests/unit/mem_pool
tests_unit_comm_groups_SOURCES = tests/unit/comm_groups.c
tests_unit_comm_groups_CFLAGS = $(UNIT_CFLAGS)
tests_unit_comm_groups_LDADD = $(UNIT_LIBS)
tests_unit_mem_pool_SOURCES = tests/unit/mem_pool.c
tests_unit_mem_pool_CFLAGS = $(UNIT_CFLAGS)
tests_unit_mem_pool_LDADD = $(UNIT_LIBS)

# core: the ways of messages
UNIT_TESTS += tests/unit/core_chooser tests/unit/core_lend tests/unit/core_lender \
	tests/unit/core_malformed
tests_unit_core_malformed_SOURCES = tests/unit/core_malformed.c tests/unit/core_fake.h tests/hand_context.h
tests_unit_core_malformed_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_malformed_LDADD = $(UNIT_LIBS)
tests_unit_core_lend_SOURCES = tests/unit/core_lend.c tests/unit/core_fake.h tests/hand_context.h
tests_unit_core_lend_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_lend_LDADD = $(UNIT_LIBS)
tests_unit_core_lender_SOURCES = tests/unit/core_lender.c
tests_unit_core_lender_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_lender_LDADD = $(UNIT_LIBS)
tests_unit_core_chooser_SOURCES = tests/unit/core_chooser.c
tests_unit_core_chooser_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_chooser_LDADD = $(UNIT_LIBS)

# base: memory that other processes map
UNIT_TESTS += tests/unit/arena_map
tests_unit_arena_map_SOURCES = tests/unit/arena_map.c
tests_unit_arena_map_CFLAGS = $(UNIT_CFLAGS)
tests_unit_arena_map_LDADD = $(UNIT_LIBS)

# core: transfers, buffers
UNIT_TESTS += tests/unit/staging_growth
tests_unit_staging_growth_SOURCES = tests/unit/staging_growth.c
tests_unit_staging_growth_CFLAGS = $(UNIT_CFLAGS)
tests_unit_staging_growth_LDADD = $(UNIT_LIBS)

# transports/ofi
UNIT_TESTS += tests/unit/ofi_connect tests/unit/ofi_gather tests/unit/ofi_netif tests/unit/ofi_shmname tests/unit/ofi_wire
tests_unit_ofi_connect_SOURCES = tests/unit/ofi_connect.c tests/unit/ofi_tcp.h
tests_unit_ofi_connect_CFLAGS = $(UNIT_CFLAGS)
tests_unit_ofi_connect_LDADD = $(UNIT_LIBS)
tests_unit_ofi_gather_SOURCES = tests/unit/ofi_gather.c tests/unit/ofi_tcp.h
tests_unit_ofi_gather_CFLAGS = $(UNIT_CFLAGS)
tests_unit_ofi_gather_LDADD = $(UNIT_LIBS)
tests_unit_ofi_netif_SOURCES = tests/unit/ofi_netif.c
tests_unit_ofi_netif_CFLAGS = $(UNIT_CFLAGS)
tests_unit_ofi_netif_LDADD = $(UNIT_LIBS)
tests_unit_ofi_shmname_SOURCES = tests/unit/ofi_shmname.c
tests_unit_ofi_shmname_CFLAGS = $(UNIT_CFLAGS)
tests_unit_ofi_shmname_LDADD = $(UNIT_LIBS)
tests_unit_ofi_wire_SOURCES = tests/unit/ofi_wire.c
tests_unit_ofi_wire_CFLAGS = $(UNIT_CFLAGS)
tests_unit_ofi_wire_LDADD = $(UNIT_LIBS)

# core
UNIT_TESTS += tests/unit/core_blob tests/unit/core_match tests/unit/core_request_ids
tests_unit_core_request_ids_SOURCES = tests/unit/core_request_ids.c
tests_unit_core_request_ids_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_request_ids_LDADD = $(UNIT_LIBS)
tests_unit_core_blob_SOURCES = tests/unit/core_blob.c
tests_unit_core_blob_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_blob_LDADD = $(UNIT_LIBS)
tests_unit_core_match_SOURCES = tests/unit/core_match.c
tests_unit_core_match_CFLAGS = $(UNIT_CFLAGS)
tests_unit_core_match_LDADD = $(UNIT_LIBS)

UNIT_TESTS += tests/unit/topo_pci
tests_unit_topo_pci_SOURCES = tests/unit/topo_pci.c
tests_unit_topo_pci_CFLAGS = $(UNIT_CFLAGS)
tests_unit_topo_pci_LDADD = $(UNIT_LIBS)

# core: devices
UNIT_TESTS += tests/unit/device_copies tests/unit/device_links tests/unit/device_runtime tests/unit/mem_types \
	tests/unit/ranges_find
tests_unit_mem_types_SOURCES = tests/unit/mem_types.c tests/unit/device_open.h
tests_unit_mem_types_CFLAGS = $(UNIT_CFLAGS)
tests_unit_mem_types_LDADD = $(UNIT_LIBS)
tests_unit_device_copies_SOURCES = tests/unit/device_copies.c tests/unit/device_open.h
tests_unit_device_copies_CFLAGS = $(UNIT_CFLAGS)
tests_unit_device_copies_LDADD = $(UNIT_LIBS)
tests_unit_device_links_SOURCES = tests/unit/device_links.c tests/unit/device_open.h
tests_unit_device_links_CFLAGS = $(UNIT_CFLAGS)
tests_unit_device_links_LDADD = $(UNIT_LIBS)
tests_unit_device_runtime_SOURCES = tests/unit/device_runtime.c tests/unit/device_open.h
tests_unit_device_runtime_CFLAGS = $(UNIT_CFLAGS)
tests_unit_device_runtime_LDADD = $(UNIT_LIBS)
tests_unit_ranges_find_SOURCES = tests/unit/ranges_find.c
tests_unit_ranges_find_CFLAGS = $(UNIT_CFLAGS)
tests_unit_ranges_find_LDADD = $(UNIT_LIBS)

check_PROGRAMS += $(UNIT_TESTS)
# Criterion cannot run under ThreadSanitizer: it stops at its inheritable arena.
if !SANITIZE_THREAD
TESTS += $(UNIT_TESTS)
endif
endif
