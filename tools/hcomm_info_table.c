#include "tools/hcomm_info_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void table_init(struct table *table, const char *name, const struct column *columns)
{
    *table = (struct table){.name = name, .columns = columns};
    while (columns[table->num_columns].name)
        table->num_columns++;
    table->text_columns = table->num_columns;
}

static void out_of_memory(void)
{
    (void)fprintf(stderr, "hcomm_info: memory is exhausted\n");
    exit(1);
}

static void grow(struct table *table)
{
    size_t room = table->room ? 2 * table->room : 32;
    char **cells = realloc(table->cells, room * table->num_columns * sizeof(*cells));
    if (!cells)
        out_of_memory();
    table->cells = cells;
    table->room = room;
}

void table_add(struct table *table, const char *const *cells)
{
    if (table->num_rows == table->room)
        grow(table);
    char **row = &table->cells[table->num_rows * table->num_columns];
    for (size_t i = 0; i < table->num_columns; i++) {
        row[i] = strdup(cells[i]);
        if (!row[i])
            out_of_memory();
    }
    table->num_rows++;
}

static const char *cell(const struct table *table, size_t row, size_t column)
{
    return table->cells[row * table->num_columns + column];
}

static int column_width(const struct table *table, size_t column)
{
    size_t width = strlen(table->columns[column].name);
    for (size_t row = 0; row < table->num_rows; row++) {
        size_t length = strlen(cell(table, row, column));
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_cell(const struct table *table, size_t column, int width, const char *text, FILE *out)
{
    if (table->columns[column].number)
        (void)fprintf(out, "%*s", width, text);
    else if (column + 1 == table->text_columns)
        (void)fputs(text, out);
    else
        (void)fprintf(out, "%-*s", width, text);
    (void)fputs(column + 1 == table->text_columns ? "\n" : "  ", out);
}

void table_print_text(const struct table *table, FILE *out)
{
    int *widths = calloc(table->num_columns, sizeof(widths[0]));
    if (!widths)
        out_of_memory();
    for (size_t i = 0; i < table->text_columns; i++)
        widths[i] = column_width(table, i);
    for (size_t i = 0; i < table->text_columns; i++)
        print_cell(table, i, widths[i], table->columns[i].name, out);
    for (size_t row = 0; row < table->num_rows; row++)
        for (size_t i = 0; i < table->text_columns; i++)
            print_cell(table, i, widths[i], cell(table, row, i), out);
    free(widths);
}

static void print_json_string(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            (void)fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            (void)fprintf(out, "\\u%04x", *c);
        else
            (void)fputc(*c, out);
    }
    (void)fputc('"', out);
}

static void print_json_row(const struct table *table, size_t row, FILE *out)
{
    (void)fputs("{", out);
    for (size_t i = 0; i < table->num_columns; i++) {
        (void)fputs(i ? ", " : "", out);
        print_json_string(table->columns[i].name, out);
        (void)fputs(": ", out);
        if (table->columns[i].number)
            (void)fputs(cell(table, row, i), out);
        else
            print_json_string(cell(table, row, i), out);
    }
    (void)fputs("}", out);
}

void table_print_json(const struct table *table, FILE *out)
{
    print_json_string(table->name, out);
    (void)fputs(": [", out);
    for (size_t row = 0; row < table->num_rows; row++) {
        (void)fputs(row ? ",\n  " : "\n  ", out);
        print_json_row(table, row, out);
    }
    (void)fputs("\n]", out);
}

void table_fini(struct table *table)
{
    for (size_t i = 0; i < table->num_rows * table->num_columns; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct table){0};
}
