# Benchmarks beside the peers. `make bench` compares; `make bench-smoke` runs everything for seconds and checks
# data and costs per message. MPI programs are compiled with each MPI that is installed, by its own compiler.
EXTRA_PROGRAMS = \
	bench/device_ladder \
	bench/hcomm_idle \
	bench/hcomm_noop \
	bench/raw_copy \
	bench/raw_line \
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
	bench/raw_ring \
	bench/raw_tcp

bench-programs: $(HC_BENCH_NEEDS) bench-mpi-programs
bench-mpi-programs:
	$(AM_V_at)for mpi in openmpi mpich; do \
		command -v mpicc.$$mpi >/dev/null || continue; \
		for program in mpi_peer mpi_noop mpi_idle; do \
			source=$(srcdir)/bench/$$program.c target=bench/$$program.$$mpi; \
			test -n "`find $$target -newer $$source 2>/dev/null`" && continue; \
			$(MKDIR_P) bench && mpicc.$$mpi -std=gnu11 -O2 -Wno-stringop-overflow -o $$target $$source || exit 1; \
		done; \
	done
bench: bench-programs
	$(PYTHON3) $(srcdir)/bench/compare --build .
bench-smoke: bench-programs bench/message_cost
	$(AM_V_at)srcdir=$(srcdir) $(srcdir)/bench/smoke.sh
bench-transfer: all bench/transfer_figures
	$(PYTHON3) $(srcdir)/bench/transfer --build .
.PHONY: bench bench-ladder bench-smoke bench-programs bench-mpi-programs bench-transfer
bench-ladder: hcommrun libnpusim.la bench/device_ladder
	$(srcdir)/bench/ladder --build .

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
	bench/results/last.csv \
	bench/results/last.md \
	bench/results/transfer.csv \
	bench/results/transfer.md \
	bench/smoke.sh \
	bench/npu_provider \
	bench/startup \
	bench/tables.py \
	bench/transfer
CLEANFILES += bench-ladder.csv \
	bench/mpi_idle.mpich \
	bench/mpi_idle.openmpi \
	bench/mpi_noop.mpich \
	bench/mpi_noop.openmpi \
	bench/mpi_peer.mpich \
	bench/mpi_peer.openmpi

# In `make check`: seconds each.
dist_check_SCRIPTS += bench/costs.sh bench/perf_checks.sh
TESTS += bench/costs.sh bench/perf_checks.sh
