/* The picture of four panels, drawn by gnuplot from a script and data that stay beside it.
 *
 * The data is one block a run, thinned where it has more steps than a picture has columns, then one block a run
 * and length of evaluations, then one block a run of marks.  The ranges are computed here, so that a curve without
 * numbers, at which gnuplot would stop, is an empty panel. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/drawing.h"
#include "report/gnuplot.h"
#include "report/training_chart.h"

enum { WIDTH = 1280, LEAST_HEIGHT = 760, KEY_ROW = 21, MOST_ROWS = 4000, MOST_LENGTHS = 12, MOST_LABELS = 12 };

static const char *const colours[] = {"0072B2", "D55E00", "009E73", "CC79A7",
                                      "E69F00", "56B4E9", "7F7F7F", "8B5A2B"};
enum { COLOURS = sizeof colours / sizeof colours[0] };

typedef struct picture {
  const training_chart *trainings;
  const char *stem; /* name of the picture without .png */
  double unit;      /* seconds of the x axis */
  const char *x_title;
  int64_t lengths[MOST_LENGTHS]; /* of the evaluations, ascending */
  size_t length_count;
  double first, last;
} picture;

static void add_length(picture *p, int64_t length)
{
  size_t at = 0;
  while (at < p->length_count && p->lengths[at] < length) at++;
  if ((at < p->length_count && p->lengths[at] == length) || p->length_count == MOST_LENGTHS) return;
  memmove(p->lengths + at + 1, p->lengths + at, (p->length_count - at) * sizeof *p->lengths);
  p->lengths[at] = length;
  p->length_count++;
}

static picture picture_of(const training_chart *trainings, const char *stem)
{
  static const char *const titles[] = {"steps", "tokens", "seconds of training"};
  picture p = {.trainings = trainings, .stem = stem, .unit = 1, .x_title = titles[trainings->axis]};
  training_extent(trainings, &p.first, &p.last);
  if (trainings->axis == AGAINST_SECONDS && p.last >= 600) {
    p.unit = p.last < 4 * 3600 ? 60 : 3600;
    p.x_title = p.unit == 60 ? "minutes of training" : "hours of training";
  }
  for (size_t i = 0; i < trainings->count; i++)
    for (size_t k = 0; k < trainings->runs[i].log.evaluation_count; k++)
      add_length(&p, trainings->runs[i].log.evaluations[k].length);
  return p;
}

/* ---- the data ---- */

static void add_number(draft *d, double value)
{
  if (isfinite(value)) draft_add(d, " %.7g", value);
  else draft_add(d, " NaN");
}

static void add_data_row(draft *d, const picture *p, const logged_run *run, size_t k)
{
  draft_add(d, "%.9g", run->place[k] / p->unit);
  for (training_panel panel = 0; panel < TRAINING_PANELS; panel++) {
    add_number(d, training_value(&run->log.steps[k], panel));
    add_number(d, run->smooth[panel][k]);
  }
  draft_add(d, "\n");
}

/* Of each bucket of steps the one of the lowest and the one of the highest loss, so that no spike is lost. */
static void add_run_data(draft *d, const picture *p, const logged_run *run)
{
  const training_log *log = &run->log;
  size_t bucket = (2 * log->step_count + MOST_ROWS - 1) / MOST_ROWS;
  if (log->step_count <= MOST_ROWS) bucket = 1;
  for (size_t start = 0; start < log->step_count; start += bucket) {
    size_t low = start, high = start;
    for (size_t k = start; k < start + bucket && k < log->step_count; k++) {
      if (log->steps[k].loss < log->steps[low].loss) low = k;
      if (log->steps[k].loss > log->steps[high].loss) high = k;
    }
    add_data_row(d, p, run, low < high ? low : high);
    if (low != high) add_data_row(d, p, run, low < high ? high : low);
  }
}

