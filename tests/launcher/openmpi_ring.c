/*
 * MPI_Allreduce and a ring of messages with every size around the eager limits; "abort": MPI_Abort of rank 1;
 * "wait": all say so, and wait to be killed.
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 1 << 20 };

static int pass_around(int rank, int size, int bytes, char *out, char *in)
{
    memset(out, rank + 1, (size_t)bytes);
    MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, 5, in, bytes, MPI_BYTE, (rank + size - 1) % size, 5,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i++)
        if (in[i] != (char)((rank + size - 1) % size + 1))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int rank = 0;
    int size = 0;
    int sum = 0;
    int wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 17);
    if (strcmp(mode, "wait") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        puts("waiting");
        fflush(stdout);
        pause();
    }
    int mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    wrong += sum != size * (size + 1) / 2;
    char *out = malloc(LARGEST);
    char *in = malloc(LARGEST);
    for (int bytes = 1; bytes <= LARGEST; bytes *= 4)
        wrong += pass_around(rank, size, bytes, out, in);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ring of %d ranks: %s\n", size, wrong ? "wrong" : "ok");
    free(out);
    free(in);
    MPI_Finalize();
    return wrong != 0;
}
