/* curves.svg and curves.png, drawn by gnuplot, run as a program.  Its script and data stay beside the pictures, so
 * a user can restyle them and run `gnuplot curves.gp` there.
 *
 * One panel a protocol: the first two large, the others small under the legend.  All panels share one logarithmic
 * scale of perplexity.  The script draws into names with a suffix that the caller gives, and whole pictures are
 * then renamed into place.  Text goes to gnuplot inside single quotes, where it expands nothing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "report/drawing.h"
#include "report/gnuplot.h"

enum { PANELS = 4, LARGE = 2, SMALL_HEIGHT = 300 };
enum { WIDTH = 1280, LEGEND_ROW = 27, TITLE_COLUMNS = 88, TITLE_ROW = 27 };

/* A line of the legend: a method with an extension, in whichever panels it appears. */
typedef struct entry {
  const series *line;
  double order; /* by the last perplexity, so that the legend runs down as the lines lie */
  char note[96];
} entry;

typedef struct panel {
  const char *protocol;
  series *lines;
  size_t count;
  int64_t *lengths;
  size_t length_count;
  double left, right, bottom, top; /* of the axes, in parts of the picture */
} panel;

typedef struct picture {
  const study_results *results;
  panel panels[PANELS];
  size_t panel_count;
  entry *entries;
  size_t entry_count;
  double low, high; /* of perplexity */
  double height;    /* pixels */
  double title_height;
} picture;

/* Bands of many lines would hide the lines. */
static bool banded(const picture *p)
{
  enum { MOST_BANDS = 14 };
  return p->entry_count <= MOST_BANDS;
}

static void picture_free(picture *p)
{
  for (size_t i = 0; i < PANELS; i++) {
    free(p->panels[i].lines);
    free(p->panels[i].lengths);
  }
  free(p->entries);
}

static bool same_line(const series *a, const series *b)
{
  return a->method == b->method && strcmp(a->curve->extend, b->curve->extend) == 0;
}

static size_t entry_index(const picture *p, const series *line)
{
  size_t i = 0;
  while (i < p->entry_count && !same_line(p->entries[i].line, line)) i++;
  return i;
}

static void entry_fill(entry *e, const series *line)
{
  const char *why = NULL;
  int64_t end = curve_end(line->curve, &why), last = 0;
  *e = (entry){.line = line, .order = -1};
  for (size_t i = 0; i < line->curve->count; i++) {
    const curve_point *point = &line->curve->points[i];
    if (!point_measured(point) || point->length < last) continue;
    last = point->length;
    e->order = point->perplexity;
  }
  if (why) e->order = 0;
  if (why && end > 0)
    snprintf(e->note, sizeof e->note,
             strstr(why, "position") ? "no positions beyond %lld" : "no result beyond %lld", (long long)end);
  else if (why || last == 0) snprintf(e->note, sizeof e->note, "no result");
}

static int compare_entries(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  if (x->order != y->order) return x->order < y->order ? 1 : -1;
  return (x->line > y->line) - (x->line < y->line);
}

static status collect(picture *p, const study_results *results, alibi_error *error)
{
  status result = ALIBI_OK;
  const char *names[PANELS];
  size_t capacity = 0;
  p->results = results;
  p->panel_count = protocol_list(results, names, PANELS);
  for (size_t i = 0; i < p->panel_count; i++) {
    panel *n = &p->panels[i];
    n->protocol = names[i];
    n->lines = series_list(results, names[i], &n->count);
    n->lengths = length_list(results, names[i], &n->length_count);
    if ((n->count && !n->lines) || (n->length_count && !n->lengths))
      RAISE(error, ALIBI_FAILED, "not enough memory for the pictures");
    double low, high;
    if (series_range(n->lines, n->count, &low, &high)) {
      if (p->high == 0 || low < p->low) p->low = low;
      if (high > p->high) p->high = high;
    }
    for (size_t j = 0; j < n->count; j++) {
      if (entry_index(p, &n->lines[j]) < p->entry_count) continue;
      TRY(memory_grow(&p->entries, &capacity, p->entry_count + 1, sizeof *p->entries, "a legend", error));
      entry_fill(&p->entries[p->entry_count++], &n->lines[j]);
    }
  }
  if (p->entry_count) qsort(p->entries, p->entry_count, sizeof *p->entries, compare_entries);
  if (p->high > 0) axis_open(&p->low, &p->high);
  if (p->high > 0) p->high *= pow(p->high / p->low, 0.07); /* room for the words at the top */
done:
  return result;
}

