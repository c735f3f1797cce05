/* results.csv of a study: one row a measured (or impossible) point, quoted as RFC 4180 says, lines ended by LF. */
#include "report/drawing.h"

#include <stdlib.h>
#include <string.h>

void draft_add_csv_text(draft *d, const char *s)
{
  draft clean = {0};
  draft_add_clean(&clean, s);
  char *text = draft_take(&clean);
  if (!text) {
    d->failed = true;
    return;
  }
  bool quotes = strpbrk(text, ",\"") != NULL || text[0] == ' ' || (text[0] && text[strlen(text) - 1] == ' ');
  if (quotes) draft_put(d, "\"", 1);
  for (const char *c = text; *c; c++) draft_put(d, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
  if (quotes) draft_put(d, "\"", 1);
  free(text);
}

void draft_add_csv_number(draft *d, double value)
{
  char text[40];
  number_exact(value, text, sizeof text);
  draft_add(d, ",%s", text);
}

static void add_row(draft *d, const method_result *m, const curve *c, const curve_point *p)
{
  draft_add_csv_text(d, m->name);
  draft_put(d, ",", 1);
  draft_add_csv_text(d, m->role);
  draft_add(d, ",%lld,", (long long)m->train_length);
  draft_add_csv_text(d, c->protocol);
  draft_put(d, ",", 1);
  draft_add_csv_text(d, c->extend);
  draft_add(d, ",%lld", (long long)p->length);
  if (p->error[0]) {
    draft_add(d, ",,,,,,,");
    draft_add_csv_text(d, p->error);
  } else {
    draft_add_csv_number(d, p->perplexity);
    draft_add_csv_number(d, p->standard_error);
    draft_add_csv_number(d, p->bits_per_byte);
    draft_add_csv_number(d, p->nll);
    draft_add(d, ",%lld,%lld,", (long long)p->stride, (long long)p->tokens);
  }
  draft_put(d, "\n", 1);
}

status results_write_csv(const study_results *results, const char *directory, alibi_error *error)
{
  draft d = {0};
  draft_add(
      &d,
      "method,role,train_length,protocol,extend,length,perplexity,standard_error,bits_per_byte,nll,stride,tokens,"
      "error\n");
  for (size_t i = 0; i < results->method_count; i++) {
    const method_result *m = &results->methods[i];
    for (size_t j = 0; j < m->curve_count; j++)
      for (size_t k = 0; k < m->curves[j].count; k++) add_row(&d, m, &m->curves[j], &m->curves[j].points[k]);
  }
  return draft_write(&d, directory, "results.csv", error);
}
