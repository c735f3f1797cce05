/* cli/bench_attention_report.h - rows of `alibi bench attention` as a table, JSON, CSV and a picture. */
#ifndef CLI_BENCH_ATTENTION_REPORT_H
#define CLI_BENCH_ATTENTION_REPORT_H

#include "bench/bench_attention.h"

typedef struct attention_rows_report {
  bool json; /* else every row is printed when it is there */
  bench_attention_row *rows;
  size_t count, capacity;
  bool out_of_memory;
} attention_rows_report;

/* user: an attention_rows_report. */
void attention_report_row(void *user, const bench_attention_row *row);
void attention_report_free(attention_rows_report *report);

/* What holds for all rows. */
typedef struct attention_report_facts {
  const char *isa, *model, *text; /* model and text NULL: random inputs */
  int threads;
  bool complete; /* false: interrupted */
} attention_report_facts;

/* The end of the table, or the JSON. */
status attention_report_end(const attention_rows_report *report, const attention_report_facts *facts,
                            alibi_error *error);
status attention_report_csv(const attention_rows_report *report, const char *path, alibi_error *error);

/* path ends in .png; the script and its data lie beside it, as .gp and .dat.  Without gnuplot: a sentence,
 * ALIBI_FAILED. */
status attention_report_picture(const attention_rows_report *report, const char *path, alibi_error *error);

#endif
