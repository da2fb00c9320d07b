/* Regions of libfabric's shm provider: named after their process, removed when that is dead. */
#include "transports/ofi/shmname.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SCOPE = 0x1234 };

static char folder[32];

static void folder_make(void)
{
    strcpy(folder, "/tmp/hcomm-test.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void folder_remove(void)
{
    cr_expect_eq(rmdir(folder), 0, "%s is not empty", folder);
}

TestSuite(ofi_shmname, .init = folder_make, .fini = folder_remove);

static void path_of(const char *file, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, file);
}

static void touch(const char *file)
{
    char path[128];
    path_of(file, path);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
    cr_assert_geq(fd, 0);
    (void)close(fd);
}

static bool there(const char *file)
{
    char path[128];
    path_of(file, path);
    return access(path, F_OK) == 0;
}

static void take_away(const char *file)
{
    char path[128];
    path_of(file, path);
    cr_expect_eq(unlink(path), 0, "%s is gone", file);
}

/* The pid of a process that is no more. */
static pid_t dead_pid(void)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        _exit(0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

Test(ofi_shmname, own_name_is_recognised)
{
    char name[HC_OFI_SHMNAME_MAX], again[HC_OFI_SHMNAME_MAX];
    pid_t pid = 0;
    hc_ofi_shmname_make(SCOPE, name);
    hc_ofi_shmname_make(SCOPE, again);
    cr_expect_str_neq(name, again);
    cr_assert_eq(strncmp(name, "fi_shm://", 9), 0);
    cr_expect(hc_ofi_shmname_parse(name + 9, SCOPE, &pid));
    cr_expect_eq(pid, getpid());
    cr_expect_not(hc_ofi_shmname_parse(name + 9, SCOPE + 1, &pid));
}

Test(ofi_shmname, foreign_names_are_not_ours)
{
    static const char *const names[] = {"",
                                        "hcomm.",
                                        "hcomm.0000000000001234.",
                                        "hcomm.0000000000001234.x.0",
                                        "hcomm.0000000000001234.0.0",
                                        "hcomm.0000000000001234.-5.0",
                                        "hcomm.0000000000001234.99999999999.0",
                                        "hcomm.0000000000001234.7",
                                        "7:0:0"};
    pid_t pid;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        cr_expect_not(hc_ofi_shmname_parse(names[i], SCOPE, &pid), "%s", names[i]);
}

Test(ofi_shmname, only_regions_of_the_dead_are_removed)
{
    char dead[64], alive[64], elsewhere[64];
    pid_t gone = dead_pid();
    (void)snprintf(dead, sizeof(dead), "hcomm.%016x.%d.0:0:0", SCOPE, (int)gone);
    (void)snprintf(alive, sizeof(alive), "hcomm.%016x.%d.0:0:0", SCOPE, (int)getpid());
    (void)snprintf(elsewhere, sizeof(elsewhere), "hcomm.%016x.%d.0:0:0", SCOPE + 1, (int)gone);
    touch(dead);
    touch(alive);
    touch(elsewhere);
    touch("other");
    cr_expect_eq(hc_ofi_shmname_sweep(folder, SCOPE), 1);
    cr_expect_not(there(dead));
    take_away(alive);
    take_away(elsewhere);
    take_away("other");
}

Test(ofi_shmname, missing_folder_is_no_error)
{
    cr_expect_eq(hc_ofi_shmname_sweep("/nonexistent", SCOPE), 0);
}
