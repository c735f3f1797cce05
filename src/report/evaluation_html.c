/* report.html of an evaluation: from the answer and the picture to every number.  Built from the pieces of a
 * study's report; a model is a method there. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/evaluation_results.h"
#include "report/html_parts.h"

enum { PROTOCOLS = 8, MOST_CHARTED = 12, CHART_POINTS = 400 };

typedef struct page {
  draft *d;
  const evaluation_results *results;
  const study_results *curves;
  html_notes notes;
} page;

/* The lines and lengths of a protocol; line i of the results is lines[i], for every line has every protocol. */
typedef struct grid {
  const char *protocol;
  series *lines;
  int64_t *lengths;
  size_t count, length_count;
} grid;

static bool grid_open(page *p, const char *protocol, grid *g)
{
  *g = (grid){.protocol = protocol};
  g->lines = series_list(p->curves, protocol, &g->count);
  g->lengths = length_list(p->curves, protocol, &g->length_count);
  if (g->lines && g->lengths && g->count == p->results->line_count) return true;
  p->d->failed = true;
  return false;
}

static void grid_close(grid *g)
{
  free(g->lines);
  free(g->lengths);
}

static void begin_line(draft *d, const series *line, const char *label)
{
  draft_add(d, "<tr%s><td>", line->main_method ? " class=\"main\"" : "");
  html_key(d, line->colour, line->dash > 0, line->main_method);
  draft_add_escaped(d, label);
  draft_add(d, "</td>");
}

/* ---- one protocol ---- */

/* What a cell of a table shows of a row; row: NULL where it was not asked for. */
typedef void cell(draft *d, const evaluated_row *row);

static void add_grid(page *p, const grid *g, const char *first, cell *show)
{
  html_lengths(p->d, p->curves, first, g->lengths, g->length_count);
  for (size_t i = 0; i < g->count; i++) {
    begin_line(p->d, &g->lines[i], p->results->lines[i].label);
    for (size_t j = 0; j < g->length_count; j++) {
      if (show) show(p->d, evaluation_find(p->results, i, g->protocol, g->lengths[j], -1));
      else html_cell(p->d, p->curves, &g->lines[i], g->lengths[j], &p->notes);
    }
    draft_add(p->d, "</tr>\n");
  }
  draft_add(p->d, "</tbody></table></div>\n");
}

static void show_difference(draft *d, const evaluated_row *row)
{
  const char *verdict = row ? evaluation_verdict(row) : NULL;
  double percent, error;
  if (!verdict) {
    draft_add(d, "<td class=\"none\">-</td>");
    return;
  }
  evaluation_percent(row, &percent, &error);
  bool better = strcmp(verdict, "better") == 0, worse = strcmp(verdict, "worse") == 0;
  draft_add(d, "<td class=\"%s\">%+.2f %%", better ? "good" : worse ? "worse" : "none", percent);
  if (isfinite(error)) draft_add(d, "<span class=\"error\"> &plusmn;&nbsp;%.2f</span>", error);
  draft_add(d, "<small>%s</small></td>", verdict);
}

static void show_bits(draft *d, const evaluated_row *row)
{
  if (row && !row->error && isfinite(row->bits_per_byte)) draft_add(d, "<td>%.4f</td>", row->bits_per_byte);
  else draft_add(d, "<td class=\"none\">-</td>");
}

static void show_words(draft *d, const evaluated_row *row)
{
  char number[40];
  if (row && !row->error && isfinite(row->word_perplexity)) {
    number_short(row->word_perplexity, number, sizeof number);
    draft_add(d, "<td>%s<small>%" PRId64 " words</small></td>", number, row->words);
  } else {
    draft_add(d, "<td class=\"none\">-</td>");
  }
}

static bool compared(const evaluation_results *results, const char *protocol)
{
  for (size_t i = 0; i < results->row_count; i++)
    if (results->rows[i].paired_tokens > 0 && strcmp(results->rows[i].protocol, protocol) == 0) return true;
  return false;
}