static void add_evaluation_data(draft *d, const picture *p, const logged_run *run, int64_t length)
{
  bool any = false;
  for (size_t k = 0; k < run->log.evaluation_count; k++) {
    const training_evaluation *one = &run->log.evaluations[k];
    if (one->length != length || !isfinite(one->loss)) continue;
    draft_add(d, "%.9g %.7g\n", training_place(run, one->step) / p->unit, one->loss);
    any = true;
  }
  if (!any) draft_add(d, "NaN NaN\n"); /* a block must not be empty, or the count would be off */
}

/* Where something was wrong: a loss that is no number, an event that says so. */
static void add_mark_data(draft *d, const picture *p, const logged_run *run)
{
  draft_add(d, "NaN\n");
  for (size_t k = 0; k < run->log.step_count; k++)
    if (!isfinite(run->log.steps[k].loss)) draft_add(d, "%.9g\n", run->place[k] / p->unit);
  for (size_t k = 0; k < run->log.event_count; k++)
    if (training_event_warns(&run->log.events[k]))
      draft_add(d, "%.9g\n", training_place(run, run->log.events[k].step) / p->unit);
}

static void add_data(draft *d, const picture *p)
{
  const training_chart *all = p->trainings;
  draft_add(d, "# One block a run.  Columns: %s, then value and mean of", p->x_title);
  for (int i = 0; i < TRAINING_PANELS; i++) draft_add(d, "%s %s", i ? "," : "", training_panels[i].title);
  draft_add(d, ".\n# Then one block a run and length of its evaluations, then one a run of marks.\n");
  for (size_t i = 0; i < all->count; i++) {
    draft_add(d, "\n\n# ");
    draft_add_clean(d, all->runs[i].name);
    draft_add(d, "\n");
    add_run_data(d, p, &all->runs[i]);
  }
  for (size_t i = 0; i < all->count; i++)
    for (size_t k = 0; k < p->length_count; k++) {
      draft_add(d, "\n\n# ");
      draft_add_clean(d, all->runs[i].name);
      draft_add(d, ", evaluations at %" PRId64 " tokens\n", p->lengths[k]);
      add_evaluation_data(d, p, &all->runs[i], p->lengths[k]);
    }
  for (size_t i = 0; i < all->count; i++) {
    draft_add(d, "\n\n# ");
    draft_add_clean(d, all->runs[i].name);
    draft_add(d, ", marks\n");
    add_mark_data(d, p, &all->runs[i]);
  }
}

/* ---- the script ---- */

static void add_header(draft *d, const picture *p)
{
  size_t rows = p->trainings->count + p->length_count + 3;
  size_t height = LEAST_HEIGHT + (rows > 32 ? (rows - 32) * KEY_ROW : 0);
  draft_add(d, "# Change what you like, then run gnuplot with this file, in this directory.\n"
               "reset\nset encoding utf8\ndata = '");
  draft_add_quoted(d, p->stem, strlen(p->stem), false);
  draft_add(d, ".dat'\npicture = '");
  draft_add_quoted(d, p->stem, strlen(p->stem), false);
  draft_add(d,
            ".png'\nsuffix = ''\nplain = 0\n"
            "# Arguments: directory, picture, suffix of its name, 1 for the PNG terminal without cairo.\n"
            "if (exists('ARGC') && ARGC == 4) { cd ARG1; picture = ARG2; suffix = ARG3; plain = int(ARG4) }\n"
            "if (!plain && strstrt(GPVAL_TERMINALS, ' pngcairo ')) {\n"
            "  set terminal pngcairo size %d,%zu font 'sans,11' background rgb 'white'\n} else {\n"
            "  set terminal png size %d,%zu font 'DejaVuSans,11' truecolor\n}\n"
            "set output picture.suffix\nset multiplot\n"
            "set border 3 lc rgb '#666666'\nset tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
            "set grid ytics lt 1 lc rgb '#e4e4e4' lw 1\nset xlabel '%s' offset 0,0.4\n"
            "set key noenhanced at screen 0.815, screen 0.965 left top reverse Left width -2 spacing 1.15\n"
            "set xrange [%.9g:%.9g]\n",
            WIDTH, height, WIDTH, height, p->x_title, p->first / p->unit, p->last / p->unit);
  draft_add(d, p->trainings->axis == AGAINST_TOKENS ? "set format x '%%.1s%%c'\n" : "set format x '%%.10g'\n");
}

