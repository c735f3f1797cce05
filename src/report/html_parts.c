/* The pieces of which the pages of a report are made. */
#include "report/html_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_style.h"

enum { LOSS_POINTS = 240 };

void html_begin(draft *d, const char *title)
{
  draft_add(d, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  html_element(d, "<title>", title, "</title>");
  draft_add(d, "<style>\n%s</style>\n</head>\n<body>\n<main>\n", html_style);
}

void html_end(draft *d, const study_results *results)
{
  draft_add(d, "<footer>Made by alibi %s", alibi_version());
  if (isfinite(results->seconds) && results->seconds > 0) {
    draft_add(d, " in ");
    html_seconds(d, results->seconds);
  }
  draft_add(d, ".</footer>\n</main>\n</body>\n</html>\n");
}

void html_numbers(draft *d)
{
  draft_add(
      d,
      "<h2>The numbers</h2>\n<p class=\"scale\"><span>Compared with itself at its training length:</span>"
      "<span><i class=\"good\"></i>at most 2 %% worse</span><span><i class=\"near\"></i>up to 10 %% worse</span>"
      "<span><i class=\"worse\"></i>up to 1.5 times</span><span><i class=\"bad\"></i>up to 2.5 times</span>"
      "<span><i class=\"broken\"></i>beyond that</span></p>\n");
}

void html_protocol(draft *d, const char *protocol)
{
  draft_add(d, "<h3>");
  draft_add_escaped(d, protocol_title(protocol));
  draft_add(d, " <span class=\"soft\">(");
  draft_add_escaped(d, protocol);
  draft_add(d, ")</span></h3>\n");
  html_element(d, "<p>", protocol_meaning(protocol), "</p>");
}

void html_lengths(draft *d, const study_results *results, const char *first, const int64_t *lengths, size_t count)
{
  draft_add(d, "<div class=\"scroll\"><table class=\"wide\"><thead><tr><th>%s</th>", first);
  for (size_t i = 0; i < count; i++) {
    bool here = lengths[i] == results->train_length;
    draft_add(d, "<th%s>%lld", here ? " class=\"here\"" : "", (long long)lengths[i]);
    if (results->train_length > 0 && !here)
      draft_add(d, "<small>%.3g&times; as long</small>", (double)lengths[i] / (double)results->train_length);
    draft_add(d, "%s</th>", here ? "<small>training length</small>" : "");
  }
  draft_add(d, "</tr></thead>\n<tbody>\n");
}

void html_page_name(const study_results *results, const method_result *m, char *name, size_t size)
{
  char safe[RESULT_NAME_SIZE], at[32] = "";
  snprintf(safe, sizeof safe, "%s", m->name);
  for (char *c = safe; *c; c++)
    if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", *c)) *c = '_'; /* a result file may say anything */
  if (m->train_length != results->train_length ||
      html_earlier_namesakes(results, (size_t)(m - results->methods)) > 0)
    snprintf(at, sizeof at, "-%lld", (long long)m->train_length);
  snprintf(name, size, "method-%s%s.html", safe, at);
}

void html_link(draft *d, const study_results *results, const method_result *m, const char *label)
{
  char page[2 * RESULT_NAME_SIZE];
  html_page_name(results, m, page, sizeof page);
  draft_add(d, "<a href=\"%s\">", page);
  draft_add_escaped(d, label);
  draft_add(d, "</a>");
}

void html_note_list(draft *d, const html_notes *n)
{
  if (n->count) draft_add(d, "<ol class=\"foot\">\n");
  for (size_t i = 0; i < n->count; i++) {
    draft_add(d, "<li id=\"note%zu\">", i + 1);
    draft_add_escaped(d, n->sentence[i]);
    draft_add(d, "</li>\n");
  }
  if (n->count) draft_add(d, "</ol>\n");
}

static size_t note_number(html_notes *n, const series *line, const char *sentence)
{
  for (size_t i = 0; i < n->count; i++)
    if (n->method[i] == line->method) return i + 1;
  if (n->count == HTML_NOTES) return HTML_NOTES;
  n->method[n->count] = line->method;
  n->sentence[n->count++] = sentence;
  return n->count;
}

void html_element(draft *d, const char *open, const char *text, const char *close)
{
  if (!text || !text[0]) return;
  draft_add(d, "%s", open);
  draft_add_escaped(d, text);
  draft_add(d, "%s\n", close);
}

void html_seconds(draft *d, double seconds)
{
  if (!isfinite(seconds)) draft_add(d, "-");
  else if (seconds < 100) draft_add(d, "%.1f s", seconds);
  else if (seconds < 3600) draft_add(d, "%.0f min %.0f s", floor(seconds / 60), floor(fmod(seconds, 60)));
  else draft_add(d, "%.0f h %.0f min", floor(seconds / 3600), floor(fmod(seconds, 3600) / 60));
}

void html_settings(draft *d, const result_setting *settings, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    draft_add(d, "<tr><td>");
    draft_add_escaped(d, settings[i].name);
    draft_add(d, "</td><td>");
    draft_add_escaped(d, settings[i].value);
    draft_add(d, "</td></tr>\n");
  }
}

