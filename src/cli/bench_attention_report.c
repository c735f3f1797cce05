/* One table of columns drives JSON and CSV, so that both have the same names; people read a shorter table, in
 * which decoding shows bytes where the other passes show operations. */
#include "cli/bench_attention_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/attention.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/json_output.h"
#include "cli/progress.h"
#include "report/drawing.h"
#include "report/gnuplot.h"

enum { MOST_HEADS = 1024 };

typedef enum column_kind {
  COLUMN_PASS,
  COLUMN_TEXT,
  COLUMN_INTEGER,
  COLUMN_INT,
  COLUMN_SIZE,
  COLUMN_REAL
} column_kind;

typedef struct column {
  const char *name;
  column_kind kind;
  size_t offset;
  bool may_lack; /* 0 says that it was not measured */
} column;

#define COLUMN(member, kind)                                                                                      \
  {                                                                                                               \
#member, kind, offsetof(bench_attention_row, member), false                                                   \
  }
#define COLUMN_OR_NOT(member)                                                                                     \
  {                                                                                                               \
#member, COLUMN_REAL, offsetof(bench_attention_row, member), true                                             \
  }

static const column columns[] = {
    COLUMN(pass, COLUMN_PASS),          COLUMN(length, COLUMN_INTEGER),
    COLUMN(heads, COLUMN_INTEGER),      COLUMN(kv_heads, COLUMN_INTEGER),
    COLUMN(head_size, COLUMN_INTEGER),  COLUMN(layers, COLUMN_INTEGER),
    COLUMN(method, COLUMN_TEXT),        COLUMN(tolerance, COLUMN_REAL),
    COLUMN(score, COLUMN_REAL),         COLUMN(threads, COLUMN_INT),
    COLUMN(repeats, COLUMN_SIZE),       COLUMN(seconds, COLUMN_REAL),
    COLUMN(gflops, COLUMN_REAL),        COLUMN(peak_gflops, COLUMN_REAL),
    COLUMN(peak_share, COLUMN_REAL),    COLUMN(visited_share, COLUMN_REAL),
    COLUMN(pairs_share, COLUMN_REAL),   COLUMN(error, COLUMN_REAL),
    COLUMN(skip_error, COLUMN_REAL),    COLUMN(bound, COLUMN_REAL),
    COLUMN(scratch_bytes, COLUMN_SIZE), COLUMN_OR_NOT(speed_up),
    COLUMN_OR_NOT(bias_cost),           COLUMN_OR_NOT(read_gbs),
    COLUMN_OR_NOT(machine_gbs),         COLUMN_OR_NOT(read_share),
    COLUMN_OR_NOT(keys_share),
};

enum { COLUMNS = sizeof columns / sizeof columns[0] };

static const char *column_text(const column *c, const bench_attention_row *row)
{
  return c->kind == COLUMN_PASS ? bench_pass_names[row->pass]
                                : *(const char *const *)((const char *)row + c->offset);
}

static double column_number(const column *c, const bench_attention_row *row)
{
  const void *at = (const char *)row + c->offset;
  switch (c->kind) {
  case COLUMN_INTEGER: return (double)*(const int64_t *)at;
  case COLUMN_INT: return *(const int *)at;
  case COLUMN_SIZE: return (double)*(const size_t *)at;
  default: return *(const double *)at;
  }
}

static bool is_text(const column *c)
{
  return c->kind == COLUMN_PASS || c->kind == COLUMN_TEXT;
}

/* --- for people --- */

static void format_seconds(double s, char *text, size_t size)
{
  double scale = s < 1e-3 ? 1e6 : s < 1 ? 1e3 : 1;
  const char *unit = s < 1e-3 ? "us" : s < 1 ? "ms" : "s";
  double x = s * scale;
  snprintf(text, size, "%.*f %s", x < 9.995 ? 2 : x < 99.95 ? 1 : 0, x, unit);
}