/* The question as a bold title, broken at spaces; returns the number of lines. */
static int add_title(draft *d, const picture *p, bool count_only)
{
  draft clean = {0};
  draft_add_clean(&clean, p->results->question);
  char *text = draft_take(&clean);
  int rows = 0;
  if (!text) {
    d->failed = true;
    return 1;
  }
  for (const char *s = text; *s;) {
    size_t size = strlen(s), columns = 0, space = 0, i = 0;
    for (; i < size && columns < TITLE_COLUMNS; i++) {
      if (s[i] == ' ') space = i;
      columns += ((unsigned char)s[i] & 0xc0) != 0x80;
    }
    while (i < size && ((unsigned char)s[i] & 0xc0) == 0x80) i++; /* never inside a character */
    size_t take = i == size || space == 0 ? i : space;
    if (!count_only) {
      draft_add(d, "  set label '{/:Bold ");
      draft_add_quoted(d, s, take, true);
      draft_add(d, "}' at screen 0.02, screen %.4f font ',19'\n", 1 - (28.0 + TITLE_ROW * rows) / p->height);
    }
    rows++;
    s += take;
    while (*s == ' ') s++;
  }
  free(text);
  return rows;
}

static void layout(picture *p)
{
  draft unused = {0};
  size_t rows = p->entry_count > 8 ? p->entry_count : 8;
  size_t small = p->panel_count > LARGE ? p->panel_count - LARGE : 0;
  p->height = 640;
  p->title_height = 58 + TITLE_ROW * (add_title(&unused, p, true) - 1);
  double needed = p->title_height + 40 + (double)LEGEND_ROW * (double)rows + (small ? 20 : 40) +
                  SMALL_HEIGHT * (double)small;
  if (p->height < needed) p->height = needed;
  double top = 1 - (p->title_height + 46) / p->height, bottom = 66 / p->height;
  for (size_t i = 0; i < p->panel_count; i++) {
    panel *n = &p->panels[i];
    *n = (panel){n->protocol, n->lines, n->count, n->lengths, n->length_count, 0.062, 0.725, bottom, top};
    if (p->panel_count > 1 && i == 0) n->right = 0.372;
    if (i == 1) n->left = 0.418;
    if (i >= LARGE) { /* the first of them on top */
      double below = 66 + SMALL_HEIGHT * (double)(p->panel_count - 1 - i);
      n->left = 0.79;
      n->right = 0.985;
      n->bottom = below / p->height;
      n->top = (below + 205) / p->height;
    }
  }
}

static void add_data(draft *d, const picture *p)
{
  draft_add(d, "# One block a line of the picture, in the order of curves.gp.  Columns: length, perplexity, "
               "perplexity minus\n"
               "# and plus its standard error, 1 where the line ends because longer texts cannot be done.\n");
  for (size_t i = 0; i < p->panel_count; i++)
    for (size_t j = 0; j < p->panels[i].count; j++) {
      const series *line = &p->panels[i].lines[j];
      const char *why = NULL;
      int64_t end = curve_end(line->curve, &why);
      draft_add(d, "\n\n# ");
      draft_add_clean(d, line->curve->protocol);
      draft_add(d, ", ");
      draft_add_clean(d, line->label);
      draft_add(d, "\n");
      bool any = false;
      for (size_t k = 0; k < line->curve->count; k++) {
        const curve_point *point = &line->curve->points[k];
        if (!point_measured(point)) {
          draft_add(d, "# %lld: ", (long long)point->length);
          draft_add_clean(d, point->error[0] ? point->error : "not a finite number");
          draft_add(d, "\n");
          continue;
        }
        double e = point->standard_error, y = point->perplexity;
        if (!(e >= 0) || !isfinite(e)) e = 0;
        draft_add(d, "%lld %.9g %.9g %.9g %d\n", (long long)point->length, y, e < y ? y - e : y * 1e-3, y + e,
                  point->length == end && why != NULL);
        any = true;
      }
      if (!any) draft_add(d, "NaN NaN NaN NaN 0\n"); /* a block must not be empty, or the count would be off */
    }
}

static void add_styles(draft *d, const picture *p)
{
  static const char *const dashes[] = {"solid", "(9,5)", "(3,4)", "(12,4,3,4)", "(6,3)", "(2,2)"};
  static const int marks[] = {6, 6, 4, 8, 12, 10}, filled[] = {7, 5, 9, 13};
  draft_add(d, "\n# One style a line: change colours, widths, dashes and points here.\n");
  for (size_t i = 0; i < p->entry_count; i++) {
    const series *line = p->entries[i].line;
    int dash = line->dash % 6;
    draft_add(d, "set style line %zu lc rgb '%s' lw %s dt %s pt %d ps %s # ", i + 1, line->colour,
              line->main_method ? "5" : "2.1", dashes[dash], dash ? marks[dash] : filled[line->round % 4],
              line->main_method ? "1.1" : "0.8");
    draft_add_clean(d, line->label);
    draft_add(d, "\n");
  }
}

