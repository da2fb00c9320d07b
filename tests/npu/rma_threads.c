/* Two threads of each process use one endpoint, while a third registers and closes memory that is written to.
 */
#include "tests/npu/pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { ROUNDS = 100, SIZE = 20000, KEYS = 4 };

static struct pair pair;
static unsigned char target[SIZE] __attribute__((aligned(64)));
static atomic_bool stop;

/* Moves the endpoint from another thread. */
static void *progress(void *unused)
{
    (void)unused;
    while (!atomic_load(&stop))
        (void)fi_cq_read(pair.rx, NULL, 0);
    return NULL;
}

/* Keys 1 to 3 come and go; each write to one succeeds or is rejected. */
static void *change_keys(void *unused)
{
    static unsigned char bytes[SIZE];
    (void)unused;
    while (!atomic_load(&stop))
        for (uint64_t key = 1; key < KEYS; key++) {
            struct fid_mr *mr;
            EXPECT(fi_mr_reg(pair.domain, bytes, SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, key, 0, &mr,
                             NULL) == 0);
            EXPECT(fi_close(&mr->fid) == 0);
        }
    return NULL;
}

static int finish(ssize_t posted)
{
    EXPECT(posted == 0);
    return pair_complete(&pair, pair.tx, NULL);
}

int main(void)
{
    static unsigned char source[SIZE];
    pthread_t threads[2];
    struct fid_mr *mr;
    uint64_t one = 1, old = 0;
    pair_begin(&pair, FI_MSG | FI_RMA | FI_ATOMIC, 0, NULL);
    EXPECT(fi_mr_reg(pair.domain, target, SIZE, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 100, 0, &mr, NULL) == 0);
    pair_meet(&pair);
    EXPECT(pthread_create(&threads[0], NULL, progress, NULL) == 0);
    EXPECT(pthread_create(&threads[1], NULL, change_keys, NULL) == 0);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        size_t n = i % 2 ? 64 : SIZE;
        int err = finish(fi_write(pair.ep, source, n, NULL, pair.other, 0, 1 + i % (KEYS - 1), NULL));
        EXPECT(err == 0 || err == FI_EKEYREJECTED);
        EXPECT(finish(fi_fetch_atomic(pair.ep, &one, 1, NULL, &old, NULL, pair.other, 0, 100, FI_UINT64,
                                      FI_SUM, NULL)) == 0);
        EXPECT(old == i);
    }
    pair_meet(&pair);
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    EXPECT(fi_close(&mr->fid) == 0);
    pair_end(&pair);
    return 0;
}