static void format_bytes(double bytes, char *text, size_t size)
{
  static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++) bytes /= 1000;
  snprintf(text, size, "%.*f %s", unit == 0 || bytes >= 99.95 ? 0 : bytes < 9.995 ? 2 : 1, bytes, units[unit]);
}

static void print_heading(bool decode)
{
  printf("%s%-8s %8s %-6s %9s %5s %9s %8s %8s %8s %7s %8s %8s %8s %8s\n", decode ? "\n" : "", "pass", "length",
         "method", "tolerance", "runs", "time", decode ? "GB/s" : "GFLOP/s", decode ? "of mem." : "of peak",
         decode ? "read" : "visited", "faster", "error", "skipping", "bound", "scratch");
}

static void print_row(const bench_attention_row *r)
{
  bool decode = r->pass == BENCH_DECODE;
  char seconds[32], scratch[32], speed_up[32] = "-";
  format_seconds(r->seconds, seconds, sizeof seconds);
  format_bytes((double)r->scratch_bytes, scratch, sizeof scratch);
  if (r->speed_up > 0) snprintf(speed_up, sizeof speed_up, "%.2f", r->speed_up);
  printf("%-8s %8" PRId64 " %-6s %9.2g %5zu %9s %8.1f %7.1f%% %7.2f%% %7s %8.1e %8.1e %8.1e %8s\n",
         bench_pass_names[r->pass], r->length, r->method, r->tolerance, r->repeats, seconds,
         decode ? r->read_gbs : r->gflops, 100 * (decode ? r->read_share : r->peak_share),
         100 * (decode ? r->keys_share : r->visited_share), speed_up, r->error, r->skip_error, r->bound, scratch);
  fflush(stdout);
}

void attention_report_row(void *user, const bench_attention_row *row)
{
  attention_rows_report *report = user;
  const bench_attention_row *last = report->count ? &report->rows[report->count - 1] : NULL;
  if (!report->json) {
    progress_clear();
    bool decode = row->pass == BENCH_DECODE;
    if (!last || decode != (last->pass == BENCH_DECODE)) print_heading(decode);
    print_row(row);
  }
  if (memory_grow(&report->rows, &report->capacity, report->count + 1, sizeof *report->rows, "the rows", NULL) !=
      ALIBI_OK)
    report->out_of_memory = true;
  else report->rows[report->count++] = *row;
}

void attention_report_free(attention_rows_report *report)
{
  free(report->rows);
  *report = (attention_rows_report){0};
}

/* The speeds of all rows differ a little: their geometric mean. */
static double mean_speed(const attention_rows_report *report, bool decode)
{
  double sum = 0, count = 0;
  for (size_t i = 0; i < report->count; i++) {
    const bench_attention_row *r = &report->rows[i];
    if (decode && r->pass != BENCH_DECODE) continue;
    sum += log(decode ? r->machine_gbs : r->peak_gflops);
    count++;
  }
  return count > 0 ? exp(sum / count) : 0;
}

/* --- for programs --- */

static json_node *row_node(const bench_attention_row *row)
{
  json_node *node = node_new_object();
  for (size_t i = 0; i < COLUMNS; i++) {
    const column *c = &columns[i];
    if (is_text(c)) node_set_text(node, c->name, column_text(c, row));
    else if (c->kind != COLUMN_REAL) node_set_integer(node, c->name, (int64_t)column_number(c, row));
    else if (!c->may_lack || column_number(c, row) > 0) node_set_number(node, c->name, column_number(c, row));
  }
  return node;
}

static void print_bias_costs(const attention_rows_report *report)
{
  const bench_attention_row *last = NULL;
  for (size_t i = 0; i < report->count; i++) {
    const bench_attention_row *r = &report->rows[i];
    if (!(r->bias_cost > 0)) continue;
    bool begins = !last || last->pass != r->pass || strcmp(last->method, r->method) != 0;
    if (begins)
      printf("%s%s, %s, time over that without a bias:", last ? "\n" : "", bench_pass_names[r->pass], r->method);
    printf("%s %+.1f %% at %" PRId64, begins ? "" : ",", 100 * (r->bias_cost - 1), r->length);
    last = r;
  }
  if (last) printf("\n");
}

