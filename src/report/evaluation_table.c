/* An evaluation as text: a table a protocol, one row a length, line and document; below a nonoverlapping one what
 * its tokens had to read.  Columns that would say the same in every row are left out, so that one model on one
 * text is as narrow as it can be. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"
#include "report/evaluation_results.h"

enum { PROTOCOLS = 8, NAME_COLUMNS = 40 };

typedef struct table {
  const evaluation_results *results;
  draft *d;
  bool by_line, compared, apart; /* rows of several lines; pairs of tokens; a line that reads other tokens */
  size_t label_width, text_width;
  int64_t documents; /* texts that are not empty */
} table;

/* Five digits of `value`; as many decimals for others beside it. */
static int decimals_of(double value)
{
  return value < 10 ? 4 : value < 100 ? 3 : value < 1000 ? 2 : value < 10000 ? 1 : 0;
}

static void add_number(draft *d, int width, double value, int decimals)
{
  if (!isfinite(value)) draft_add(d, " %*s", width, "-");
  else if (value >= 1e7) draft_add(d, " %*.4e", width, value);
  else draft_add(d, " %*.*f", width, decimals, value);
}

/* A name in its column; a long one shows its end, where paths differ. */
static void add_name(draft *d, const char *name, size_t width)
{
  draft clean = {0};
  draft_add_clean(&clean, name);
  const char *text = clean.data ? clean.data : "";
  size_t columns = utf8_columns(text);
  for (size_t over = columns > width ? columns - width : 0; over > 0; over--, columns--) {
    text++;
    while (((unsigned char)*text & 0xc0) == 0x80) text++;
  }
  draft_add(d, "  %s%*s", text, (int)(width - columns), "");
  d->failed = d->failed || clean.failed;
  free(clean.data);
}

static size_t name_width(const char *name, size_t width)
{
  size_t columns = utf8_columns(name);
  if (columns > NAME_COLUMNS) columns = NAME_COLUMNS;
  return columns > width ? columns : width;
}

static const char *text_name(const evaluation_results *results, int64_t document)
{
  return document < 0 ? "all" : results->texts[document].path;
}

static table table_of(const evaluation_results *results, draft *d)
{
  table t = {.results = results, .d = d, .by_line = results->line_count > 1, .label_width = 5, .text_width = 4};
  for (size_t i = 0; i < results->line_count; i++)
    t.label_width = name_width(results->lines[i].label, t.label_width);
  for (size_t i = 0; i < results->text_count; i++) t.text_width = name_width(results->texts[i].path, t.text_width);
  for (size_t i = 0; i < results->text_count; i++) t.documents += results->texts[i].bytes > 0;
  for (size_t i = 0; i < results->row_count; i++) t.compared |= results->rows[i].paired_tokens > 0;
  for (size_t i = 0; i < results->model_count; i++) t.apart |= !results->models[i].same_tokens;
  return t;
}

/* ---- the head ---- */

static void add_models(draft *d, const evaluation_results *results)
{
  int64_t bytes = 0;
  for (size_t i = 0; i < results->text_count; i++) bytes += results->texts[i].bytes;
  for (size_t i = 0; i < results->model_count; i++) {
    const evaluated_model *m = &results->models[i];
    draft_add_clean(d, m->name);
    draft_add(d, ": %s%s", m->position, m->extension ? " with " : "");
    draft_add_clean(d, m->extension);
    draft_add(d, ", trained at %" PRId64 "; tokenizer %s; ", m->train_length, m->tokenizer);
    if (results->text_count == 1) draft_add_clean(d, results->texts[0].path);
    else draft_add(d, "%zu texts", results->text_count);
    draft_add(d, ": %" PRId64 " tokens in %" PRId64 " bytes\n", m->tokens, bytes);
  }
  if (results->begins) draft_add(d, "every window begins with token %" PRId64 "\n", results->beginning);
}