static void add_protocol(page *p, const grid *g)
{
  draft *d = p->d;
  int64_t tokens = 0;
  char grouped[64];
  for (size_t i = 0; i < p->results->row_count; i++) {
    const evaluated_row *r = &p->results->rows[i];
    if (!r->error && r->tokens > tokens && strcmp(r->protocol, g->protocol) == 0) tokens = r->tokens;
  }
  number_grouped((double)tokens, grouped, sizeof grouped);
  html_protocol(d, g->protocol);
  add_grid(p, g, "perplexity", NULL);
  draft_add(
      d,
      "<p class=\"foot\">Perplexity over up to %s tokens a cell, &plusmn; its standard error; below it, how many "
      "times that at the model&#39;s training length it is.</p>\n",
      grouped);
  if (compared(p->results, g->protocol)) {
    draft_add(d, "<p>Against ");
    draft_add_escaped(d, p->results->lines[0].label);
    draft_add(
        d, ", token by token: the difference of the perplexity, &plusmn; the standard error of that difference. "
           "Better or worse is said where it is more than twice that.</p>\n");
    add_grid(p, g, "difference", show_difference);
  }
  add_grid(p, g, "bits per byte", show_bits);
  if (p->results->by_word) add_grid(p, g, "perplexity per word", show_words);
}

/* ---- the early token curse ---- */

static void add_perplexity(draft *d, double nll)
{
  char number[40];
  number_short(exp(nll), number, sizeof number);
  draft_add(d, "<td>%s</td>", isfinite(nll) ? number : "-");
}

static void add_split_row(page *p, const grid *g, const evaluated_row *r)
{
  draft *d = p->d;
  evaluation_gain gain;
  begin_line(d, &g->lines[r->line], p->results->lines[r->line].label);
  draft_add(d, "<td>%" PRId64 "</td><td>%.2f %%</td>", r->length,
            100 * (double)r->early_tokens / (double)r->tokens);
  add_perplexity(d, r->early_nll);
  add_perplexity(d, r->late_nll);
  add_perplexity(d, r->nll);
  if (evaluation_gain_of(p->results, r, &gain))
    draft_add(d, "<td>%+.2f %%<small>from %" PRId64 "</small></td><td>%+.2f %%</td><td>%+.2f %%</td></tr>\n",
              evaluation_change(-gain.total), gain.from->length, evaluation_change(-gain.fewer_early),
              evaluation_change(-gain.better_read));
  else draft_add(d, "<td>-</td><td>-</td><td>-</td></tr>\n");
}

static void add_split(page *p, const grid *g)
{
  int64_t early = 0;
  for (size_t i = 0; i < p->results->row_count && early == 0; i++)
    if (!p->results->rows[i].error) early = p->results->rows[i].early;
  draft_add(
      p->d,
      "<h2>The early token curse</h2>\n<p>Of nonoverlapping windows the first tokens have little to read. A "
      "longer window has fewer of them, and looks better for that alone. Early tokens here are those predicted "
      "from "
      "fewer than %" PRId64 " inputs; the last columns split the change of the perplexity with the length "
      "into what comes from their share and what from reading better.</p>\n"
      "<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>model</th><th>length</th><th>early</th>"
      "<th>early<small>perplexity</small></th><th>late<small>perplexity</small></th><th>all<small>perplexity"
      "</small></th><th>change</th><th>fewer early<small>tokens</small></th><th>read better</th></tr></thead>\n"
      "<tbody>\n",
      early);
  for (size_t i = 0; i < p->results->row_count; i++) {
    const evaluated_row *r = &p->results->rows[i];
    if (!r->error && r->document < 0 && strcmp(r->protocol, g->protocol) == 0) add_split_row(p, g, r);
  }
  draft_add(p->d, "</tbody></table></div>\n");
}

static void add_protocols(page *p)
{
  const char *protocols[PROTOCOLS];
  size_t count = protocol_list(p->curves, protocols, PROTOCOLS);
  grid g;
  html_numbers(p->d);
  for (size_t i = 0; i < count; i++) {
    if (grid_open(p, protocols[i], &g)) add_protocol(p, &g);
    grid_close(&g);
  }
  html_note_list(p->d, &p->notes);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(protocols[i], "nonoverlapping") != 0) continue;
    if (grid_open(p, protocols[i], &g)) add_split(p, &g);
    grid_close(&g);
  }
}