static status print_json(const attention_rows_report *report, const attention_report_facts *facts,
                         alibi_error *error)
{
  char processor[256];
  json_node *root = node_new_object(), *list = node_new_array();
  system_processor_name(processor, sizeof processor);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "group", "attention");
  node_set_text(root, "instruction_set", facts->isa);
  node_set_text(root, "processor", processor);
  node_set_integer(root, "threads", facts->threads);
  node_set_text(root, "clock", facts->threads == 1 ? "processor" : "wall");
  node_set_text(root, "model", facts->model);
  node_set_text(root, "text", facts->text);
  node_set_boolean(root, "complete", facts->complete);
  for (size_t i = 0; i < report->count; i++) node_append(list, row_node(&report->rows[i]));
  node_set(root, "rows", list);
  return print_node(root, error);
}

/* ALiBi's reach: with scores between -U and U, what is farther than (2U - ln tolerance - ln(1 - exp(-m))) / m
 * weighs less than the tolerance whatever stands there (docs/attention.md). */
static status print_reach(const bench_attention_row *r, alibi_error *error)
{
  double slopes[MOST_HEADS], gentlest = INFINITY;
  if (r->tolerance <= 0 || strcmp(r->method, "alibi") != 0 || r->heads > MOST_HEADS) return ALIBI_OK;
  status result = alibi_slopes((int)r->heads, 8, ALIBI_SLOPES_INTERLEAVED, slopes, error);
  for (int64_t h = 0; result == ALIBI_OK && h < r->heads; h++) gentlest = fmin(gentlest, slopes[h]);
  if (result != ALIBI_OK) return result;
  printf("no head looks back farther than %.0f tokens, for a tolerance of %g and |score| <= %.3g\n",
         (2 * r->score - log(r->tolerance) - log(-expm1(-gentlest))) / gentlest, r->tolerance, r->score);
  return ALIBI_OK;
}

status attention_report_end(const attention_rows_report *report, const attention_report_facts *facts,
                            alibi_error *error)
{
  if (report->out_of_memory) return fail(error, ALIBI_FAILED, "not enough memory for the rows");
  if (report->json) return print_json(report, facts, error);
  if (report->count == 0) return ALIBI_OK;
  const bench_attention_row *r = &report->rows[0];
  printf("\n%" PRId64 " head%s of %" PRId64, r->heads, r->heads == 1 ? "" : "s", r->head_size);
  if (r->kv_heads != r->heads) printf(" on %" PRId64 " key-value heads", r->kv_heads);
  if (facts->model) printf(", mean of %" PRId64 " layers of %s on %s", r->layers, facts->model, facts->text);
  else printf(", |score| <= %g", r->score);
  printf("; %s, %d thread%s: peak %.1f GFLOP/s", facts->isa, facts->threads, facts->threads == 1 ? "" : "s",
         mean_speed(report, false));
  if (mean_speed(report, true) > 0) printf(", reading %.1f GB/s", mean_speed(report, true));
  printf("\n");
  print_bias_costs(report);
  return print_reach(&report->rows[report->count - 1], error);
}

static void write_csv(const attention_rows_report *report, FILE *stream)
{
  for (size_t i = 0; i < COLUMNS; i++) fprintf(stream, "%s%s", i ? "," : "", columns[i].name);
  fputc('\n', stream);
  for (size_t n = 0; n < report->count; n++) {
    for (size_t i = 0; i < COLUMNS; i++) {
      const column *c = &columns[i];
      char number[40] = "";
      if (i) fputc(',', stream);
      if (is_text(c)) {
        fputs(column_text(c, &report->rows[n]), stream); /* names of passes and methods: nothing to quote */
        continue;
      }
      double value = column_number(c, &report->rows[n]);
      if (!c->may_lack || value > 0) number_exact(value, number, sizeof number);
      fputs(number, stream);
    }
    fputc('\n', stream);
  }
}

