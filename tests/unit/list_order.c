#include "runtime/base/list.h"

#include <criterion/criterion.h>

struct item {
    int value;
    struct hc_list link;
    struct hc_fifo_node node;
};

static int sum_in_order(struct hc_list *head)
{
    int digits = 0;
    struct hc_list *node;
    hc_list_for_each(node, head) digits = digits * 10 + hc_list_entry(node, struct item, link)->value;
    return digits;
}

Test(list, append_keeps_order_and_pop_takes_the_oldest)
{
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct hc_list head;
    hc_list_init(&head);
    cr_assert(hc_list_empty(&head));
    cr_assert_null(hc_list_pop(&head));
    for (size_t i = 0; i < hc_array_len(items); i++)
        hc_list_append(&head, &items[i].link);
    cr_assert_eq(sum_in_order(&head), 123);
    cr_assert_eq(hc_list_pop(&head), &items[0].link);
    cr_assert_eq(sum_in_order(&head), 23);
}

Test(list, removing_twice_is_harmless)
{
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}};
    struct hc_list head;
    hc_list_init(&head);
    for (size_t i = 0; i < hc_array_len(items); i++)
        hc_list_append(&head, &items[i].link);
    hc_list_remove(&items[1].link);
    hc_list_remove(&items[1].link);
    cr_assert_eq(sum_in_order(&head), 13);
    hc_list_append(&head, &items[1].link);
    cr_assert_eq(sum_in_order(&head), 132);
}

Test(list, safe_iteration_survives_removal)
{
    struct item items[] = {{.value = 1}, {.value = 2}, {.value = 3}, {.value = 4}};
    struct hc_list head, *node, *tmp;
    hc_list_init(&head);
    for (size_t i = 0; i < hc_array_len(items); i++)
        hc_list_append(&head, &items[i].link);
    hc_list_for_each_safe(node, tmp, &head) if (hc_list_entry(node, struct item, link)->value % 2 == 0)
        hc_list_remove(node);
    cr_assert_eq(sum_in_order(&head), 13);
}

Test(fifo, first_in_first_out_also_after_running_empty)
{
    struct item items[] = {{.value = 1}, {.value = 2}};
    struct hc_fifo fifo;
    hc_fifo_init(&fifo);
    for (int round = 0; round < 3; round++) {
        cr_assert(hc_fifo_empty(&fifo));
        cr_assert_null(hc_fifo_pop(&fifo));
        hc_fifo_push(&fifo, &items[0].node);
        hc_fifo_push(&fifo, &items[1].node);
        cr_assert_eq(hc_fifo_pop(&fifo), &items[0].node);
        cr_assert_eq(hc_fifo_pop(&fifo), &items[1].node);
    }
}