static void add_legend(draft *d, const picture *p)
{
  for (size_t i = 0; i < p->entry_count; i++) {
    const entry *e = &p->entries[i];
    double y = 1 - (p->title_height + 34 + LEGEND_ROW * (double)i) / p->height;
    draft_add(d, "  set arrow from screen 0.757, screen %.4f to screen 0.795, screen %.4f nohead ls %zu\n", y, y,
              i + 1);
    draft_add(d, "  set label '' at screen 0.776, screen %.4f point ls %zu\n", y, i + 1);
    if (e->note[0] && e->order == 0)
      draft_add(d, "  set label '' at screen 0.795, screen %.4f point ls %zu pt 2 ps 1.3\n", y, i + 1);
    draft_add(d, "  set label '%s", e->line->main_method ? "{/:Bold " : "");
    draft clean = {0};
    draft_add_clean(&clean, e->line->label);
    if (e->note[0]) draft_add(&clean, " (%s)", e->note);
    draft_add_quoted(d, clean.data ? clean.data : "", clean.used, true);
    free(draft_take(&clean));
    draft_add(d, "%s' at screen 0.805, screen %.4f font ',%d'\n", e->line->main_method ? "}" : "", y,
              utf8_columns(e->line->label) + utf8_columns(e->note) > 28 ? 12 : 14);
  }
}

static void add_lengths(draft *d, const panel *n, size_t most)
{
  size_t every = (n->length_count + most - 1) / most;
  bool any = false;
  draft_add(d, "  set xtics (");
  for (size_t i = 0; i < n->length_count; i++) {
    bool named = (n->length_count - 1 - i) % every == 0;
    draft_add(d, "%s'", any ? ", " : "");
    if (named) draft_add(d, "%lld", (long long)n->lengths[i]);
    draft_add(d, "' %lld", (long long)n->lengths[i]);
    any = true;
  }
  draft_add(d, ")\n");
}

/* The dashed vertical lines: where the study trained, and where others did. */
static void add_trained(draft *d, const picture *p, const panel *n, bool small)
{
  double first = (double)n->lengths[0], last = (double)n->lengths[n->length_count - 1];
  int64_t main_length = p->results->train_length, noted = main_length;
  for (size_t i = 0; i <= n->count; i++) {
    const method_result *m = i == 0 ? NULL : n->lines[i - 1].method;
    int64_t at = m ? m->train_length : main_length;
    if (i > 0 && (at == main_length || at == noted)) continue;
    noted = at;
    if ((double)at < first || (double)at > last) continue;
    bool flip = (double)at > sqrt(first * last);
    draft_add(
        d, "  set arrow from first %lld, graph 0 to first %lld, graph 1 nohead back lc rgb '%s' lw 1.3 dt (6,5)\n",
        (long long)at, (long long)at, i == 0 ? "#444444" : "#999999");
    if (small) continue;
    draft_add(d, "  set label '%s' at first %lld, graph %s %s offset %s,0 font ',13' tc rgb '%s'\n",
              m == NULL                       ? "trained here"
              : strcmp(m->role, "rival") == 0 ? "rival trained here"
                                              : "others trained here",
              (long long)at, i == 0 ? "0.97" : "0.925", flip ? "right" : "left", flip ? "-0.7" : "0.7",
              i == 0 ? "#222222" : "#666666");
  }
}