static void add_heading(const table *t, const char *protocol)
{
  const evaluation_results *results = t->results;
  draft_add(t->d, "\n%s", protocol);
  if (strcmp(protocol, "sliding") == 0 || strcmp(protocol, "streaming") == 0) {
    if (results->stride) draft_add(t->d, ", stride %" PRId64, results->stride);
    else draft_add(t->d, ", stride a quarter of the length");
  }
  if (results->line_count == 1 && results->lines[0].extend) {
    draft_add(t->d, ", positions by ");
    draft_add_clean(t->d, results->lines[0].extend);
  }
  draft_add(t->d, "\n%8s", "length");
  if (t->by_line) add_name(t->d, "model", t->label_width);
  if (results->by_document) add_name(t->d, "text", t->text_width);
  draft_add(t->d, " %12s %10s %10s", "perplexity", "+-", "bits/byte");
  if (results->by_word) draft_add(t->d, " %12s", "per word");
  draft_add(t->d, " %8s %10s", "tokens", "tokens/s");
  if (t->compared) draft_add(t->d, " %11s %9s", "difference", "+-");
  draft_add(t->d, "\n");
}

/* ---- the rows ---- */

static void add_difference(draft *d, const evaluated_row *r)
{
  const char *verdict = evaluation_verdict(r);
  double percent, error;
  if (!verdict) return;
  evaluation_percent(r, &percent, &error);
  draft_add(d, " %+9.2f %%", percent);
  if (isfinite(error)) draft_add(d, " %7.2f %%", error);
  else draft_add(d, " %9s", "-");
  draft_add(d, "  %s", verdict);
}

static void begin_row(const table *t, const evaluated_row *r)
{
  draft_add(t->d, "%8" PRId64, r->length);
  if (t->by_line) add_name(t->d, t->results->lines[r->line].label, t->label_width);
  if (t->results->by_document) add_name(t->d, text_name(t->results, r->document), t->text_width);
}

static void add_row(const table *t, const evaluated_row *r)
{
  draft *d = t->d;
  begin_row(t, r);
  if (r->error) {
    draft_add(d, "  ");
    draft_add_clean(d, r->error);
    draft_add(d, "\n");
    return;
  }
  int decimals = decimals_of(r->perplexity);
  add_number(d, 12, r->perplexity, decimals);
  add_number(d, 10, r->standard_error, decimals);
  add_number(d, 10, r->bits_per_byte, decimals_of(r->bits_per_byte));
  if (t->results->by_word) add_number(d, 12, r->word_perplexity, decimals_of(r->word_perplexity));
  draft_add(d, " %8" PRId64, r->tokens);
  add_number(d, 10, r->input_tokens > 0 && r->seconds > 0 ? (double)r->input_tokens / r->seconds : NAN, 0);
  add_difference(d, r);
  if (r->longest_window < r->length)
    draft_add(d, "  the longest window had %" PRId64 " tokens to read", r->longest_window);
  if (r->document < 0 && r->documents < t->documents)
    draft_add(d, "  %" PRId64 " of %" PRId64 " texts", r->documents, t->documents);
  draft_add(d, "\n");
}

/* ---- nonoverlapping windows: what their tokens had to read ---- */

static bool add_gain(const table *t, const evaluated_row *r)
{
  evaluation_gain g;
  if (!evaluation_gain_of(t->results, r, &g)) return false;
  draft_add(t->d, "%8" PRId64, r->length);
  if (t->by_line) add_name(t->d, t->results->lines[r->line].label, t->label_width);
  draft_add(t->d,
            "  from %" PRId64 ": %+.2f %% of the perplexity; fewer early tokens %+.2f %%, the rest %+.2f %%\n",
            g.from->length, evaluation_change(-g.total), evaluation_change(-g.fewer_early),
            evaluation_change(-g.better_read));
  return true;
}