/* Thin lines where a run was resumed or something was wrong, in the panel of the loss. */
static void add_events(draft *d, const picture *p)
{
  size_t labels = 0;
  for (size_t i = 0; i < p->trainings->count; i++) {
    const logged_run *run = &p->trainings->runs[i];
    for (size_t k = 0; k < run->log.event_count && labels < MOST_LABELS; k++) {
      const training_event *event = &run->log.events[k];
      bool warns = training_event_warns(event);
      double place = training_place(run, event->step) / p->unit;
      if (!warns && strcmp(event->name, TRAINING_RESUMED) != 0) continue;
      draft_add(
          d, "set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead back lc rgb '#%s' lw 1 dt (%s)\n",
          place, place, warns ? "B00020" : "AAAAAA", warns ? "6,4" : "2,4");
      draft_add(d, "set label '");
      draft clean = {0};
      draft_add_clean(&clean, event->name);
      draft_add_quoted(d, clean.data ? clean.data : "", clean.used, false);
      free(clean.data);
      draft_add(d,
                "' noenhanced at first %.9g, graph 0.97 right rotate by 90 offset 0.6,0 font ',9' tc rgb '#%s'\n",
                place, warns ? "B00020" : "888888");
      labels++;
    }
  }
}

static void add_run_lines(draft *d, const picture *p, training_panel panel)
{
  const training_chart *all = p->trainings;
  int column = 2 + 2 * (int)panel;
  bool faint = training_panels[panel].smoothed && all->smooth > 1;
  for (size_t i = 0; i < all->count && faint; i++)
    draft_add(d, "  data index %zu using 1:%d with lines lc rgb '#b0%s' lw 1 notitle, \\\n", i, column,
              colours[i % COLOURS]);
  for (size_t i = 0; i < all->count; i++) {
    draft_add(d, "  data index %zu using 1:%d with lines lc rgb '#%s' lw 2 dt %s ", i, column + 1,
              colours[i % COLOURS], i / COLOURS % 2 ? "(8,4)" : "solid");
    if (panel == PANEL_LOSS) {
      draft clean = {0};
      draft_add_clean(&clean, all->runs[i].name);
      draft_add(d, "title '");
      draft_add_quoted(d, clean.data ? clean.data : "", clean.used, false);
      draft_add(d, "', \\\n");
      free(clean.data);
    } else {
      draft_add(d, "notitle, \\\n");
    }
  }
}

/* Evaluations have the colour of their run and a point a length; marks stand at the top. */
static void add_points(draft *d, const picture *p, double top)
{
  static const int points[] = {7, 5, 9, 11, 13, 6, 4, 8, 10, 12, 1, 3};
  size_t block = p->trainings->count;
  for (size_t i = 0; i < p->trainings->count; i++)
    for (size_t k = 0; k < p->length_count; k++)
      draft_add(
          d, "  data index %zu using 1:2 with linespoints lc rgb '#%s' lw 1 dt (2,3) pt %d ps 1.1 notitle, \\\n",
          block++, colours[i % COLOURS], points[k]);
  for (size_t i = 0; i < p->trainings->count; i++)
    draft_add(d, "  data index %zu using 1:(%.9g) with points lc rgb '#B00020' lw 2 pt 2 ps 1.2 notitle, \\\n",
              block++, top);
  for (size_t k = 0; k < p->length_count; k++)
    draft_add(d, "  NaN with points lc rgb '#444444' pt %d ps 1.1 title 'tested at %" PRId64 " tokens', \\\n",
              points[k], p->lengths[k]);
}

