# Fuzz targets are built by their runner, with clang whatever the compiler of the build.
EXTRA_DIST += \
	tests/fuzz/corpus/fuzz_blob/two \
	tests/fuzz/corpus/fuzz_config/size \
	tests/fuzz/corpus/fuzz_config/word \
	tests/fuzz/corpus/fuzz_cpulist/list \
	tests/fuzz/corpus/fuzz_digits/three \
	tests/fuzz/corpus/fuzz_ranks/list \
	tests/fuzz/fuzz.h \
	tests/fuzz/fuzz_blob.c \
	tests/fuzz/fuzz_config.c \
	tests/fuzz/fuzz_cpulist.c \
	tests/fuzz/fuzz_digits.c \
	tests/fuzz/fuzz_npu_net.c \
	tests/fuzz/fuzz_npu_rma.c \
	tests/fuzz/fuzz_ofi.c \
	tests/fuzz/fuzz_ranks.c \
	tests/fuzz/fuzz_shm.c \
	tests/fuzz/fuzz_shm_records.c \
	tests/fuzz/fuzz_wire.c \
	tests/fuzz/run
clean-local: fuzz-clean
fuzz-clean:
	rm -rf tests/fuzz/work
.PHONY: fuzz-clean