static void add_split(const table *t, const char *protocol)
{
  const evaluation_results *results = t->results;
  draft *d = t->d;
  bool any = false;
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (r->error || strcmp(r->protocol, protocol) != 0) continue;
    if (!any) {
      draft_add(d, "\nof these, early tokens, predicted from fewer than %" PRId64 " inputs, and late ones\n%8s",
                r->early, "length");
      if (t->by_line) add_name(d, "model", t->label_width);
      if (results->by_document) add_name(d, "text", t->text_width);
      draft_add(d, " %10s %12s %12s %10s\n", "early", "perplexity", "late", "+-");
    }
    any = true;
    begin_row(t, r);
    double early = exp(r->early_nll), late = exp(r->late_nll);
    draft_add(d, " %8.2f %%", 100 * (double)r->early_tokens / (double)r->tokens);
    add_number(d, 12, early, decimals_of(early));
    add_number(d, 12, late, decimals_of(late));
    add_number(d, 10, late * r->late_standard_error, decimals_of(late));
    draft_add(d, "\n");
  }
  if (!any) return;
  size_t begun = d->used;
  draft_add(d, "\nwhere the change with the length comes from\n");
  bool gained = false;
  for (size_t i = 0; i < results->row_count; i++) gained |= add_gain(t, &results->rows[i]);
  if (!gained && !d->failed) d->data[d->used = begun] = '\0';
}

/* ---- loss against place ---- */

/* The whole curve is in the JSON and in the report; here places at powers of two. */
static void add_positions(const table *t)
{
  const evaluation_results *results = t->results;
  draft *d = t->d;
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (!r->position_nll) continue;
    draft_add(d, "\nby place in windows of %" PRId64, r->length);
    if (t->by_line) {
      draft_add(d, ", ");
      draft_add_clean(d, results->lines[r->line].label);
    }
    draft_add(d, ": mean over %" PRId64 " windows and up to 101 places, with its 95 %% band\n%8s %12s %10s\n",
              r->position_windows, "place", "perplexity", "+-");
    for (int64_t place = 1;; place = 2 * place < r->length ? 2 * place : r->length) {
      double perplexity = exp(r->position_nll[place - 1]);
      int decimals = decimals_of(perplexity);
      draft_add(d, "%8" PRId64, place);
      add_number(d, 12, perplexity, decimals);
      add_number(d, 10, perplexity * r->position_band[place - 1], decimals);
      draft_add(d, "\n");
      if (place >= r->length) break;
    }
  }
}

static void add_notes(const table *t)
{
  const evaluation_results *results = t->results;
  if (t->compared) {
    draft_add(t->d, "\ndifference: of the perplexity, to that of ");
    draft_add_clean(t->d, results->lines[0].label);
    draft_add(t->d, " over the same tokens; better or worse is said beyond two standard errors\n");
  }
  for (size_t i = 0; i < results->model_count; i++) {
    if (results->models[i].same_tokens) continue;
    draft_add(t->d, "\n");
    draft_add_clean(t->d, results->models[i].name);
    draft_add(t->d, " reads other tokens than ");
    draft_add_clean(t->d, results->models[0].name);
    draft_add(t->d, ": their perplexities do not compare, their bits/byte do\n");
  }
}

char *evaluation_table(const evaluation_results *results)
{
  draft d = {0};
  const char *protocols[PROTOCOLS];
  size_t count = evaluation_protocols(results, protocols, PROTOCOLS);
  table t = table_of(results, &d);
  add_models(&d, results);
  for (size_t p = 0; p < count; p++) {
    add_heading(&t, protocols[p]);
    for (size_t i = 0; i < results->row_count; i++)
      if (strcmp(results->rows[i].protocol, protocols[p]) == 0) add_row(&t, &results->rows[i]);
    if (strcmp(protocols[p], "nonoverlapping") == 0) add_split(&t, protocols[p]);
  }
  add_positions(&t);
  add_notes(&t);
  return draft_take(&d);
}
