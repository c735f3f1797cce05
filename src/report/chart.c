/* A small line chart as SVG inside a page, drawn here so that a report needs nothing beside it.  Text and axes
 * take the colour of the page around them; y is logarithmic. */
#include <math.h>
#include <string.h>

#include "report/drawing.h"

enum { CHART_WIDTH = 1040, PLOT_LEFT = 70, PLOT_RIGHT = 770, PLOT_TOP = 34, PLOT_HEIGHT = 300, LABEL_ROW = 22 };

typedef struct scale {
  double low, high; /* of the data */
  double from, to;  /* in the picture */
  bool logarithmic;
} scale;

static double place(const scale *s, double value)
{
  double part =
      s->logarithmic ? log(value / s->low) / log(s->high / s->low) : (value - s->low) / (s->high - s->low);
  return s->from + part * (s->to - s->from);
}

static bool chart_point(const chart_line *line, size_t i, const chart *c)
{
  return isfinite(line->y[i]) && line->y[i] > 0 && isfinite(line->x[i]) && (!c->log_x || line->x[i] > 0);
}

static bool chart_range(const chart *c, scale *x, scale *y)
{
  bool any = false;
  for (size_t i = 0; i < c->count; i++)
    for (size_t j = 0; j < c->lines[i].count; j++) {
      const chart_line *line = &c->lines[i];
      if (!chart_point(line, j, c)) continue;
      if (!any || line->x[j] < x->low) x->low = line->x[j];
      if (!any || line->x[j] > x->high) x->high = line->x[j];
      if (!any || line->y[j] < y->low) y->low = line->y[j];
      if (!any || line->y[j] > y->high) y->high = line->y[j];
      any = true;
    }
  if (!any) return false;
  if (x->high == x->low) {
    x->low = c->log_x ? x->low / 2 : x->low - 1;
    x->high = c->log_x ? x->high * 2 : x->high + 1;
  } else if (c->log_x) {
    double room = pow(x->high / x->low, 0.04);
    x->low /= room;
    x->high *= room;
  }
  axis_open(&y->low, &y->high);
  return true;
}

static void add_frame(draft *d, const chart *c, const scale *x, const scale *y)
{
  double ticks[24];
  size_t count = axis_ticks(y->low, y->high, ticks, 24);
  for (size_t i = 0; i < count; i++) {
    double at = place(y, ticks[i]);
    char tick[32];
    number_tick(ticks[i], tick, sizeof tick);
    draft_add(d,
              "<path d=\"M%d %.1fH%d\" stroke=\"currentColor\" stroke-opacity=\".15\"/>"
              "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
              PLOT_LEFT, at, PLOT_RIGHT, PLOT_LEFT - 8, at + 4.5, tick);
  }
  double bottom = PLOT_TOP + PLOT_HEIGHT;
  for (size_t i = 0; i < c->x_tick_count; i++) {
    if (c->x_ticks[i] < x->low || c->x_ticks[i] > x->high) continue;
    double at = place(x, c->x_ticks[i]);
    draft_add(d,
              "<path d=\"M%.1f %.1fv5\" stroke=\"currentColor\" stroke-opacity=\".6\"/>"
              "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.9g</text>\n",
              at, bottom, at, bottom + 20, c->x_ticks[i]);
  }
  draft_add(d, "<path d=\"M%d %dV%.1fH%d\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".6\"/>\n",
            PLOT_LEFT, PLOT_TOP, bottom, PLOT_RIGHT);
  draft_add(d, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">", (PLOT_LEFT + PLOT_RIGHT) / 2, bottom + 42);
  draft_add_escaped(d, c->x_title);
  draft_add(d, "</text>\n<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">",
            PLOT_TOP + PLOT_HEIGHT / 2);
  draft_add_escaped(d, c->y_title);
  draft_add(d, "</text>\n");
  if (c->mark >= x->low && c->mark <= x->high) {
    double at = place(x, c->mark);
    draft_add(d,
              "<path d=\"M%.1f %dV%.1f\" stroke=\"currentColor\" stroke-dasharray=\"6 5\"/>"
              "<text x=\"%.1f\" y=\"%d\">trained here</text>\n",
              at, PLOT_TOP, bottom, at + 7, PLOT_TOP + 12);
  }
}

static const char *dash_of(const chart_line *line)
{
  static const char *const dashes[] = {"", "9 5", "3 4", "12 4 3 4", "6 3", "2 2"};
  return dashes[line->dash % 6];
}

static void add_line(draft *d, const chart *c, const chart_line *line, const scale *x, const scale *y)
{
  bool drawing = false;
  draft_add(d,
            "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.2g\" stroke-linejoin=\"round\" "
            "stroke-dasharray=\"%s\" d=\"",
            line->colour, line->thickness, dash_of(line));
  for (size_t i = 0; i < line->count; i++) {
    if (chart_point(line, i, c))
      draft_add(d, "%c%.1f %.1f", drawing ? 'L' : 'M', place(x, line->x[i]), place(y, line->y[i]));
    drawing = chart_point(line, i, c);
  }
  draft_add(d, "\"/>\n");
  for (size_t i = 0; i < line->count && line->count <= 32; i++)
    if (chart_point(line, i, c))
      draft_add(d, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.2g\" fill=\"%s\"/>\n", place(x, line->x[i]),
                place(y, line->y[i]), 2 + line->thickness / 2, line->colour);
}

void draft_chart(draft *d, const chart *c)
{
  scale x = {.from = PLOT_LEFT, .to = PLOT_RIGHT, .logarithmic = c->log_x};
  scale y = {.from = PLOT_TOP + PLOT_HEIGHT, .to = PLOT_TOP, .logarithmic = true};
  if (!chart_range(c, &x, &y)) return;
  size_t height = PLOT_TOP + PLOT_HEIGHT + 54, needed = PLOT_TOP + 20 + LABEL_ROW * c->count;
  if (height < needed) height = needed;
  draft_add(d, "<svg viewBox=\"0 0 %d %zu\" role=\"img\" aria-label=\"", CHART_WIDTH, height);
  draft_add_escaped(d, c->title);
  draft_add(
      d,
      "\" font-size=\"14\" fill=\"currentColor\">\n<text x=\"%d\" y=\"18\" font-size=\"15\" font-weight=\"bold\">",
      PLOT_LEFT);
  draft_add_escaped(d, c->title);
  draft_add(d, "</text>\n");
  add_frame(d, c, &x, &y);
  for (size_t i = c->count; i-- > 0;) add_line(d, c, &c->lines[i], &x, &y); /* the first lies on top */
  for (size_t i = 0; i < c->count; i++) {
    const chart_line *line = &c->lines[i];
    size_t at = PLOT_TOP + 10 + LABEL_ROW * i;
    draft_add(d,
              "<path d=\"M%d %zuh34\" stroke=\"%s\" stroke-width=\"%.2g\" stroke-dasharray=\"%s\"/><text x=\"%d\" "
              "y=\"%zu\">",
              PLOT_RIGHT + 24, at, line->colour, line->thickness, dash_of(line), PLOT_RIGHT + 68, at + 5);
    draft_add_escaped(d, line->label);
    draft_add(d, "</text>\n");
  }
  draft_add(d, "</svg>\n");
}
