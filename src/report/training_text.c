/* The panels for a terminal.  The lines are drawn in braille dots, 2 x 4 to a character, where there is UTF-8,
 * else in full stops; where there are several runs, letters on the lines say whose they are. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "report/drawing.h"
#include "report/training_chart.h"

enum { LEFT = 9, MOST_WIDTH = 110, MOST_ROWS = 14 };

typedef struct canvas {
  const training_chart *trainings;
  training_panel panel;
  int width, rows;
  bool utf8, log_y;
  double first, last, low, high;
  unsigned char dots[MOST_ROWS][MOST_WIDTH]; /* braille patterns */
  char marks[MOST_ROWS][MOST_WIDTH];         /* letters, '*' an evaluation, '!' a warning */
} canvas;

static double place_x(const canvas *c, double place)
{
  return (place - c->first) / (c->last - c->first) * (2 * c->width - 1);
}

static double place_y(const canvas *c, double value)
{
  double share = c->log_y ? log(value / c->low) / log(c->high / c->low) : (value - c->low) / (c->high - c->low);
  return (4 * c->rows - 1) * (1 - share);
}

/* Beyond the panel nothing is drawn. */
static bool inside(const canvas *c, double x, double y)
{
  return x > -0.5 && y > -0.5 && x < 2 * c->width - 0.5 && y < 4 * c->rows - 0.5;
}

static void set_dot(canvas *c, double x, double y)
{
  static const unsigned char bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
  if (!inside(c, x, y)) return;
  int column = (int)lround(x), row = (int)lround(y);
  c->dots[row / 4][column / 2] |= bits[row % 4][column % 2];
}

static void set_mark(canvas *c, double x, double y, char mark)
{
  if (inside(c, x, y)) c->marks[(int)lround(y) / 4][(int)lround(x) / 2] = mark;
}

static void draw_run(canvas *c, size_t index)
{
  const logged_run *run = &c->trainings->runs[index];
  double x0 = NAN, y0 = NAN;
  int lettered = -1; /* the part of the width whose letter is there */
  for (size_t k = 0; k < run->log.step_count; k++) {
    double value = run->smooth[c->panel][k], x = place_x(c, run->place[k]);
    double y = isfinite(value) && (!c->log_y || value > 0) ? place_y(c, value) : NAN;
    if (isfinite(y) && isfinite(y0)) {
      int dots = (int)ceil(fmin(fmax(fabs(x - x0), fabs(y - y0)), 1e4)) + 1;
      for (int i = 0; i <= dots; i++) set_dot(c, x0 + (x - x0) * i / dots, y0 + (y - y0) * i / dots);
    } else if (isfinite(y)) {
      set_dot(c, x, y);
    }
    x0 = x;
    y0 = y;
    if (c->trainings->count < 2 || !isfinite(y) || !inside(c, x, y)) continue;
    int part = (int)((x + 2.0 * (double)index) / 24); /* letters of two runs stand beside each other */
    if (part != lettered && k > 0) set_mark(c, x, y, (char)('A' + index % 26));
    lettered = part;
  }
}

static void draw_marks(canvas *c)
{
  for (size_t i = 0; i < c->trainings->count && c->panel == PANEL_LOSS; i++) {
    const logged_run *run = &c->trainings->runs[i];
    for (size_t k = 0; k < run->log.evaluation_count; k++) {
      const training_evaluation *one = &run->log.evaluations[k];
      if (isfinite(one->loss)) set_mark(c, place_x(c, training_place(run, one->step)), place_y(c, one->loss), '*');
    }
    for (size_t k = 0; k < run->log.event_count; k++)
      if (training_event_warns(&run->log.events[k]))
        set_mark(c, place_x(c, training_place(run, run->log.events[k].step)), 0, '!');
    for (size_t k = 0; k < run->log.step_count; k++)
      if (!isfinite(run->log.steps[k].loss)) set_mark(c, place_x(c, run->place[k]), 0, '!');
  }
}

/* Three significant digits suffice beside a line of characters. */
static void axis_text(double value, char *text, size_t size)
{
  if (fabs(value) >= 99999.5 || (value != 0 && fabs(value) < 0.001)) number_print(text, size, "%.1e", value);
  else number_print(text, size, "%.*f", fabs(value) < 0.1 ? 4 : fabs(value) < 100 ? 2 : 0, value);
}

