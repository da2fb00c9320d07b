/* Starts MPI and ends it: bench/startup times the whole. SPDX-License-Identifier: BSD-3-Clause */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