/* ---- loss against place ---- */

/* The line itself and the two edges of its band, thinned to what a picture can show. */
static void chart_of(const evaluated_row *r, const char *label, const char *colour, double *numbers,
                     chart_line *lines)
{
  size_t count = r->length < CHART_POINTS ? (size_t)r->length : CHART_POINTS;
  double *x = numbers;
  for (int edge = 0; edge < 3; edge++) {
    double *y = numbers + (size_t)(edge + 1) * CHART_POINTS;
    for (size_t k = 0; k < count; k++) {
      int64_t place = (int64_t)llround(pow((double)r->length, (double)k / (double)(count > 1 ? count - 1 : 1)));
      double band = edge == 0 ? 0 : edge == 1 ? r->position_band[place - 1] : -r->position_band[place - 1];
      x[k] = (double)place;
      y[k] = exp(r->position_nll[place - 1] + band);
    }
    lines[edge] = (chart_line){edge ? "" : label, colour, edge ? 2 : 0, edge ? 0.7 : 2.2, x, y, count};
  }
  lines[1].label = "95 % band";
}

static void add_positions(page *p)
{
  size_t charts = 0;
  double numbers[4 * CHART_POINTS], ticks[16];
  chart_line lines[3];
  grid g = {0};
  for (size_t i = 0; i < p->results->row_count && charts < MOST_CHARTED; i++) {
    const evaluated_row *r = &p->results->rows[i];
    char title[96];
    size_t tick_count = 0;
    if (!r->position_nll) continue;
    if (!g.lines && !grid_open(p, r->protocol, &g)) break;
    if (charts++ == 0)
      draft_add(p->d,
                "<h2>Loss against place</h2>\n<p>Perplexity of the tokens at each place of a window, a mean over "
                "windows and 101 places (fewer at the ends). Where it falls, the text so far is used.</p>\n");
    for (double at = 1; at <= (double)r->length && tick_count<16; at *= r->length> 4096 ? 4 : 2)
      ticks[tick_count++] = at;
    chart_of(r, p->results->lines[r->line].label, g.lines[r->line].colour, numbers, lines);
    snprintf(title, sizeof title, "Windows of %" PRId64 " tokens", r->length);
    draft_add(p->d, "<figure>\n");
    draft_chart(p->d,
                &(chart){title, "tokens read so far", "perplexity", true, ticks, tick_count,
                         (double)p->results->models[p->results->lines[r->line].model].train_length, lines, 3});
    draft_add(p->d, "</figure>\n");
  }
  grid_close(&g);
}

/* ---- the rest ---- */

static void add_documents(page *p)
{
  const evaluation_results *results = p->results;
  draft *d = p->d;
  char number[40];
  if (!results->by_document) return;
  draft_add(
      d,
      "<h2>Text by text</h2>\n<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>text</th><th>model</th>"
      "<th>protocol</th><th>length</th><th>perplexity</th><th>bits per byte</th><th>tokens</th><th>difference"
      "</th></tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (r->document < 0 || r->error) continue;
    draft_add(d, "<tr><td>");
    draft_add_escaped(d, results->texts[r->document].path);
    draft_add(d, "</td><td>");
    draft_add_escaped(d, results->lines[r->line].label);
    number_short(r->perplexity, number, sizeof number);
    draft_add(d, "</td><td>%s</td><td>%" PRId64 "</td><td>%s", r->protocol, r->length, number);
    if (isfinite(r->standard_error))
      draft_add(d, "<span class=\"error\"> &plusmn;&nbsp;%.2f</span>", r->standard_error);
    draft_add(d, "</td>");
    show_bits(d, r);
    draft_add(d, "<td>%" PRId64 "</td>", r->tokens);
    show_difference(d, r);
    draft_add(d, "</tr>\n");
  }
  draft_add(d, "</tbody></table></div>\n");
}

