/*
 * Lists of ranks from launchers: refused, or sorted, without doubles, inside the job, the own rank among
 * them. fuzz-sources: runtime/boot/boot_util.c runtime/base/status.c
 */
#include "runtime/boot/boot_impl.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint32_t job_size = 1u + data[0], own = data[1] % job_size;
    uint32_t *ranks = NULL, count = 0, own_index = 0;
    char *text = fuzz_string(data + 2, size - 2);
    if (hc_boot_parse_ranks(text, job_size, own, &ranks, &count, &own_index) == HCOMM_OK) {
        FUZZ_CHECK(count >= 1 && count <= job_size && own_index < count && ranks[own_index] == own);
        for (uint32_t i = 0; i < count; i++)
            FUZZ_CHECK(ranks[i] < job_size && (i == 0 || ranks[i] > ranks[i - 1]));
        free(ranks);
    } else {
        FUZZ_CHECK(!ranks);
    }
    free(text);
    return 0;
}
