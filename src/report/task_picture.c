/* The picture: accuracy against length, a line a model; and below it, where there are depths, a heat map a model,
 * length from left to right and depth from top to bottom.  gnuplot draws it from a script and data that stay
 * beside it. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "report/drawing.h"
#include "report/gnuplot.h"
#include "report/task_report.h"

enum { WIDTH = 1180, CURVES = 380, TOP = 56, MAP = 220, MAP_GAP = 74, COLOURS = 8 };

static const char *const colours[COLOURS] = {"0072B2", "D55E00", "009E73", "CC79A7",
                                             "E69F00", "56B4E9", "000000", "999933"};

static bool has_maps(const task_report *r)
{
  return !r->task->run && r->lines[0].result.columns > 1;
}

static size_t map_rows(const task_report *r)
{
  return has_maps(r) ? (r->count + 1) / 2 : 0;
}

/* What is drawn of a row: accuracy, or the first measure. */
static double row_value(const task_report *r, const task_row *row)
{
  if (row->why[0]) return NAN;
  return r->task->run ? row->measures[0].value : 100 * task_accuracy(r->task, &row->all);
}

bool task_has_values(const task_report *r)
{
  for (size_t i = 0; i < r->count; i++)
    for (size_t k = 0; k < r->lines[i].result.count; k++)
      if (isfinite(row_value(r, &r->lines[i].result.rows[k]))) return true;
  return false;
}

/* An older picture would show other numbers. */
static status remove_pictures(const char *directory, alibi_error *error)
{
  static const char *const names[] = {"task.svg", "task.png"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char *path = path_join(directory, names[i]);
    if (!path) return fail(error, ALIBI_FAILED, "not enough memory for a path");
    remove(path);
    free(path);
  }
  return ALIBI_OK;
}

static double row_error(const task_report *r, const task_row *row)
{
  double e = row->why[0]    ? NAN
             : r->task->run ? row->measures[0].standard_error
                            : 100 * task_accuracy_error(&row->all);
  return isfinite(e) ? e : 0;
}

static void add_data(draft *d, const task_report *r)
{
  draft_add(
      d, "# For each model a block of lines: length, value, its standard error; then for each a block of cells: "
         "number of\n# the length, number of the depth, %% right.\n");
  for (size_t i = 0; i < r->count; i++) {
    draft_add(d, "\n\n# ");
    draft_add_clean(d, r->lines[i].name);
    draft_add(d, "\n");
    for (size_t k = 0; k < r->lines[i].result.count; k++) {
      const task_row *row = &r->lines[i].result.rows[k];
      double value = row_value(r, row);
      if (isfinite(value)) draft_add(d, "%" PRId64 " %.9g %.9g\n", row->length, value, row_error(r, row));
      else draft_add(d, "%" PRId64 " NaN NaN\n", row->length);
    }
  }
  for (size_t i = 0; has_maps(r) && i < r->count; i++) {
    const task_result *t = &r->lines[i].result;
    draft_add(d, "\n\n# ");
    draft_add_clean(d, r->lines[i].name);
    draft_add(d, ", cells\n");
    for (size_t k = 0; k < t->count; k++)
      for (size_t c = 0; c < t->columns; c++) {
        double share = t->rows[k].why[0] ? NAN : task_accuracy(r->task, &t->rows[k].cells[c]);
        if (isfinite(share)) draft_add(d, "%zu %zu %.9g\n", k, c, 100 * share);
        else draft_add(d, "%zu %zu NaN\n", k, c);
      }
  }
}

static void add_title(draft *d, const char *text)
{
  draft clean = {0};
  draft_add_clean(&clean, text);
  draft_add_quoted(d, clean.data ? clean.data : "", clean.used, false);
  free(clean.data);
}

static void add_header(draft *d, const task_report *r, double height)
{
  draft_add(d,
            "# Change what you like, then run gnuplot with this file, in this directory.\n"
            "reset\nset encoding utf8\nwidth = %d\nheight = %.0f\ndata = 'task.dat'\n"
            "pictures = 'task.svg task.png'\nsuffix = ''\nplain = 0\n"
            "# Arguments: directory, pictures, suffix of their names, 1 for the PNG terminal without cairo.\n"
            "if (exists('ARGC') && ARGC == 4) { cd ARG1; pictures = ARG2; suffix = ARG3; plain = int(ARG4) }\n"
            "set border 3 lc rgb '#666666'\nset tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
            "set palette defined (0 '#b2182b', 25 '#ef8a62', 50 '#fddbc7', 80 '#a8d0e6', 100 '#08407a')\n"
            "set cbrange [0:100]\nunset colorbox\nset datafile missing 'NaN'\n"
            "do for [picture in pictures] {\n"
            "  if (picture eq 'task.svg') {\n"
            "    set terminal svg size width,height font 'sans-serif,13' background rgb 'white' name 'task'\n"
            "  } else {\n"
            "    if (!plain && strstrt(GPVAL_TERMINALS, ' pngcairo ')) {\n"
            "      set terminal pngcairo size width,height font 'sans,13' fontscale 0.74 background rgb 'white'\n"
            "    } else {\n"
            "      set terminal png size width,height font 'DejaVuSans,13' fontscale 0.74 truecolor\n    }\n  }\n"
            "  set output picture.suffix\n  set multiplot\n",
            WIDTH, height);
  draft_add(d, "  set label 1 '%s' noenhanced at screen 0.02, screen %.5f font ',16'\n", r->task->title,
            1 - 24 / height);
}

