/* The picture: a panel a layer, a row a head, distance from left to right.  Colour is the mean attention of a
 * query in a bin of distances; marks are where 50, 90 and 99 % of it end, and where the horizons are.  Distance t
 * is drawn from t to t + 1 and distance 0 from 0.5 to 1, so that a logarithmic axis has room for it.  gnuplot
 * draws it from a script and data that stay beside it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"
#include "report/gnuplot.h"
#include "report/horizon_report.h"

enum { WIDTH = 1280, TOP = 116, BOTTOM = 62, ROW = 17, BETWEEN = 58, LEAST_PANEL = 70, MOST_COLUMNS = 4 };

static const double FIRST = 0.5; /* left end of the axis */

typedef struct frame {
  size_t columns, rows;        /* of panels */
  double panel_height, height; /* pixels */
  double last;                 /* right end of the axis */
  double most;                 /* largest mass of a bin */
} frame;

static frame frame_of(const horizon *h)
{
  frame f = {.columns = h->layers < 2 ? 1 : h->layers <= 8 ? 2 : h->layers <= 27 ? 3 : MOST_COLUMNS};
  f.rows = (h->layers + f.columns - 1) / f.columns;
  f.panel_height = fmax(LEAST_PANEL, ROW * (double)h->heads);
  f.height = TOP + BOTTOM + (double)f.rows * f.panel_height + (double)(f.rows - 1) * BETWEEN;
  f.last = 1.3 * (horizon_last_distance(h) + 1);
  for (size_t i = 0; i < h->layers * h->heads * h->bins; i++) f.most = fmax(f.most, h->mass[i]);
  return f;
}

/* ---- the data: two blocks a layer ---- */

static void add_number(draft *d, double value)
{
  if (isfinite(value)) draft_add(d, " %.7g", value);
  else draft_add(d, " NaN");
}

static void add_data(draft *d, const horizon *h)
{
  draft_add(
      d, "# For each layer two blocks.  Of each head and bin: head, from, to, mean attention of a query there.\n"
         "# Of each head: head, distances within which 50, 90, 99 %% lie, horizons: these scores, these norms, "
         "any text.\n");
  for (size_t layer = 0; layer < h->layers; layer++) {
    draft_add(d, "\n\n# layer %zu, bins\n", layer);
    for (size_t i = layer * h->heads; i < (layer + 1) * h->heads; i++)
      for (size_t b = 0; b < h->bins; b++)
        draft_add(d, "%zu %.7g %zu %.7g\n", i % h->heads, b ? (double)h->edges[b] : FIRST, h->edges[b + 1],
                  h->mass[i * h->bins + b]);
    draft_add(d, "\n\n# layer %zu, heads\n", layer);
    for (size_t i = layer * h->heads; i < (layer + 1) * h->heads; i++) {
      const horizon_head *head = &h->list[i];
      draft_add(d, "%zu", i % h->heads);
      for (size_t k = 0; k < HORIZON_SHARES; k++) add_number(d, head->within[k].pooled);
      add_number(d, head->these_scores);
      add_number(d, head->these_norms);
      add_number(d, head->any_text);
      draft_add(d, "\n");
    }
  }
}

/* ---- the script ---- */

static void add_title(draft *d, int label, const char *text, size_t size, double y)
{
  draft_add(d, "  set label %d '", label);
  draft_add_quoted(d, text ? text : "", text ? size : 0, false);
  draft_add(d, "' noenhanced at screen 0.02, screen %.5f font ',14'\n", y);
}

static void add_header(draft *d, const horizon_report *r, const frame *f)
{
  draft clean = {0};
  char *sentence = horizon_sentence(r);
  draft_add_clean(&clean, sentence ? sentence : "");
  draft_add(d,
            "# Change what you like, then run gnuplot with this file, in this directory.\n"
            "reset\nset encoding utf8\nwidth = %d\nheight = %.0f\ndata = 'horizon.dat'\n"
            "pictures = 'horizon.svg horizon.png'\nsuffix = ''\nplain = 0\n"
            "# Arguments: directory, pictures, suffix of their names, 1 for the PNG terminal without cairo.\n"
            "if (exists('ARGC') && ARGC == 4) { cd ARG1; pictures = ARG2; suffix = ARG3; plain = int(ARG4) }\n"
            "at(t) = t < 1 ? %.7g : t + 0.5 # where distance t is marked\n"
            "set border 3 lc rgb '#666666'\nset tics nomirror out scale 0.6 textcolor rgb '#222222'\nunset key\n"
            "set logscale x\nset xrange [%.7g:%.7g]\nset yrange [%zu.5:-0.5]\nset style fill solid noborder\n",
            WIDTH, f->height, sqrt(FIRST), FIRST, f->last, r->h->heads - 1);
  draft_add(d, "set xtics ('0' %.7g", sqrt(FIRST));
  for (double t = 1; t < f->last; t *= 10) {
    char tick[32];
    number_tick(t, tick, sizeof tick);
    draft_add(d, ", '%s' %.7g", tick, t + 0.5);
  }
  draft_add(d,
            ")\nset ytics 1\nset cbrange [0:%.7g]\nunset colorbox\n"
            "set palette defined (0 '#ffffff', 0.15 '#dcebf7', 0.4 '#8fc1e6', 0.7 '#2f86c3', 1 '#08407a')\n"
            "do for [picture in pictures] {\n"
            "  if (picture eq 'horizon.svg') {\n"
            "    set terminal svg size width,height font 'sans-serif,13' background rgb 'white' name 'horizon'\n"
            "  } else {\n"
            "    if (!plain && strstrt(GPVAL_TERMINALS, ' pngcairo ')) {\n"
            "      set terminal pngcairo size width,height font 'sans,13' fontscale 0.74 background rgb 'white'\n"
            "    } else {\n"
            "      set terminal png size width,height font 'DejaVuSans,13' fontscale 0.74 truecolor\n    }\n  }\n"
            "  set output picture.suffix\n  set multiplot\n",
            f->most > 0 ? sqrt(f->most) : 1);
  const char *rest = clean.data ? strstr(clean.data, "; ") : NULL; /* too long for one line */
  size_t first = rest ? (size_t)(rest - clean.data) + 1 : clean.used;
  add_title(d, 1, clean.data, first, 1 - 20 / f->height);
  if (rest) add_title(d, 2, rest + 2, clean.used - first - 1, 1 - 42 / f->height);
  free(clean.data);
  free(sentence);
}

