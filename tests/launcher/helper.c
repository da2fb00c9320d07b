/*
 * Small programs that the launcher tests run as ranks: helper TASK [ARGUMENTS]
 *   args        print every argument as <length>:<text>\n
 *   env NAME    print a variable as <length>:<value>\n
 *   fds         print the open descriptors
 *   lines N     print N numbered lines of varying length, in many small writes that cut lines
 *   signals     print what this process blocks and ignores
 *   eat MB      use so much memory
 *   last TEXT   print TEXT to standard error without a newline and die by SIGABRT
 */
#include "runtime/base/compiler.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0)
            exit(1);
        data += n;
        size -= (size_t)n;
    }
}

static int print_args(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        (void)printf("%zu:%s\n", strlen(argv[i]), argv[i]);
    return 0;
}

static int print_env(int argc, char **argv)
{
    const char *value = argc > 0 ? getenv(argv[0]) : NULL;
    if (!value)
        return 1;
    (void)printf("%zu:%s\n", strlen(value), value);
    return 0;
}

static int print_fds(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return 1;
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory))
        if (*entry->d_name != '.' && atoi(entry->d_name) != dirfd(directory))
            (void)printf("%s\n", entry->d_name);
    (void)closedir(directory);
    return 0;
}

static int print_lines(int argc, char **argv)
{
    const char *rank = getenv("PMIX_RANK");
    int count = argc > 0 ? atoi(argv[0]) : 10;
    for (int i = 0; i < count; i++) {
        char line[256];
        int length =
            snprintf(line, sizeof(line), "rank %s line %d %.*s\n", rank ? rank : "?", i, i % 97,
                     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                     "xxxxxxxxxxxxxxxxxxxxxxxx");
        int cut = length * (i % 7) / 7;
        write_all(STDOUT_FILENO, line, (size_t)cut);
        write_all(STDOUT_FILENO, line + cut, (size_t)(length - cut));
    }
    return 0;
}

static int print_signals(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    sigset_t blocked;
    (void)sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int i = 1; i < 32; i++) {
        struct sigaction action;
        if (sigismember(&blocked, i))
            (void)printf("blocked %d\n", i);
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            (void)printf("ignored %d\n", i);
    }
    return 0;
}

static int die_after_last_words(int argc, char **argv)
{
    if (argc > 0)
        write_all(STDERR_FILENO, argv[0], strlen(argv[0]));
    (void)raise(SIGABRT);
    return 0;
}

static int eat_memory(int argc, char **argv)
{
    size_t size = argc > 0 ? strtoul(argv[0], NULL, 10) << 20 : 0;
    char *memory = malloc(size + 1);
    if (!memory)
        return 1;
    (void)memset(memory, 1, size + 1);
    (void)printf("%d\n", memory[size / 2]);
    free(memory);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} tasks[] = {
    {"args", print_args},   {"env", print_env},         {"fds", print_fds},
    {"lines", print_lines}, {"signals", print_signals}, {"last", die_after_last_words},
    {"eat", eat_memory},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < hc_array_len(tasks); i++)
        if (strcmp(tasks[i].name, argv[1]) == 0)
            return tasks[i].run(argc - 2, argv + 2);
    (void)fprintf(stderr, "helper: unknown task\n");
    return 2;
}