static void add_length_ticks(draft *d, const task_report *r, bool numbers)
{
  draft_add(d, "  set xtics (");
  for (size_t k = 0; k < r->lines[0].result.count; k++) {
    char tick[32];
    int64_t length = r->lines[0].result.rows[k].length;
    number_tick((double)length, tick, sizeof tick);
    draft_add(d, "%s'%s' %" PRId64, k ? ", " : "", tick, numbers ? (int64_t)k : length);
  }
  draft_add(d, ")\n");
}

static void add_curves(draft *d, const task_report *r, double height)
{
  draft_add(d,
            "  set lmargin at screen 0.07\n  set rmargin at screen 0.76\n  set tmargin at screen %.5f\n"
            "  set bmargin at screen %.5f\n  set xlabel '%s'\n  set ylabel '",
            1 - TOP / height, 1 - (CURVES - 56) / height, r->task->own_length ? "" : "tokens");
  if (r->task->run) draft_add(d, "%s'\n  set yrange [*:*]\n", r->task->measures[0]);
  else draft_add(d, "%% of %s'\n  set yrange [-3:103]\n", task_counts(r));
  if (!r->task->own_length) draft_add(d, "  set logscale x 2\n");
  add_length_ticks(d, r, false);
  draft_add(d,
            "  set grid ytics lt 1 lc rgb '#e4e4e4' lw 1\n  set key noenhanced at screen 0.775, screen %.5f left "
            "top reverse Left\n",
            1 - TOP / height);
  if (!r->task->own_length)
    draft_add(d,
              "  set arrow 1 from first %" PRId64 ", graph 0 to first %" PRId64
              ", graph 1 nohead dt (6,4) lc rgb '#888888'\n",
              r->lines[0].train_length, r->lines[0].train_length);
  draft_add(d, "  plot \\\n");
  for (size_t i = 0; i < r->count; i++) {
    draft_add(d, "    data index %zu using 1:2:3 with yerrorlines lc rgb '#%s' lw 2 pt 7 ps 0.8 dt %s title '", i,
              colours[i % COLOURS], i / COLOURS % 2 ? "(8,4)" : "solid");
    add_title(d, r->lines[i].name);
    draft_add(d, "'%s\n", i + 1 < r->count ? ", \\" : "");
  }
  draft_add(d, "  unset label 1\n  unset arrow\n  unset logscale x\n  unset grid\n  unset key\n");
}

static void add_map(draft *d, const task_report *r, size_t i, double height)
{
  const task_result *t = &r->lines[i].result;
  double left = i % 2 ? 0.56 : 0.07, top = CURVES + 40 + (double)(i / 2) * (MAP + MAP_GAP);
  draft_add(d,
            "  set lmargin at screen %.3f\n  set rmargin at screen %.3f\n  set tmargin at screen %.5f\n"
            "  set bmargin at screen %.5f\n  set xrange [-0.5:%zu.5]\n  set yrange [%zu.5:-0.5]\n  set title '",
            left, left + 0.41, 1 - top / height, 1 - (top + MAP) / height, t->count - 1, t->columns - 1);
  add_title(d, r->lines[i].name);
  draft_add(d, "' noenhanced\n  set xlabel 'tokens'\n  set ylabel 'depth'\n");
  add_length_ticks(d, r, true);
  draft_add(d, "  set ytics (");
  for (size_t c = 0; c < t->columns; c++)
    draft_add(d, "%s'%.4g %%%%' %zu", c ? ", " : "", 100 * r->settings->depths[c], c);
  draft_add(d,
            ")\n  plot data index %zu using 1:2:3 with image pixels, \\\n"
            "    data index %zu using 1:2:(sprintf('%%.0f', $3)):(($3 > 20 && $3 < 90) ? 0x222222 : 0xffffff) "
            "with labels "
            "font ',11' tc rgb variable\n",
            r->count + i, r->count + i);
}

status task_write_pictures(const task_report *r, const char *directory, bool *drawn, alibi_error *error)
{
  draft script = {0}, data = {0};
  double height = CURVES + (double)map_rows(r) * (MAP + MAP_GAP) + (has_maps(r) ? 20 : 0);
  *drawn = false;
  if (!task_has_values(r)) return remove_pictures(directory, error);
  add_data(&data, r);
  add_header(&script, r, height);
  add_curves(&script, r, height);
  for (size_t i = 0; has_maps(r) && i < r->count; i++) add_map(&script, r, i, height);
  draft_add(&script,
            "  set xrange [*:*]\n  set yrange [*:*]\n  set title ''\n  unset multiplot\n  unset output\n}\n");
  status result = gnuplot_pictures(&data, &script, directory, "task", drawn, error);
  free(script.data);
  free(data.data);
  return result;
}