/* A logarithmic axis that spans less than a decade has only one tick that gnuplot would name. */
static void add_ticks(draft *d, double low, double high, bool log_y)
{
  double ticks[24];
  size_t count = log_y ? axis_ticks(low, high, ticks, 24) : 0;
  draft_add(d, "set format y '%s'\nset ytics %s", high >= 5000 ? "%.1s%c" : "%.4g", count ? "(" : "auto\n");
  for (size_t i = 0; i < count; i++) {
    char tick[32];
    number_tick(ticks[i], tick, sizeof tick);
    draft_add(d, "%s'%s' %.9g", i ? ", " : "", tick, ticks[i]);
  }
  if (count) draft_add(d, ")\n");
}

static void add_panel(draft *d, const picture *p, training_panel panel)
{
  double low, high;
  bool log_y, found = training_range(p->trainings, panel, &low, &high, &log_y);
  bool right = panel % 2 == 1, below = panel >= 2;
  draft_add(d, "\n# %s\nset lmargin at screen %s\nset rmargin at screen %s\nset bmargin at screen %s\n",
            training_panels[panel].title, right ? "0.465" : "0.065", right ? "0.795" : "0.395",
            below ? "0.085" : "0.585");
  draft_add(d, "set tmargin at screen %s\nset title '%s", below ? "0.445" : "0.945", training_panels[panel].title);
  if (!found) draft_add(d, ": no numbers");
  else if (training_panels[panel].smoothed && p->trainings->smooth > 1)
    draft_add(d, ", mean over %" PRId64 " steps", p->trainings->smooth);
  draft_add(d, "'\n%s logscale y\nset yrange [%.9g:%.9g]\n", log_y ? "set" : "unset", low, high);
  add_ticks(d, low, high, log_y);
  if (panel == PANEL_LOSS) add_events(d, p);
  draft_add(d, "plot \\\n");
  add_run_lines(d, p, panel);
  if (panel == PANEL_LOSS) add_points(d, p, high);
  draft_add(d, "  NaN notitle\nunset arrow\nunset label\n");
}

status training_picture(const training_chart *trainings, const char *path, bool *drawn, alibi_error *error)
{
  status result = ALIBI_OK;
  draft script = {0}, data = {0}, place = {0};
  char said[200] = "";
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t size = strlen(name) - strlen(".png");
  char *stem = strndup(name, size), *directory = slash ? strndup(path, (size_t)(name - path)) : strdup(".");
  *drawn = false;
  if (!stem || !directory) RAISE(error, ALIBI_FAILED, "not enough memory for the picture");
  picture p = picture_of(trainings, stem);
  add_data(&data, &p);
  add_header(&script, &p);
  for (training_panel panel = 0; panel < TRAINING_PANELS; panel++) add_panel(&script, &p, panel);
  draft_add(&script, "unset multiplot\nunset output\n");
  draft_add(&place, "%s.dat", stem);
  TRY(draft_write(&data, directory, place.data ? place.data : "", error));
  place.used = 0;
  draft_add(&place, "%s.gp", stem);
  TRY(draft_write(&script, directory, place.data ? place.data : "", error));
  /* A directory that begins with '-' must not look like an option. */
  place.used = 0;
  draft_add(&place, "%s%s/%s.gp", directory[0] == '/' ? "" : "./", directory, stem);
  if (place.failed) RAISE(error, ALIBI_FAILED, "not enough memory for the picture");
  gnuplot_outcome outcome = gnuplot_draw(place.data, directory, name, false, said, sizeof said);
  if (outcome == GNUPLOT_FAILED) outcome = gnuplot_draw(place.data, directory, name, true, said, sizeof said);
  if (outcome == GNUPLOT_FAILED) RAISE(error, ALIBI_FAILED, "gnuplot could not draw %s: %s", path, said);
  *drawn = outcome == GNUPLOT_DRAWN;
done:
  free(stem);
  free(directory);
  free(script.data);
  free(data.data);
  free(place.data);
  return result;
}
