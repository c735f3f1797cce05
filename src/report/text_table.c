/* The table for a terminal: one row a method and extension, one column a length.  Where the lengths do not fit
 * beside each other, the table goes on below with the names repeated, so no number is lost. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "report/drawing.h"

enum { GAP = 2, NOTES = 16 };

typedef struct table {
  const study_results *results;
  series *lines;
  size_t count;
  int64_t *lengths;
  size_t length_count;
  size_t name_width;
  const char *notes[NOTES]; /* why something is impossible, each sentence once */
  const char *note_names[NOTES];
  size_t note_count;
} table;

static void cell_text(const series *line, int64_t length, char *text, size_t size)
{
  const curve_point *p = curve_find_point(line->curve, length);
  if (!p) snprintf(text, size, "%s", "");
  else if (p->error[0]) snprintf(text, size, "-");
  else number_short(p->perplexity, text, size);
}

static void head_text(const table *t, int64_t length, char *text, size_t size)
{
  snprintf(text, size, "%lld%s", (long long)length, length == t->results->train_length ? "*" : "");
}

static size_t column_width(const table *t, size_t column)
{
  char text[40];
  head_text(t, t->lengths[column], text, sizeof text);
  size_t width = strlen(text);
  for (size_t i = 0; i < t->count; i++) {
    cell_text(&t->lines[i], t->lengths[column], text, sizeof text);
    if (strlen(text) > width) width = strlen(text);
  }
  return width;
}

static void pad(draft *d, size_t count)
{
  for (size_t i = 0; i < count; i++) draft_put(d, " ", 1);
}

/* Columns from..to of the table; an asterisk hangs to the right of the numbers it stands over. */
static void add_block(draft *d, const table *t, size_t from, size_t to)
{
  char text[40];
  for (size_t row = 0; row <= t->count; row++) {
    const char *name = row == 0 ? "method" : t->lines[row - 1].plain;
    draft line = {0};
    draft_add_clean(&line, name);
    pad(&line, t->name_width > utf8_columns(name) ? t->name_width - utf8_columns(name) : 0);
    for (size_t column = from; column < to; column++) {
      if (row == 0) head_text(t, t->lengths[column], text, sizeof text);
      else cell_text(&t->lines[row - 1], t->lengths[column], text, sizeof text);
      pad(&line, GAP + column_width(t, column) - strlen(text));
      draft_put(&line, text, strlen(text));
    }
    while (line.used > 0 && line.data[line.used - 1] == ' ') line.used--;
    draft_put(d, line.data ? line.data : "", line.used);
    draft_put(d, "\n", 1);
    d->failed = d->failed || line.failed;
    free(draft_take(&line));
  }
}

static void collect_notes(table *t)
{
  for (size_t i = 0; i < t->count; i++) {
    const char *why = NULL;
    curve_end(t->lines[i].curve, &why);
    bool known = why == NULL;
    for (size_t j = 0; j < t->note_count && !known; j++) known = strcmp(t->notes[j], why) == 0;
    if (known || t->note_count == NOTES) continue;
    t->note_names[t->note_count] = t->lines[i].plain;
    t->notes[t->note_count++] = why;
  }
}

/* "* the length they were trained at.  Standard errors: 1.2 % to 1.4 % of the figures." */
static void add_footnote(draft *d, const table *t)
{
  double low = INFINITY, high = 0;
  for (size_t i = 0; i < t->count; i++)
    for (size_t j = 0; j < t->lines[i].curve->count; j++) {
      const curve_point *p = &t->lines[i].curve->points[j];
      if (!point_measured(p) || !isfinite(p->standard_error)) continue;
      double part = 100 * p->standard_error / p->perplexity;
      if (part < low) low = part;
      if (part > high) high = part;
    }
  bool trained = false;
  for (size_t i = 0; i < t->length_count; i++) trained |= t->lengths[i] == t->results->train_length;
  if (trained) draft_add(d, "* training length%s", high > 0 ? "; standard errors" : "\n");
  else if (high > 0) draft_add(d, "Standard errors");
  char least[32], largest[32];
  number_print(least, sizeof least, "%.1f %%", low);
  number_print(largest, sizeof largest, "%.1f %%", high);
  if (high > 0 && strcmp(least, largest) != 0) draft_add(d, " are %s to %s of the figures\n", least, largest);
  else if (high > 0) draft_add(d, " are %s of the figures\n", largest);
}

char *results_table(const study_results *results, const char *protocol, int columns)
{
  draft d = {0};
  table t = {.results = results, .name_width = strlen("method")};
  size_t width = columns > 0 ? (size_t)columns : 80;
  t.lines = series_list(results, protocol, &t.count);
  t.lengths = length_list(results, protocol, &t.length_count);
  if ((t.count && !t.lines) || (t.length_count && !t.lengths)) d.failed = true;
  if (d.failed) t.count = t.length_count = 0;
  for (size_t i = 0; i < t.count; i++)
    if (utf8_columns(t.lines[i].plain) > t.name_width) t.name_width = utf8_columns(t.lines[i].plain);
  collect_notes(&t);
  if (t.length_count == 0) draft_add(&d, "%s: nothing was measured\n", protocol);
  else draft_add(&d, "%s: perplexity by tokens read at once (lower is better)\n\n", protocol);
  for (size_t from = 0; from < t.length_count;) {
    size_t to = from, used = t.name_width;
    while (to < t.length_count && (to == from || used + GAP + column_width(&t, to) <= width))
      used += GAP + column_width(&t, to++);
    add_block(&d, &t, from, to);
    draft_put(&d, "\n", 1);
    from = to;
  }
  add_footnote(&d, &t);
  for (size_t i = 0; i < t.note_count; i++) {
    draft_add(&d, "- ");
    if (strncmp(t.notes[i], t.note_names[i], strlen(t.note_names[i])) != 0) {
      draft_add_clean(&d, t.note_names[i]);
      draft_add(&d, ": ");
    }
    draft_add_clean(&d, t.notes[i]);
    draft_put(&d, "\n", 1);
  }
  free(t.lines);
  free(t.lengths);
  return draft_take(&d);
}