static void add_rows(draft *d, const canvas *c)
{
  for (int row = 0; row < c->rows; row++) {
    char label[32] = "";
    bool named = row == 0 || row == c->rows - 1 || (c->rows > 8 && row == c->rows / 2);
    double share = 1 - (4 * row + (row == 0 ? 0 : row == c->rows - 1 ? 3 : 1.5)) / (4 * c->rows - 1);
    if (named)
      axis_text(c->log_y ? c->low * pow(c->high / c->low, share) : c->low + share * (c->high - c->low), label,
                sizeof label);
    draft line = {0};
    draft_add(&line, "%*s %s", LEFT - 1, label,
              c->utf8 ? named ? "\xe2\x94\xa4" : "\xe2\x94\x82"
              : named ? "+"
                      : "|");
    for (int column = 0; column < c->width; column++) {
      unsigned char dots = c->dots[row][column];
      if (c->marks[row][column]) draft_put(&line, &c->marks[row][column], 1);
      else if (dots && c->utf8) draft_add(&line, "\xe2%c%c", 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
      else draft_put(&line, dots ? "." : " ", 1);
    }
    while (line.used > 0 && line.data[line.used - 1] == ' ') line.used--;
    draft_put(d, line.data ? line.data : "", line.used);
    draft_put(d, "\n", 1);
    d->failed = d->failed || line.failed;
    free(line.data);
  }
}

static void add_axis(draft *d, const canvas *c)
{
  char first[32], last[64];
  draft_add(d, "%*s%s", LEFT, "", c->utf8 ? "\xe2\x94\x94" : "+");
  for (int i = 0; i < c->width; i++) draft_add(d, "%s", c->utf8 ? "\xe2\x94\x80" : "-");
  number_tick(c->first, first, sizeof first);
  number_tick(c->last, last, sizeof last - 16);
  size_t used = strlen(last);
  snprintf(last + used, sizeof last - used, " %s", training_axis_names[c->trainings->axis]);
  draft_add(d, "\n%*s%s%*s\n", LEFT + 1, "", first, c->width - (int)strlen(first), last);
}

static void add_panel(draft *d, canvas *c, training_panel panel, int rows)
{
  c->panel = panel;
  c->rows = rows;
  memset(c->dots, 0, sizeof c->dots);
  memset(c->marks, 0, sizeof c->marks);
  draft_add(d, "%s", training_panels[panel].title);
  if (!training_range(c->trainings, panel, &c->low, &c->high, &c->log_y)) {
    draft_add(d, ": no numbers\n");
    return;
  }
  if (training_panels[panel].smoothed && c->trainings->smooth > 1)
    draft_add(d, " (mean over %" PRId64 " steps)", c->trainings->smooth);
  bool evaluated = false;
  for (size_t i = 0; i < c->trainings->count; i++) evaluated |= c->trainings->runs[i].log.evaluation_count > 0;
  draft_add(d, "%s\n", panel == PANEL_LOSS && evaluated ? "; * evaluations" : "");
  for (size_t i = c->trainings->count; i-- > 0;) draw_run(c, i); /* the first run lies on top */
  draw_marks(c);
  add_rows(d, c);
}

char *training_plot(const training_chart *trainings, int columns, bool utf8)
{
  draft d = {0};
  canvas *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->trainings = trainings;
  c->utf8 = utf8;
  c->width = columns - LEFT - 2;
  if (c->width < 20) c->width = 20;
  if (c->width > MOST_WIDTH) c->width = MOST_WIDTH;
  training_extent(trainings, &c->first, &c->last);
  for (training_panel p = 0; p < TRAINING_PANELS; p++) add_panel(&d, c, p, p == PANEL_LOSS ? MOST_ROWS : 6);
  add_axis(&d, c);
  for (size_t i = 0; i < trainings->count && trainings->count > 1; i++) {
    draft_add(&d, "%s%c ", i ? "   " : "", (char)('A' + i % 26));
    draft_add_clean(&d, trainings->runs[i].name);
  }
  if (trainings->count > 1) draft_add(&d, "\n");
  free(c);
  return draft_take(&d);
}