status attention_report_csv(const attention_rows_report *report, const char *path, alibi_error *error)
{
  replace_file file;
  status result = replace_begin(path, &file, error);
  if (result != ALIBI_OK) return result;
  write_csv(report, file.stream);
  return replace_commit(&file, error);
}

/* --- the picture --- */

static bool same_line(const bench_attention_row *a, const bench_attention_row *b)
{
  return a->pass == b->pass && strcmp(a->method, b->method) == 0 && a->tolerance == b->tolerance;
}

static bool begins_line(const attention_rows_report *report, size_t i)
{
  for (size_t k = 0; k < i; k++)
    if (same_line(&report->rows[k], &report->rows[i])) return false;
  return true;
}

static void write_data(const attention_rows_report *report, FILE *stream)
{
  fprintf(stream, "# One block a line of the picture.  Columns: length, seconds, share visited (decode: read).\n");
  for (size_t i = 0; i < report->count; i++) {
    const bench_attention_row *first = &report->rows[i];
    if (!begins_line(report, i)) continue;
    fprintf(stream, "\n\n# %s, %s, tolerance %g\n", bench_pass_names[first->pass], first->method,
            first->tolerance);
    for (size_t k = i; k < report->count; k++) {
      const bench_attention_row *r = &report->rows[k];
      if (same_line(first, r))
        fprintf(stream, "%" PRId64 " %.9g %.9g\n", r->length, r->seconds,
                r->pass == BENCH_DECODE ? r->keys_share : r->visited_share);
    }
  }
}

/* Inside single quotes. */
static void write_quoted(const char *s, FILE *stream)
{
  for (; *s; s++) fprintf(stream, *s == '\'' ? "''" : "%c", *s);
}

static void write_lines(const attention_rows_report *report, const char *using, bool keys, FILE *stream)
{
  static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73"};
  size_t line = 0;
  fprintf(stream, "plot \\\n");
  for (size_t i = 0; i < report->count; i++) {
    const bench_attention_row *r = &report->rows[i];
    if (!begins_line(report, i)) continue;
    bool none = strcmp(r->method, bench_method_names[BENCH_NONE]) == 0;
    fprintf(stream, "  data index %zu using %s with linespoints lc rgb '%s' lw 2.5 dt %s pt %d ps 1 ", line++,
            using, colours[r->pass],
            r->tolerance > 0 ? "solid"
            : none           ? "(3,4)"
                             : "(9,5)",
            r->tolerance > 0 ? 7
            : none           ? 4
                             : 6);
    if (!keys) fprintf(stream, "notitle, \\\n");
    else if (r->tolerance > 0)
      fprintf(stream, "title '%s, %s, tolerance %.2g', \\\n", bench_pass_names[r->pass], r->method, r->tolerance);
    else fprintf(stream, "title '%s, %s, every key', \\\n", bench_pass_names[r->pass], r->method);
  }
  fprintf(stream, "  NaN notitle\n");
}

/* Powers of two as 512, 4k, 1M. */
static void write_axis(const attention_rows_report *report, FILE *stream)
{
  int64_t least = INT64_MAX, most = 0;
  for (size_t i = 0; i < report->count; i++) {
    if (report->rows[i].length < least) least = report->rows[i].length;
    if (report->rows[i].length > most) most = report->rows[i].length;
  }
  fprintf(stream, "set xrange [%g:%g]\nset xtics (", (double)least / 1.3, (double)most * 1.3);
  for (int power = 0; power <= 24; power++)
    fprintf(stream, "%s'%d%s' %ld", power ? ", " : "", 1 << power % 10,
            power < 10   ? ""
            : power < 20 ? "k"
                         : "M",
            1L << power);
  fprintf(stream, ")\n");
}

