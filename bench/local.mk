# Benchmarks beside the peers. `make bench` compares; `make bench-smoke` runs it for seconds and checks data and costs
# per message; `make bench-figures` makes the figures of devices. MPI programs are compiled with each MPI that is
# installed, by its own compiler.
EXTRA_PROGRAMS = \
	bench/device_ladder \
	bench/hcomm_idle \
	bench/hcomm_noop \
	bench/raw_copy \
	bench/raw_line \
	bench/raw_ofi \
	bench/raw_ring \
	bench/raw_tcp

bench_device_ladder_SOURCES = bench/device_ladder.c
bench_device_ladder_LDADD = libhcommrt.la

bench_hcomm_idle_SOURCES = bench/hcomm_idle.c
bench_hcomm_idle_LDADD = libhcommrt.la

bench_hcomm_noop_SOURCES = bench/hcomm_noop.c
bench_hcomm_noop_LDADD = libhcommrt.la

check_PROGRAMS += bench/message_cost
bench_message_cost_SOURCES = bench/message_cost.c
bench_message_cost_LDADD = libhcommrt.la
# No wrapper script around it: strace and valgrind start the program itself.
bench_message_cost_LDFLAGS = $(AM_LDFLAGS) -static

EXTRA_PROGRAMS += bench/transfer_figures
bench_transfer_figures_SOURCES = bench/transfer_figures.c
bench_transfer_figures_LDADD = libhcommrt.la

bench_raw_copy_SOURCES = bench/raw.c bench/raw.h bench/raw_copy.c
bench_raw_line_SOURCES = bench/raw.c bench/raw.h bench/raw_line.c
bench_raw_ofi_SOURCES = bench/raw.c bench/raw.h bench/raw_ofi.c
bench_raw_ofi_CFLAGS = $(AM_CFLAGS) $(LIBFABRIC_CFLAGS)
bench_raw_ofi_LDADD = $(LIBFABRIC_LIBS)
bench_raw_ring_SOURCES = bench/raw.c bench/raw.h bench/raw_ring.c
bench_raw_tcp_SOURCES = bench/raw.c bench/raw.h bench/raw_tcp.c

HC_BENCH_NEEDS = \
	hcommrun \
	hcomm_perf \
	bench/hcomm_idle \
	bench/hcomm_noop \
	bench/message_cost \
	bench/raw_copy \
	bench/raw_line \
	bench/raw_ofi \
	bench/raw_ring \
	bench/raw_tcp

bench-programs: $(HC_BENCH_NEEDS) bench-mpi-programs
bench-mpi-programs:
	$(AM_V_at)for mpi in openmpi mpich; do \
		echo '#include <mpi.h>' | mpicc.$$mpi -x c -E - >/dev/null 2>&1 || continue; \
		for program in mpi_peer mpi_noop mpi_idle; do \
			source=$(srcdir)/bench/$$program.c target=bench/$$program.$$mpi; \
			test -n "`find $$target -newer $$source 2>/dev/null`" && continue; \
			$(MKDIR_P) bench && mpicc.$$mpi -std=gnu11 -O2 -Wno-stringop-overflow -o $$target $$source || exit 1; \
		done; \
	done
bench: bench-programs
	$(PYTHON3) $(srcdir)/bench/compare --build .
# One make after the other: `all` is one of its own, and two at once would make the same libraries.
bench-smoke:
	$(MAKE) all
	$(MAKE) bench-programs bench/message_cost bench/device_ladder
	$(AM_V_at)srcdir=$(srcdir) $(srcdir)/bench/smoke.sh
bench-transfer:
	$(MAKE) all
	$(MAKE) bench/transfer_figures
	$(PYTHON3) $(srcdir)/bench/transfer --build .
.PHONY: bench bench-figures bench-ladder bench-npu-provider bench-programs bench-mpi-programs bench-smoke bench-transfer
bench-ladder: hcommrun libnpusim.la bench/device_ladder
	$(srcdir)/bench/ladder --build .
bench-npu-provider:
	$(MAKE) all
	$(MAKE) bench/raw_line
	$(PYTHON3) $(srcdir)/bench/npu_provider --build . --csv $(srcdir)/bench/results/npu_provider.csv \
		--table $(srcdir)/bench/results/npu_provider.md
# One after the other, also with -j: they would disturb each other.
bench-figures:
	$(MAKE) bench-ladder
	$(MAKE) bench-transfer
	$(MAKE) bench-npu-provider

PYTHON3 = python3
EXTRA_DIST += \
	bench/budget \
	bench/compare \
	bench/idle \
	bench/ladder \
	bench/mpi_idle.c \
	bench/mpi_noop.c \
	bench/mpi_peer.c \
	bench/peers.py \
	bench/results/idle.md \
	bench/results/ladder.csv \
	bench/results/ladder.md \
	bench/results/last-amd.csv \
	bench/results/last-amd.md \
	bench/results/last.csv \
	bench/results/last.md \
	bench/results/npu_provider.csv \
	bench/results/npu_provider.md \
	bench/results/startup.md \
	bench/results/transfer.csv \
	bench/results/transfer.md \
	bench/smoke.sh \
	bench/npu_provider \
	bench/startup \
	bench/tables.py \
	bench/transfer
CLEANFILES += idle.md \
	ladder.csv \
	ladder.md \
	startup.md \
	bench/mpi_idle.mpich \
	bench/mpi_idle.openmpi \
	bench/mpi_noop.mpich \
	bench/mpi_noop.openmpi \
	bench/mpi_peer.mpich \
	bench/mpi_peer.openmpi

# In `make check`: seconds each.
dist_check_SCRIPTS += bench/costs.sh bench/perf_checks.sh
TESTS += bench/costs.sh bench/perf_checks.sh
