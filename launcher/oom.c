#include "launcher/oom.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { VMSTAT_SIZE = 16384 };

unsigned long hc_oom_kills(void)
{
    static const char key[] = "\noom_kill ";
    char text[VMSTAT_SIZE];
    int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    const char *line = strstr(text, key);
    unsigned long count = 0;
    return line && sscanf(line + sizeof(key) - 1, "%lu", &count) == 1 ? count : 0;
}
