/* A method's own page: what it is, what it read at every length beside the best of the others, what it cost, with
 * which settings.  Beside report.html, which links to it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "position/position.h"
#include "report/html_parts.h"

enum { PROTOCOLS = 8 };

static void add_fact(draft *d, const char *name, const char *text)
{
  if (!text || !text[0]) return;
  html_element(d, "<dt>", name, "</dt>");
  html_element(d, "<dd>", text, "</dd>");
}

/* From the registry of this program; results of another version may name what it does not know. */
static void add_facts(draft *d, const method_result *m)
{
  const position_method *row = position_method_find(m->name);
  if (!row) return;
  draft_add(d, "<dl>\n");
  add_fact(d, "Formula", row->formula);
  add_fact(d, "Source", row->source);
  add_fact(d, "Sees", row->relative ? "distances only: a text may be shifted" : "where a token stands");
  add_fact(d, "Learns", row->parameters ? "parameters of its own" : "nothing: it has no parameters");
  add_fact(d, "Skips",
           row->decays ? "keys that are proven invisible, so that its cost grows with the text (docs/attention.md)"
                       : "nothing: every key may count, so that its cost grows with the square of the text");
  draft_add(d, "</dl>\n");
}

/* The lowest perplexity of any line at a length. */
static const series *best_at(const series *lines, size_t count, int64_t length)
{
  const series *best = NULL;
  double lowest = INFINITY;
  for (size_t i = 0; i < count; i++) {
    const curve_point *p = curve_find_point(lines[i].curve, length);
    if (!point_measured(p) || p->perplexity >= lowest) continue;
    lowest = p->perplexity;
    best = &lines[i];
  }
  return best;
}

static void add_best(draft *d, const series *lines, size_t count, const int64_t *lengths, size_t length_count)
{
  draft_add(d, "<tr><td class=\"soft\">the best here</td>");
  for (size_t i = 0; i < length_count; i++) {
    const series *best = best_at(lines, count, lengths[i]);
    char number[40];
    if (!best) {
      draft_add(d, "<td>-</td>");
      continue;
    }
    number_short(curve_find_point(best->curve, lengths[i])->perplexity, number, sizeof number);
    draft_add(d, "<td>%s<small>", number);
    draft_add_escaped(d, best->label);
    draft_add(d, "</small></td>");
  }
  draft_add(d, "</tr>\n");
}

static void add_protocol(draft *d, const study_results *results, const method_result *m, const char *protocol,
                         html_notes *n)
{
  size_t count = 0, length_count = 0;
  series *lines = series_list(results, protocol, &count);
  int64_t *lengths = length_list(results, protocol, &length_count);
  if (!lines || !lengths) {
    d->failed = d->failed || count > 0;
    goto done;
  }
  html_element(d, "<h3>", protocol_title(protocol), "</h3>");
  html_element(d, "<p>", protocol_meaning(protocol), "</p>");
  draft_add(d, "<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>perplexity</th>");
  for (size_t i = 0; i < length_count; i++)
    draft_add(d, "<th%s>%lld</th>", lengths[i] == results->train_length ? " class=\"here\"" : "",
              (long long)lengths[i]);
  draft_add(d, "</tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < count; i++) {
    if (lines[i].method != m) continue;
    draft_add(d, "<tr><td>");
    html_key(d, lines[i].colour, lines[i].dash > 0, lines[i].main_method);
    draft_add_escaped(d, lines[i].label);
    draft_add(d, "</td>");
    for (size_t j = 0; j < length_count; j++) html_cell(d, results, &lines[i], lengths[j], n);
    draft_add(d, "</tr>\n");
  }
  add_best(d, lines, count, lengths, length_count);
  draft_add(d, "</tbody></table></div>\n");
done:
  free(lines);
  free(lengths);
}

static void add_costs(draft *d, const method_result *m)
{
  draft_add(d, "<h2>What it cost</h2>\n<table class=\"settings\"><tbody>\n<tr><td>trained at</td>");
  html_number(d, (double)m->train_length);
  draft_add(d, " tokens</td></tr>\n<tr><td>parameters</td>");
  html_number(d, (double)m->parameters);
  draft_add(d, "</td></tr>\n<tr><td>steps</td>");
  html_number(d, (double)m->steps);
  draft_add(d, "</td></tr>\n<tr><td>training</td><td>");
  html_seconds(d, m->train_seconds);
  draft_add(d, "</td></tr>\n<tr><td>training, tokens a second</td>");
  html_number(d, m->train_tokens_per_second);
  draft_add(d, "</td></tr>\n<tr><td>reading, tokens a second</td>");
  html_number(d, m->evaluate_tokens_per_second);
  if (m->peak_memory_bytes > 0)
    draft_add(d, "</td></tr>\n<tr><td>peak memory</td><td>%.1f MiB",
              (double)m->peak_memory_bytes / (1024.0 * 1024.0));
  draft_add(d, "</td></tr>\n</tbody></table>\n");
}

/* The study writes a method's settings as "label.setting", where the label may carry the length. */
static void add_settings(draft *d, const study_results *results, const method_result *m)
{
  char at[2 * RESULT_NAME_SIZE];
  size_t plain = strlen(m->name), found = 0;
  snprintf(at, sizeof at, "%s-%lld.", m->name, (long long)m->train_length);
  for (size_t i = 0; i < results->setting_count; i++) {
    const char *name = results->settings[i].name, *own = NULL;
    if (strncmp(name, m->name, plain) == 0 && name[plain] == '.') own = name + plain + 1;
    if (strncmp(name, at, strlen(at)) == 0) own = name + strlen(at);
    if (!own) continue;
    if (found++ == 0) draft_add(d, "<h2>Its settings</h2>\n<table class=\"settings\"><tbody>\n");
    draft_add(d, "<tr><td>");
    draft_add_escaped(d, own);
    draft_add(d, "</td><td>");
    draft_add_escaped(d, results->settings[i].value);
    draft_add(d, "</td></tr>\n");
  }
  if (found) draft_add(d, "</tbody></table>\n");
}

status html_write_method(const study_results *results, const method_result *m, const char *directory,
                         alibi_error *error)
{
  draft d = {0};
  html_notes n = {.count = 0};
  const char *protocols[PROTOCOLS];
  char label[2 * RESULT_NAME_SIZE], page[2 * RESULT_NAME_SIZE];
  size_t count = protocol_list(results, protocols, PROTOCOLS);
  const position_method *row = position_method_find(m->name);
  method_label(results, m, "", label, sizeof label);
  html_page_name(results, m, page, sizeof page);
  html_begin(&d, label);
  draft_add(&d, "<p><a href=\"report.html\">The whole study</a></p>\n");
  html_element(&d, "<h1>", label, "</h1>");
  html_element(&d, "<p class=\"answer\">", row ? row->title : label, "</p>");
  add_facts(&d, m);
  draft_add(&d, "<h2>What it read</h2>\n");
  for (size_t i = 0; i < count; i++) add_protocol(&d, results, m, protocols[i], &n);
  html_note_list(&d, &n);
  html_losses(&d, results, m);
  add_costs(&d, m);
  add_settings(&d, results, m);
  html_end(&d, results);
  return draft_write(&d, directory, page, error);
}