static void add_panel(draft *d, const picture *p, size_t index, size_t first_block)
{
  const panel *n = &p->panels[index];
  bool small = index >= LARGE;
  double ticks[24];
  size_t count = axis_ticks(p->low, p->high, ticks, 24);
  double first = (double)n->lengths[0], last = (double)n->lengths[n->length_count - 1];
  double room = last > first ? pow(last / first, 0.05) : 2;
  draft_add(d, "\n  # ");
  draft_add_clean(d, n->protocol);
  draft_add(d,
            "\n  set lmargin at screen %.4f\n  set rmargin at screen %.4f\n  set bmargin at screen %.4f\n"
            "  set tmargin at screen %.4f\n",
            n->left, n->right, n->bottom, n->top);
  draft_add(d, "  set xrange [%.9g:%.9g]\n  set yrange [%.9g:%.9g]\n", first / room, last * room, p->low, p->high);
  add_lengths(d, n, small ? 5 : 9);
  draft_add(d, "  set ytics (");
  for (size_t i = 0; i < count; i++) {
    char tick[32];
    number_tick(ticks[i], tick, sizeof tick);
    draft_add(d, "%s'%s' %.9g", i ? ", " : "", tick, ticks[i]);
  }
  draft_add(d, ")\n  unset ylabel\n");
  if (index == 0) draft_add(d, "  set ylabel 'perplexity (lower is better)' font ',14'\n");
  draft_add(d, "  set xlabel 'tokens read at once' font ',%d' offset 0,0.2\n", small ? 12 : 14);
  draft_add(d, "  set tics font ',%d'\n  set label '{/:Bold ", small ? 12 : 14);
  draft clean = {0};
  draft_add_clean(&clean, protocol_title(n->protocol));
  draft_add_quoted(d, clean.data ? clean.data : "", clean.used, true);
  free(draft_take(&clean));
  draft_add(d, "}' at graph 0, graph 1 offset 0,%s font ',%d'\n", small ? "0.8" : "1", small ? 13 : 15);
  add_trained(d, p, n, small);
  draft_add(d, "  plot \\\n");
  for (size_t j = 0; banded(p) && j < n->count; j++)
    draft_add(
        d, "    data index %zu using 1:3:4 with filledcurves fs transparent solid 0.13 noborder lc rgb '%s', \\\n",
        first_block + j, n->lines[j].colour);
  for (int heavy = 0; heavy <= 1; heavy++) /* the heaviest lies on top */
    for (size_t j = 0; j < n->count; j++) {
      if (n->lines[j].main_method != heavy) continue;
      size_t style = entry_index(p, &n->lines[j]) + 1;
      draft_add(d, "    data index %zu using 1:2 with linespoints ls %zu%s, \\\n", first_block + j, style,
                small ? " ps 0.5" : "");
      draft_add(d, "    data index %zu using 1:($5 == 1 ? $2 : NaN) with points ls %zu pt 2 ps %s, \\\n",
                first_block + j, style, small ? "1" : "1.8");
    }
  draft_add(d, "    NaN\n  unset label\n  unset arrow\n");
}

static void add_script(draft *d, const picture *p)
{
  draft_add(
      d,
      "# Draws curves.svg and curves.png from curves.dat.  Change what you like, then run, in this directory:\n"
      "#   gnuplot curves.gp\n\n"
      "reset\nset encoding utf8\n"
      "width = %d\nheight = %.0f\ndata = 'curves.dat'\n"
      "pictures = 'curves.svg curves.png'\nsuffix = ''\nplain = 0\n",
      WIDTH, p->height);
  draft_add(d,
            "# Arguments: directory, pictures, suffix of their names, 1 for the PNG terminal without cairo.\n"
            "if (exists('ARGC') && ARGC == 4) { cd ARG1; pictures = ARG2; suffix = ARG3; plain = int(ARG4) }\n");
  add_styles(d, p);
  draft_add(d,
            "\nset logscale x 2\nset logscale y 10\nset border 3 lc rgb '#666666'\n"
            "set tics nomirror out scale 0.6 textcolor rgb '#222222'\nset mxtics 1\nset mytics 1\n"
            "set grid ytics lt 1 lc rgb '#e4e4e4' lw 1\nunset key\n\n"
            "do for [picture in pictures] {\n"
            "  if (picture eq 'curves.svg') {\n"
            "    set terminal svg size width,height font 'sans-serif,14' background rgb 'white' name 'curves'\n"
            "  } else {\n"
            "    if (!plain && strstrt(GPVAL_TERMINALS, ' pngcairo ')) {\n"
            "      set terminal pngcairo size width,height font 'sans,14' fontscale 0.74 background rgb 'white'\n"
            "    } else {\n"
            "      set terminal png size width,height font 'DejaVuSans,14' fontscale 0.74 truecolor\n"
            "    }\n  }\n"
            "  set output picture.suffix\n  set multiplot\n");
  add_title(d, p, false);
  draft_add(d,
            "  set label '%s' at screen 0.02, screen %.4f font ',13' tc rgb '#555555'\n",
            banded(p) ? "Bands: plus and minus one standard error" : "Standard errors: report.html, results.csv",
            1 - (p->title_height - 2) / p->height);
  add_legend(d, p);
  size_t block = 0;
  for (size_t i = 0; i < p->panel_count; i++) {
    add_panel(d, p, i, block);
    block += p->panels[i].count;
  }
  draft_add(d, "\n  unset multiplot\n  unset output\n}\n");
}

status results_write_pictures(const study_results *results, const char *directory, bool *made, alibi_error *error)
{
  status result = ALIBI_OK;
  picture p = {0};
  draft script = {0}, data = {0};
  *made = false;
  TRY(collect(&p, results, error));
  if (p.panel_count == 0 || p.high == 0) goto done; /* nothing was measured: nothing to draw */
  layout(&p);
  add_data(&data, &p);
  add_script(&script, &p);
  result = gnuplot_pictures(&data, &script, directory, "curves", made, error);
done:
  free(script.data);
  free(data.data);
  picture_free(&p);
  return result;
}
