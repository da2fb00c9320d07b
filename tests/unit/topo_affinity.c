/* Leaving a processor: the thread may run afterwards where it could before. */
#include "runtime/topo/topo.h"

#include <criterion/criterion.h>
#include <sched.h>

static cpu_set_t allowed(void)
{
    cpu_set_t set;
    cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
    return set;
}

static void bind_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

Test(leave_cpu, allows_what_was_allowed)
{
    const cpu_set_t before = allowed();
    bool several = CPU_COUNT(&before) > 1;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &before))
            continue;
        const unsigned taken[] = {cpu, 0, CPU_SETSIZE - 1, 70000};
        cr_assert_eq(hc_topo_leave_cpu(cpu, NULL, 0), several);
        cr_assert_eq(hc_topo_leave_cpu(cpu, taken, 4), several);
        const cpu_set_t after = allowed();
        cr_assert(CPU_EQUAL(&before, &after));
    }
}

Test(leave_cpu, leaves_who_is_bound_alone)
{
    bind_to(sched_getcpu());
    const cpu_set_t before = allowed();
    cr_assert_not(hc_topo_leave_cpu((unsigned)sched_getcpu(), NULL, 0));
    const cpu_set_t after = allowed();
    cr_assert(CPU_EQUAL(&before, &after));
}

Test(leave_cpu, leaves_though_all_others_are_taken)
{
    const cpu_set_t before = allowed();
    unsigned taken[CPU_SETSIZE];
    size_t count = 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before))
            taken[count++] = cpu;
    cr_assert_eq(hc_topo_leave_cpu(taken[0], taken, count), count > 1);
}
