/* The plot for a terminal: both axes logarithmic, one letter a method, named at the right where its line ends.
 * With UTF-8 the lines between the letters are drawn in braille dots, 2 x 4 to a character. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"

enum { ROWS = 17, LEFT = 7, MOST_WIDTH = 120, MOST_LINES = 26, NAME_SIZE = 4 * RESULT_NAME_SIZE };

typedef struct plot {
  const study_results *results;
  series *lines;
  size_t count;
  int64_t *lengths;
  size_t length_count;
  int width;       /* characters of the drawing area */
  int names_width; /* to its right; 0: the names stand below */
  double low, high;
  bool utf8;
  char letters[MOST_LINES];
  unsigned char dots[ROWS][MOST_WIDTH]; /* braille patterns, or 1 for an ASCII dot */
  char marks[ROWS][MOST_WIDTH];         /* letters */
  int name_row[MOST_LINES];
} plot;

/* A letter that no line before has, in either case: of the extension first, then of the name, then any. */
static void choose_letters(plot *p)
{
  bool taken[26] = {false};
  for (size_t k = 0; k < 2 * p->count; k++) { /* methods as trained choose before their extensions */
    size_t i = k % p->count;
    const series *line = &p->lines[i];
    if ((line->dash > 0) != (k >= p->count)) continue;
    char candidates[3 * RESULT_NAME_SIZE];
    snprintf(candidates, sizeof candidates, "%.63s%s%s", line->curve->extend, line->method->name,
             "abcdefghijklmnopqrstuvwxyz");
    p->letters[i] = '?';
    for (const char *c = candidates; *c && p->letters[i] == '?'; c++) {
      if (!isascii((unsigned char)*c) || !isalpha((unsigned char)*c)) continue;
      int letter = tolower((unsigned char)*c) - 'a';
      if (taken[letter]) continue;
      taken[letter] = true;
      p->letters[i] = (char)((line->dash ? 'a' : 'A') + letter);
    }
  }
}

/* Places in dots: a character is 2 x 4 of them. */
static double place_x(const plot *p, double length)
{
  double first = (double)p->lengths[0], last = (double)p->lengths[p->length_count - 1];
  double room = last > first ? log(length / first) / log(last / first) : 0.5;
  return 2 + room * (2 * p->width - 5);
}

static double place_y(const plot *p, double perplexity)
{
  return (4 * ROWS - 1) * (1 - log(perplexity / p->low) / log(p->high / p->low));
}

static void set_dot(plot *p, double x, double y)
{
  static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  int column = (int)lround(x), row = (int)lround(y);
  if (column < 0 || row < 0 || column >= 2 * p->width || row >= 4 * ROWS) return;
  p->dots[row / 4][column / 2] |= bits[row % 4][column % 2];
}

static void draw_line(plot *p, size_t index)
{
  const curve *c = p->lines[index].curve;
  const curve_point *before = NULL;
  for (size_t i = 0; i < p->length_count; i++) {
    const curve_point *point = curve_find_point(c, p->lengths[i]);
    if (!point_measured(point)) {
      if (point) before = NULL;
      continue;
    }
    double x = place_x(p, (double)point->length), y = place_y(p, point->perplexity);
    if (before) {
      double x0 = place_x(p, (double)before->length), y0 = place_y(p, before->perplexity);
      int steps = (int)ceil(fmax(fabs(x - x0), fabs(y - y0))) + 1;
      for (int k = 0; k <= steps; k++) set_dot(p, x0 + (x - x0) * k / steps, y0 + (y - y0) * k / steps);
    }
    int column = (int)lround(x) / 2, row = (int)lround(y) / 4;
    if (row >= 0 && row < ROWS && column >= 0 && column < p->width) p->marks[row][column] = p->letters[index];
    before = point;
  }
}

/* Rows for the names: in the order in which the lines end, each where its line ends or just below the one before.
 */
static void place_names(plot *p)
{
  size_t order[MOST_LINES];
  double end[MOST_LINES];
  for (size_t i = 0; i < p->count; i++) {
    end[i] = 4 * ROWS - 1;
    for (size_t j = 0; j < p->length_count; j++) {
      const curve_point *point = curve_find_point(p->lines[i].curve, p->lengths[j]);
      if (point_measured(point)) end[i] = place_y(p, point->perplexity);
    }
    size_t k = i;
    for (; k > 0 && end[order[k - 1]] > end[i]; k--) order[k] = order[k - 1];
    order[k] = i;
  }
  int least = 0, most = ROWS - (int)p->count;
  for (size_t k = 0; k < p->count; k++) {
    int row = (int)lround(end[order[k]]) / 4;
    if (row < least) row = least;
    if (row > most + (int)k) row = most + (int)k;
    p->name_row[order[k]] = row;
    least = row + 1;
  }
}

static void line_name(const plot *p, size_t index, char *text, size_t size)
{
  const char *why = NULL;
  int64_t end = curve_end(p->lines[index].curve, &why);
  if (why && end > 0)
    snprintf(text, size, "%c %s (ends at %lld)", p->letters[index], p->lines[index].plain, (long long)end);
  else snprintf(text, size, "%c %s%s", p->letters[index], p->lines[index].plain, why ? " (no result)" : "");
}

