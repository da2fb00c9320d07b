# Sources of tools/ are listed here.
# hcomm_perf uses <hcomm.h> alone, as a user's program would.
bin_PROGRAMS += hcomm_perf
hcomm_perf_SOURCES = \
	tools/hcomm_perf.c \
	tools/hcomm_perf.h \
	tools/hcomm_perf_barrier.c \
	tools/hcomm_perf_case.c \
	tools/hcomm_perf_check.c \
	tools/hcomm_perf_latency.c \
	tools/hcomm_perf_match.c \
	tools/hcomm_perf_memory.c \
	tools/hcomm_perf_options.c \
	tools/hcomm_perf_output.c \
	tools/hcomm_perf_overlap.c \
	tools/hcomm_perf_plot.c \
	tools/hcomm_perf_stream.c
hcomm_perf_LDADD = libhcommrt.la

bin_PROGRAMS += hcomm_info
hcomm_info_SOURCES = \
	tools/hcomm_info.c \
	tools/hcomm_info_sections.c \
	tools/hcomm_info_sections.h \
	tools/hcomm_info_table.c \
	tools/hcomm_info_table.h
hcomm_info_LDADD = libhcommrt.la