static void add_terms(draft *d)
{
  draft_add(
      d, "<h2>What the words mean</h2>\n<dl>\n"
         "<dt>Perplexity</dt><dd>How many equally likely tokens the model is, on average, undecided between: the "
         "exponential of the mean loss over all scored tokens. It compares only between models with the same "
         "tokens.</dd>\n"
         "<dt>Bits per byte</dt><dd>The same loss in bits for each byte of the scored text: it compares between "
         "tokenizers too.</dd>\n"
         "<dt>Which one to trust</dt><dd>To see whether a model uses a longer text, fixed targets: the same "
         "tokens at every "
         "length. To know how well it predicts a long document, the sliding window. Nonoverlapping windows are "
         "cheap and "
         "comparable with many published figures, but fall with the length for the wrong reason; the streaming "
         "figure is "
         "that of a cache in use.</dd>\n"
         "<dt>Standard error</dt><dd>How far a figure would typically be off because only so much text was read, "
         "from "
         "blocks of at least 1000 tokens. Two models that read the same tokens are compared token by token, which "
         "is far "
         "surer than their two errors suggest.</dd>\n</dl>\n");
}

static void add_settings(page *p)
{
  const evaluation_results *results = p->results;
  draft *d = p->d;
  draft_add(d, "<h2>Every setting</h2>\n<table class=\"settings\"><tbody>\n");
  for (size_t i = 0; i < results->model_count; i++) {
    const evaluated_model *m = &results->models[i];
    draft_add(d, "<tr><td>");
    draft_add_escaped(d, m->name);
    draft_add(d, "</td><td>");
    draft_add_escaped(d, m->path);
    draft_add(d, ": %s%s", m->position, m->extension ? " with " : "");
    draft_add_escaped(d, m->extension);
    draft_add(d,
              ", %" PRId64 " parameters, trained at %" PRId64 "; tokenizer %s of %" PRId64 " tokens; %" PRId64
              " tokens of text</td></tr>\n",
              m->parameters, m->train_length, m->tokenizer, m->vocabulary, m->tokens);
  }
  for (size_t i = 0; i < results->text_count; i++) {
    const evaluation_text *t = &results->texts[i];
    draft_add(d, "<tr><td>text</td><td>");
    draft_add_escaped(d, t->path);
    draft_add(d, ", %" PRId64 " bytes", t->bytes);
    if (t->invalid_bytes) draft_add(d, ", %" PRId64 " of them no UTF-8", t->invalid_bytes);
    draft_add(d, "%s</td></tr>\n", t->bytes ? "" : ": empty, left out");
  }
  html_element(d, "<tr><td>machine</td><td>", results->machine, "</td></tr>");
  html_settings(d, results->settings, results->setting_count);
  draft_add(d, "</tbody></table>\n");
}

static void add_repeat(draft *d, const evaluation_results *results)
{
  if (results->command) draft_add(d, "<h2>How to repeat it</h2>\n");
  html_element(d, "<pre>", results->command, "</pre>");
  draft_add(
      d, "<p>Beside this page lie <code>results.json</code> and <code>results.csv</code> with every number, and "
         "<code>curves.gp</code> and <code>curves.dat</code>, from which <code>gnuplot curves.gp</code> draws the "
         "picture again.</p>\n");
}

status evaluation_write_html(const evaluation_results *results, const study_results *curves, const char *directory,
                             alibi_error *error)
{
  draft d = {0};
  page p = {.d = &d, .results = results, .curves = curves};
  const char *protocols[PROTOCOLS];
  size_t count = protocol_list(curves, protocols, PROTOCOLS);
  html_begin(&d, curves->question);
  html_element(&d, "<h1>", curves->question, "</h1>");
  html_element(&d, "<p class=\"answer\">", curves->answer, "</p>");
  html_picture(&d, curves, directory, protocols, count);
  add_protocols(&p);
  add_positions(&p);
  add_documents(&p);
  add_terms(&d);
  add_settings(&p);
  add_repeat(&d, results);
  html_end(&d, curves);
  return draft_write(&d, directory, "report.html", error);
}