/* Above the panels: what colours and marks mean. */
static void add_key(draft *d, const horizon *h, const frame *f)
{
  double y = 1 - 68 / f->height;
  if (h->text) {
    draft_add(d,
              "  set label 3 'mean attention of a query by distance, darker is more (%.0f %% at most); "
              "it ends:  {/*1.2 \xe2\x97\x8b} 50 %%   {/*1.2 \xe2\x96\xa1} 90 %%   {/*1.2 \xe2\x97\x86} 99 %%   "
              "horizons:  | these scores (red), any text (grey)' at screen 0.02, screen %.5f "
              "tc rgb '#444444'\n",
              100 * f->most, y);
  } else {
    draft_add(
        d,
        "  set label 3 'grey: distances that a head may read, up to its horizon for any text; to the right end "
        "where it has none' at screen 0.02, screen %.5f tc rgb '#444444'\n",
        y);
  }
}

static void add_panel(draft *d, const horizon *h, const frame *f, size_t layer)
{
  size_t column = layer % f->columns, row = layer / f->columns;
  double wide = 1.0 / (double)f->columns, left = wide * (double)column + 0.045,
         right = wide * (double)(column + 1) - 0.02;
  double top = TOP + (double)row * (f->panel_height + BETWEEN);
  bool last = layer + f->columns >= h->layers;
  draft_add(d,
            "\n  # layer %zu\n  set lmargin at screen %.5f\n  set rmargin at screen %.5f\n"
            "  set tmargin at screen %.5f\n  set bmargin at screen %.5f\n  set title 'layer %zu' offset 0,-0.6\n"
            "  set xlabel '%s' offset 0,0.6\n  set ylabel '%s' offset 1.2,0\n",
            layer, left, right, 1 - top / f->height, 1 - (top + f->panel_height) / f->height, layer,
            last ? "distance in tokens" : "", column == 0 ? "head" : "");
  if (!h->text) {
    draft_add(
        d,
        "  plot data index %zu using (%.7g):1:(%.7g):(valid(7) ? at($7) : %.7g):($1-0.35):($1+0.35) "
        "with boxxyerror lc rgb '#c9ced4', \\\n"
        "       data index %zu using (at($7)):($1-0.45):(0):(0.9) with vectors nohead lc rgb '#555555' lw 2.5\n",
        2 * layer + 1, FIRST, FIRST, f->last, 2 * layer + 1);
    draft_add(d, "  unset label\n");
    return;
  }
  draft_add(
      d,
      "  plot data index %zu using 2:1:2:3:($1-0.5):($1+0.5):(sqrt($4)) with boxxyerror palette, \\\n"
      "       data index %zu using (at($7)):($1-0.45):(0):(0.9) with vectors nohead lc rgb '#888888' lw 2, \\\n",
      2 * layer, 2 * layer + 1);
  draft_add(
      d,
      "       data index %zu using (at($5)):($1-0.45):(0):(0.9) with vectors nohead lc rgb '#D00000' lw 2.5, \\\n"
      "       data index %zu using (at($2)):1 with points pt 6 ps 1 lw 2 lc rgb '#D55E00', \\\n",
      2 * layer + 1, 2 * layer + 1);
  draft_add(d,
            "       data index %zu using (at($3)):1 with points pt 4 ps 1 lw 2 lc rgb '#D55E00', \\\n"
            "       data index %zu using (at($4)):1 with points pt 13 ps 1.1 lc rgb '#D55E00'\n  unset label\n",
            2 * layer + 1, 2 * layer + 1);
}

status horizon_write_pictures(const horizon_report *r, const char *directory, bool *drawn, alibi_error *error)
{
  draft script = {0}, data = {0};
  frame f = frame_of(r->h);
  *drawn = false;
  add_data(&data, r->h);
  add_header(&script, r, &f);
  add_key(&script, r->h, &f);
  for (size_t layer = 0; layer < r->h->layers; layer++) add_panel(&script, r->h, &f, layer);
  draft_add(&script, "\n  unset multiplot\n  unset output\n}\n");
  status result = gnuplot_pictures(&data, &script, directory, "horizon", drawn, error);
  free(script.data);
  free(data.data);
  return result;
}
