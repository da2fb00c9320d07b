/*
 * Rank 1 is no member: with PMIx alone it publishes, where its description belongs, what nobody should
 * believe. Rank 0 must survive the attempt to reach it, and say what is wrong. blob noise SEED | flip SEED
 * any bytes | rank 0's description, damaged
 */
#include <hcomm.h>

#include <pmix.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 8192 };

static char key[] = "hcomm.0";

static int complain(const char *what, const char *why)
{
    (void)fprintf(stderr, "blob: %s: %s\n", what, why);
    return 3;
}

static size_t make_noise(unsigned char *bytes)
{
    size_t size = (size_t)rand() % (ROOM / 2);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)rand();
    return size;
}

/* A few bytes changed, and sometimes cut off. */
static size_t damage(unsigned char *bytes, size_t size)
{
    for (int i = 0; i < 4 && size > 0; i++)
        bytes[(size_t)rand() % size] = (unsigned char)rand();
    return rand() % 2 ? size : (size_t)rand() % (size + 1);
}

static size_t copy_of_rank_0(const pmix_proc_t *self, unsigned char *bytes)
{
    pmix_proc_t other;
    pmix_value_t *value = NULL;
    size_t size = 0;
    PMIX_LOAD_PROCID(&other, self->nspace, 0);
    for (int i = 0; i < 6000 && PMIx_Get(&other, key, NULL, 0, &value) != PMIX_SUCCESS; i++)
        (void)usleep(10000);
    if (!value || value->type != PMIX_BYTE_OBJECT || value->data.bo.size > ROOM)
        return 0;
    size = value->data.bo.size;
    (void)memcpy(bytes, value->data.bo.bytes, size);
    PMIX_VALUE_RELEASE(value);
    return size;
}

static int lie(const char *how)
{
    static unsigned char bytes[ROOM];
    pmix_proc_t self, all;
    pmix_value_t value;
    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
        return complain("liar", "PMIx_Init failed");
    bool flip = strcmp(how, "flip") == 0;
    size_t size = flip ? copy_of_rank_0(&self, bytes) : make_noise(bytes);
    if (flip && size == 0)
        return complain("liar", "rank 0 has not published a description");
    if (flip)
        size = damage(bytes, size);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)bytes;
    value.data.bo.size = size;
    if (PMIx_Put(PMIX_GLOBAL, key, &value) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS)
        return complain("liar", "PMIx_Put or PMIx_Commit failed");
    PMIX_LOAD_PROCID(&all, self.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Fence(&all, 1, NULL, 0) != PMIX_SUCCESS) /* rank 0's finalize */
        return complain("liar", "PMIx_Fence failed");
    return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 3;
}

static int believe(const char *how)
{
    hcomm_handle_t hcomm;
    const hcomm_config_t config = {.timeout_ms = 2000, .retry_count = HCOMM_RETRY_NONE};
    int word = 1;
    if (hcomm_init(&hcomm, &config) != HCOMM_OK)
        return complain("init", hcomm_error_detail());
    hcomm_status_t status = hcomm_ssend(&word, sizeof(word), 1, 1, hcomm_comm_world(hcomm));
    if (status == HCOMM_OK)
        return complain(how, "a message was received by nobody");
    (void)printf("%s: %s\n", hcomm_strerror(status), hcomm_error_detail());
    if (strstr(hcomm_error_detail(), "rank 1") == NULL)
        return complain("the error does not name rank 1", hcomm_error_detail());
    /* messages to itself go on */
    int echo = 0;
    status =
        hcomm_sendrecv(&word, sizeof(word), 0, 2, &echo, sizeof(echo), 0, 2, hcomm_comm_world(hcomm), NULL);
    if (status != HCOMM_OK || echo != word)
        return complain("message to itself", hcomm_error_detail());
    status = hcomm_finalize(hcomm);
    return status == HCOMM_OK || status == HCOMM_ERR_PEER_LOST || status == HCOMM_ERR_TIMEOUT
               ? 0
               : complain("finalize", hcomm_error_detail());
}

int main(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    if (argc != 3 || !rank)
        return complain("usage", "hcommrun -n 2 blob noise|flip SEED");
    srand((unsigned)atoi(argv[2]));
    return atoi(rank) == 0 ? believe(argv[1]) : lie(argv[1]);
}