static const char *ratio_class(double ratio)
{
  return ratio <= 1.02 ? "good" : ratio <= 1.1 ? "near" : ratio <= 1.5 ? "worse" : ratio <= 2.5 ? "bad" : "broken";
}

void html_cell(draft *d, const study_results *results, const series *line, int64_t length, html_notes *n)
{
  const curve_point *p = curve_find_point(line->curve, length);
  const curve_point *own = curve_find_point(line->curve, line->method->train_length);
  const char *here = length == results->train_length ? " here" : "";
  char number[40];
  if (!p) {
    draft_add(d, "<td class=\"none%s\">not measured</td>", here);
    return;
  }
  if (p->error[0]) {
    size_t note = note_number(n, line, p->error);
    draft_add(d, "<td class=\"none%s\" title=\"", here);
    draft_add_escaped(d, p->error);
    draft_add(d, "\">impossible<sup><a href=\"#note%zu\">%zu</a></sup></td>", note, note);
    return;
  }
  if (!point_measured(p)) {
    draft_add(d, "<td class=\"none%s\">not a finite number</td>", here);
    return;
  }
  bool compare = point_measured(own) && length != line->method->train_length;
  double ratio = compare ? p->perplexity / own->perplexity : 1;
  bool beyond = compare && length > line->method->train_length;
  number_short(p->perplexity, number, sizeof number);
  draft_add(d, "<td class=\"%s%s\">%s", beyond ? ratio_class(ratio) : "", here, number);
  if (isfinite(p->standard_error))
    draft_add(d, "<span class=\"error\"> &plusmn;&nbsp;%.2f</span>", p->standard_error);
  if (compare) draft_add(d, "<small>%.2f times</small>", ratio);
  if (length == line->method->train_length) draft_add(d, "<small>trained here</small>");
  draft_add(d, "</td>");
}

void html_key(draft *d, const char *colour, bool dashed, bool heavy)
{
  draft_add(d, "<span class=\"key%s%s\" style=\"border-color:%s\"></span>", dashed ? " dashed" : "",
            heavy ? " heavy" : "", colour);
}

void html_number(draft *d, double value)
{
  char text[64];
  number_grouped(value, text, sizeof text);
  draft_add(d, "<td>%s", text);
}

/* How many methods of the same name stand before it: a rival that is also a method is drawn dashed. */
int html_earlier_namesakes(const study_results *results, size_t index)
{
  int count = 0;
  for (size_t i = 0; i < index; i++) count += strcmp(results->methods[i].name, results->methods[index].name) == 0;
  return count;
}

/* At most LOSS_POINTS means over neighbouring losses, so that the line stays readable and the page small. */
static size_t thin_losses(const method_result *m, double *x, double *y)
{
  size_t each = (m->loss_count + LOSS_POINTS - 1) / LOSS_POINTS, count = 0;
  for (size_t i = 0; each > 0 && i < m->loss_count; i += each) {
    size_t end = i + each < m->loss_count ? i + each : m->loss_count;
    double sum = 0;
    for (size_t j = i; j < end; j++) sum += m->losses[j];
    x[count] = (double)(m->loss_every > 0 ? m->loss_every : 1) * ((double)i + (double)(end - i) / 2);
    y[count++] = sum / (double)(end - i);
  }
  return count;
}

void html_losses(draft *d, const study_results *results, const method_result *only)
{
  size_t count = 0, ticks = 0;
  double last = 0, tick[12];
  chart_line *lines = calloc(results->method_count + 1, sizeof *lines);
  double *numbers = calloc(2 * LOSS_POINTS * (results->method_count + 1), sizeof *numbers);
  char(*labels)[2 * RESULT_NAME_SIZE] = calloc(results->method_count + 1, sizeof *labels);
  for (size_t i = 0; lines && numbers && labels && i < results->method_count; i++) {
    const method_result *m = &results->methods[i];
    double *x = numbers + 2 * LOSS_POINTS * i, *y = x + LOSS_POINTS;
    size_t points = thin_losses(m, x, y);
    int again = html_earlier_namesakes(results, i);
    if (points == 0 || (only && m != only)) continue;
    if (x[points - 1] > last) last = x[points - 1];
    method_label(results, m, "", labels[i], sizeof labels[i]);
    lines[count++] = (chart_line){labels[i], method_colour(results, m->name, NULL),
                                  again,     strcmp(m->name, "alibi") == 0 && !again ? 2.6 : 1.4,
                                  x,         y,
                                  points};
  }
  double step = last > 0 ? pow(10, floor(log10(last / 2))) : 1;
  if (last / step > 10) step *= 5;
  for (double at = 0; at <= last && ticks < 12; at += step) tick[ticks++] = at;
  if (count) {
    draft_add(d, "<h2>How training went</h2>\n<figure>\n");
    draft_chart(d, &(chart){"Training loss", "step", "nats a token", false, tick, ticks, NAN, lines, count});
    draft_add(d, "<figcaption>Mean loss over neighbouring steps%s.</figcaption>\n</figure>\n",
              only ? "" : "; the methods start from the same seed and see the same batches");
  }
  free(lines);
  free(numbers);
  free(labels);
}