static void add_cell(draft *d, const plot *p, int row, int column, int trained)
{
  unsigned char dots = p->dots[row][column];
  if (p->marks[row][column]) draft_put(d, &p->marks[row][column], 1);
  else if (dots && p->utf8) draft_add(d, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
  else if (dots) draft_put(d, ".", 1);
  else if (column == trained) draft_add(d, "%s", p->utf8 ? "\xe2\x94\x8a" : ":");
  else draft_put(d, " ", 1);
}

static void add_row(draft *d, const plot *p, int row, const double *ticks, size_t tick_count)
{
  char tick[32] = "";
  int64_t length = p->results->train_length;
  bool inside = length >= p->lengths[0] && length <= p->lengths[p->length_count - 1];
  int trained = inside ? (int)lround(place_x(p, (double)length)) / 2 : -1;
  for (size_t i = 0; i < tick_count; i++)
    if ((int)lround(place_y(p, ticks[i])) / 4 == row) number_tick(ticks[i], tick, sizeof tick);
  draft line = {0};
  draft_add(&line, "%*s %s", LEFT - 1, tick,
            p->utf8   ? tick[0] ? "\xe2\x94\xa4" : "\xe2\x94\x82"
            : tick[0] ? "+"
                      : "|");
  for (int column = 0; column < p->width; column++) add_cell(&line, p, row, column, trained);
  for (size_t i = 0; i < p->count && p->names_width; i++) {
    char name[NAME_SIZE];
    if (p->name_row[i] != row) continue;
    line_name(p, i, name, sizeof name);
    draft_add(&line, " ");
    draft_add_clean(&line, name);
  }
  while (line.used > 0 && line.data[line.used - 1] == ' ') line.used--;
  draft_put(d, line.data ? line.data : "", line.used);
  draft_put(d, "\n", 1);
  d->failed = d->failed || line.failed;
  free(draft_take(&line));
}

static void add_axis(draft *d, const plot *p)
{
  char marks[MOST_WIDTH + LEFT + 24];
  int size = LEFT + 1 + p->width + 16, free_from = 0;
  memset(marks, ' ', sizeof marks);
  draft_add(d, "%*s%s", LEFT, "", p->utf8 ? "\xe2\x94\x94" : "+");
  for (int column = 0; column < p->width; column++) {
    bool tick = false;
    for (size_t i = 0; i < p->length_count; i++)
      tick |= (int)lround(place_x(p, (double)p->lengths[i])) / 2 == column;
    if (p->utf8) draft_add(d, "%s", tick ? "\xe2\x94\xb4" : "\xe2\x94\x80");
    else draft_put(d, tick ? "+" : "-", 1);
  }
  for (size_t i = 0; i < p->length_count; i++) {
    char text[24];
    int width = snprintf(text, sizeof text, "%lld%s", (long long)p->lengths[i],
                         p->lengths[i] == p->results->train_length ? "*" : "");
    int at = LEFT + 1 + (int)lround(place_x(p, (double)p->lengths[i])) / 2 - width / 2;
    if (at < free_from || at + width > size) continue;
    memcpy(marks + at, text, (size_t)width);
    free_from = at + width + 1;
  }
  while (size > 0 && marks[size - 1] == ' ') size--;
  draft_add(d, "\n%.*s\n", size, marks);
}

static void add_names(draft *d, const plot *p, int columns)
{
  int used = 0;
  for (size_t i = 0; i < p->count; i++) {
    char name[NAME_SIZE];
    line_name(p, i, name, sizeof name);
    int width = (int)utf8_columns(name);
    if (used > 0 && used + 3 + width > columns) {
      draft_put(d, "\n", 1);
      used = 0;
    }
    draft_add(d, "%s", used ? "   " : "");
    draft_add_clean(d, name);
    used += (used ? 3 : 0) + width;
  }
  draft_put(d, "\n", 1);
}

static void draw_plot(draft *d, plot *p, int columns)
{
  double ticks[16];
  choose_letters(p);
  for (size_t i = 0; i < p->count; i++) {
    char name[NAME_SIZE];
    line_name(p, i, name, sizeof name);
    if ((int)utf8_columns(name) + 1 > p->names_width) p->names_width = (int)utf8_columns(name) + 1;
  }
  if (columns - LEFT - 1 - p->names_width < 30 || p->count > ROWS) p->names_width = 0;
  p->width = columns - LEFT - 1 - p->names_width;
  if (p->width < 20) p->width = 20;
  if (p->width > 72) p->width = 72;
  axis_open(&p->low, &p->high);
  size_t tick_count = axis_ticks(p->low, p->high, ticks, 16);
  for (size_t i = p->count; i-- > 0;) draw_line(p, i); /* the first method lies on top */
  if (p->names_width) place_names(p);
  for (int row = 0; row < ROWS; row++) add_row(d, p, row, ticks, tick_count);
  add_axis(d, p);
  if (!p->names_width) add_names(d, p, columns);
}

char *results_plot(const study_results *results, const char *protocol, int columns, bool utf8)
{
  draft d = {0};
  plot *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->results = results;
  p->utf8 = utf8;
  p->lines = series_list(results, protocol, &p->count);
  p->lengths = length_list(results, protocol, &p->length_count);
  if ((p->count && !p->lines) || (p->length_count && !p->lengths)) d.failed = true;
  if (p->count > MOST_LINES) p->count = MOST_LINES;
  if (!d.failed && series_range(p->lines, p->count, &p->low, &p->high)) {
    draft_add(&d, "%s: perplexity by tokens read at once (* trained here)\n", protocol);
    draw_plot(&d, p, columns > 0 ? columns : 80);
  } else {
    draft_add(&d, "%s: nothing was measured\n", protocol);
  }
  free(p->lines);
  free(p->lengths);
  free(p);
  return draft_take(&d);
}
