/* The curves in a page: gnuplot's picture where it was drawn, else the same curves drawn here. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/system.h"
#include "report/html_parts.h"

static bool read_box(const char *box, double *width, double *height)
{
  static const char origin[] = "viewBox=\"0 0 ";
  char *between, *end;
  if (strncmp(box, origin, sizeof origin - 1) != 0) return false;
  *width = number_parse(box + sizeof origin - 1, &between);
  *height = number_parse(between, &end);
  return end > between && between > box + sizeof origin - 1;
}

/* The outer tag of a picture is replaced: names of XML namespaces mean nothing in HTML. */
bool html_drawn(draft *d, const char *directory, const char *name, const char *label)
{
  mapped_file file = {0};
  char *path = path_join(directory, name), *text = NULL;
  bool added = false;
  if (path && mapped_file_open(path, &file, NULL) == ALIBI_OK) {
    text = malloc(file.size + 1);
    if (text) memcpy(text, file.data, file.size);
    if (text) text[file.size] = '\0';
    mapped_file_close(&file);
  }
  free(path);
  char *start = text ? strstr(text, "<svg") : NULL, *body = start ? strchr(start, '>') : NULL;
  char *end = body ? strstr(body, "</svg>") : NULL, *box = start ? strstr(start, "viewBox=\"") : NULL;
  static const char *const foreign[] = {"<script",     "<image",  "<foreignObject",
                                        "javascript:", "href=\"", "href='h"};
  for (size_t i = 0; end && i < sizeof foreign / sizeof foreign[0]; i++)
    if (strstr(body, foreign[i])) end = NULL;
  double width = 0, height = 0;
  if (end && box && box < body && read_box(box, &width, &height)) {
    draft_add(d, "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"", width, height);
    draft_add_escaped(d, label);
    draft_add(d, "\">");
    char *description = strstr(body, "</desc>"); /* title and maker of the file */
    if (description && description < end) body = description + strlen("</desc>") - 1;
    draft_put(d, body + 1, (size_t)(end - body - 1));
    draft_add(d, "</svg>\n");
    added = true;
  }
  free(text);
  return added;
}

/* Without gnuplot: the same curves, drawn here. */
static void add_protocol_chart(draft *d, const study_results *results, const char *protocol)
{
  size_t count = 0, ticks = 0;
  series *list = series_list(results, protocol, &count);
  int64_t *lengths = length_list(results, protocol, &ticks);
  chart_line *lines = calloc(count ? count : 1, sizeof *lines);
  double *numbers = calloc(2 * count * ticks + ticks + 1, sizeof *numbers), *next = numbers;
  if (!list || !lengths || !lines || !numbers) {
    d->failed = d->failed || count > 0;
    goto done;
  }
  for (size_t i = 0; i < ticks; i++) *next++ = (double)lengths[i];
  for (size_t i = 0; i < count; i++) {
    double *x = next, *y = next + ticks;
    next += 2 * ticks;
    for (size_t j = 0; j < ticks; j++) {
      const curve_point *p = curve_find_point(list[i].curve, lengths[j]);
      x[j] = (double)lengths[j];
      y[j] = point_measured(p) ? p->perplexity : NAN;
    }
    lines[i] =
        (chart_line){list[i].label, list[i].colour, list[i].dash, list[i].main_method ? 5 : 2.2, x, y, ticks};
  }
  draft_add(d, "<figure>\n");
  draft_chart(d, &(chart){protocol_title(protocol), "tokens read at once", "perplexity (lower is better)", true,
                          numbers, ticks, (double)results->train_length, lines, count});
  draft_add(d, "</figure>\n");
done:
  free(list);
  free(lengths);
  free(lines);
  free(numbers);
}

void html_picture(draft *d, const study_results *results, const char *directory, const char *const *protocols,
                  size_t count)
{
  draft drawn = {0};
  if (html_drawn(&drawn, directory, "curves.svg",
                 results->question ? results->question : "perplexity by length")) {
    draft_add(d, "<figure class=\"drawn\">\n");
    draft_put(d, drawn.data, drawn.used);
    draft_add(d,
              "<figcaption>Perplexity by the number of tokens read at once, both axes logarithmic. A flat line "
              "means that "
              "the method keeps working on texts longer than those it was trained on.</figcaption>\n</figure>\n");
  } else {
    for (size_t i = 0; i < count && i < 2; i++) add_protocol_chart(d, results, protocols[i]);
  }
  free(draft_take(&drawn));
}