static void write_script(const attention_rows_report *report, const char *stem, FILE *stream)
{
  fprintf(
      stream,
      "# Change what you like, then run gnuplot with this file, in this directory.\nreset\nset encoding utf8\n");
  fprintf(stream, "data = '");
  write_quoted(stem, stream);
  fprintf(stream, ".dat'\npicture = '");
  write_quoted(stem, stream);
  fprintf(stream,
          ".png'\nsuffix = ''\nplain = 0\n"
          "# Arguments: directory, picture, suffix of its name, 1 for the PNG terminal without cairo.\n"
          "if (exists('ARGC') && ARGC == 4) { cd ARG1; picture = ARG2; suffix = ARG3; plain = int(ARG4) }\n"
          "if (!plain && strstrt(GPVAL_TERMINALS, ' pngcairo ')) {\n"
          "  set terminal pngcairo size 1280,640 font 'sans,11' background rgb 'white'\n} else {\n"
          "  set terminal png size 1280,640 font 'DejaVuSans,11' truecolor\n}\n"
          "set output picture.suffix\nset multiplot\nset logscale xy\n");
  write_axis(report, stream);
  fprintf(stream,
          "set border 3 lc rgb '#666666'\nset tics nomirror out scale 0.6 textcolor rgb '#222222'\n"
          "set grid lt 1 lc rgb '#e4e4e4' lw 1\nset xlabel 'tokens'\nset bmargin at screen 0.12\n"
          "set tmargin at screen 0.91\nset key at screen 0.735, screen 0.93 left top reverse Left\n"
          "set lmargin at screen 0.07\nset rmargin at screen 0.375\nset format y '%%.0s %%cs'\n"
          "set title 'time of a call of all %" PRId64 " heads'\n",
          report->rows[0].heads);
  write_lines(report, "1:2", true, stream);
  fprintf(stream, "set lmargin at screen 0.43\nset rmargin at screen 0.725\nset format y '%%g %%%%'\n"
                  "set title 'blocks visited (decode: keys read)'\n");
  write_lines(report, "1:(100*$3)", false, stream);
  fprintf(stream, "unset multiplot\nunset output\n");
}

static status write_beside(const attention_rows_report *report, const char *path, const char *stem,
                           alibi_error *error)
{
  replace_file file;
  status result = replace_begin(path, &file, error);
  if (result != ALIBI_OK) return result;
  if (stem) write_script(report, stem, file.stream);
  else write_data(report, file.stream);
  return replace_commit(&file, error);
}

status attention_report_picture(const attention_rows_report *report, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  char script[1024], data[1024], directory[1024], name[512], stem[512], said[200] = "";
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  size_t size = strlen(path) - strlen(".png"), place = (size_t)(base - path);
  if (report->count == 0) return ALIBI_OK;
  if (strlen(base) >= sizeof name || size + 16 > sizeof script)
    return fail(error, ALIBI_INVALID, "--plot: the name is too long: %s", path);
  snprintf(name, sizeof name, "%s", base);
  snprintf(stem, sizeof stem, "%.*s", (int)(size - place), base);
  snprintf(directory, sizeof directory, "%.*s", place ? (int)place : 2, place ? path : "./");
  const char *here = path[0] == '/' ? "" : "./"; /* a name that begins with '-' must not look like an option */
  snprintf(script, sizeof script, "%s%.*s.gp", here, (int)size, path);
  snprintf(data, sizeof data, "%s%.*s.dat", here, (int)size, path);
  TRY(write_beside(report, data, NULL, error));
  TRY(write_beside(report, script, stem, error));
  gnuplot_outcome drawn = gnuplot_draw(script, directory, name, false, said, sizeof said);
  if (drawn == GNUPLOT_FAILED) drawn = gnuplot_draw(script, directory, name, true, said, sizeof said);
  if (drawn == GNUPLOT_MISSING)
    RAISE(error, ALIBI_FAILED, "--plot: gnuplot is not installed; %s draws %s where it is", script, path);
  if (drawn == GNUPLOT_FAILED) RAISE(error, ALIBI_FAILED, "gnuplot could not draw %s: %s", path, said);
done:
  return result;
}
