/* The peers' side of bench/idle: see hcomm_idle.c. SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void tell_and_sleep(double seconds)
{
    (void)puts("waiting");
    (void)fflush(stdout);
    (void)usleep((useconds_t)(seconds * 1e6));
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        tell_and_sleep(argc > 1 ? atof(argv[1]) : 1);
        for (int other = 1; other < ranks; other++)
            MPI_Send(NULL, 0, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
