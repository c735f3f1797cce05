/* report/horizon_report.h - how far a model reads, as people and programs read it: a sentence, a table, bars in
 * characters, JSON, CSV, a picture, a page.  docs/horizon.md is the user's page. */
#ifndef REPORT_HORIZON_REPORT_H
#define REPORT_HORIZON_REPORT_H

#include "evaluate/horizon.h"
#include "file/json.h"

enum { HORIZON_SCHEMA = 1 };

/* All texts are borrowed and need not be UTF-8. */
typedef struct horizon_report {
  const horizon *h;
  const char *model; /* as given */
  const alibi_model_config *config;
  const char *extension; /* that it is run with, "ntk"; NULL: none */
  const char *text;      /* the file; NULL: parameters alone */
  int64_t text_bytes, text_tokens;
  double tolerance; /* of the context: what attention may skip */
  double seconds;
  const char *command; /* how to repeat it; may be NULL */
} horizon_report;

/* How far the model reads, in one sentence.  malloc'd, NULL when memory is out; so are the texts below. */
char *horizon_sentence(const horizon_report *r);
/* A row a head. */
char *horizon_table(const horizon_report *r);
/* A bar a head over a logarithmic axis of distances, for a terminal of that many columns. */
char *horizon_bars(const horizon_report *r, int columns, bool utf8);

json_node *horizon_node(const horizon_report *r);

/* directory/results.csv: a row a head, with every setting. */
status horizon_write_csv(const horizon_report *r, const char *directory, alibi_error *error);

/* directory/horizon.svg and horizon.png, from horizon.gp and horizon.dat beside them.  Without gnuplot: ALIBI_OK
 * and *drawn false; the script and the data are there. */
status horizon_write_pictures(const horizon_report *r, const char *directory, bool *drawn, alibi_error *error);
/* directory/report.html, with the picture in it where it was drawn, else the bars. */
status horizon_write_html(const horizon_report *r, const char *directory, alibi_error *error);

/* ---- what several of them say ---- */

/* 12345.2 as "12,345"; INFINITY as "none", NaN as "-". */
void horizon_number(double tokens, char *text, size_t size);

typedef struct horizon_summary {
  const horizon_head
      *farthest; /* whose 99 % lie farthest; without a text of the farthest horizon; ties: the first */
  double any_text, these_scores; /* the farthest of all heads'; INFINITY where some head has none */
  size_t unbounded;              /* heads without one, by these scores or, without a text, for any text */
  double through_layers;         /* sum over layers of their farthest horizon, by the same */
  bool limited;                  /* windows are so short that more of them might be read */
} horizon_summary;

horizon_summary horizon_summarise(const horizon *h);

/* Distances up to `last`, which every picture shows. */
double horizon_last_distance(const horizon *h);

#endif
