/* Tables of strings for hcomm_info: filled row by row, printed aligned or as JSON. */
#ifndef HCOMM_INFO_TABLE_H
#define HCOMM_INFO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct column {
    const char *name; /* heading, and key in JSON */
    bool number;      /* aligned to the right, and bare in JSON; such cells hold JSON numbers */
};

struct table {
    const char *name;             /* of the section */
    const struct column *columns; /* ended by a NULL name */
    size_t num_columns, num_rows, room;
    size_t text_columns; /* the first ones, which text shows; JSON shows all */
    char **cells; /* row by row; owned */
};

void table_init(struct table *table, const char *name, const struct column *columns);
/* Append a row of num_columns texts, which are copied. Ends the program when memory is exhausted. */
void table_add(struct table *table, const char *const *cells);
/* Heading and rows, text_columns of them, in columns as wide as their widest cell; the last one is not padded. */
void table_print_text(const struct table *table, FILE *out);
/* "name": [{"column": "cell", …}, …] without a trailing comma or newline. */
void table_print_json(const struct table *table, FILE *out);
void table_fini(struct table *table);

#endif
