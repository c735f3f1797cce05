/* report/drawing.h - what the drawings share: text being written, clean Unicode, the lines of a picture with
 * their labels and colours, ticks of an axis, numbers as people read them. */
#ifndef REPORT_DRAWING_H
#define REPORT_DRAWING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/results.h"

/* Text that grows.  Memory that runs out is remembered and reported at the end, so writers need no checks. */
typedef struct draft {
  char *data;
  size_t used, capacity;
  bool failed;
} draft;

void draft_put(draft *d, const char *bytes, size_t size);
void draft_add(draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As valid UTF-8: bytes that are none and control characters become U+FFFD, line breaks become spaces; NULL: "".
 */
void draft_add_clean(draft *d, const char *s);
/* The same, with & < > " ' as entities; line breaks are kept. */
void draft_add_escaped(draft *d, const char *s);
/* For a script of gnuplot, inside single quotes, where it expands nothing.  A backquote would be harmless there;
 * it goes all the same.  With `marks`, the signs of gnuplot's enhanced text are taken literally. */
void draft_add_quoted(draft *d, const char *s, size_t size, bool marks);
/* A cell of CSV, clean and quoted where it must be; a comma and a number, nothing where it is not finite. */
void draft_add_csv_text(draft *d, const char *s);
void draft_add_csv_number(draft *d, double value);
/* The text, malloc'd, or NULL where memory ran out; the draft is empty afterwards. */
char *draft_take(draft *d);
/* Replaces directory/name by the text, atomically, and frees the draft. */
status draft_write(draft *d, const char *directory, const char *name, alibi_error *error);
/* The same with a tree, which stays the caller's. */
status node_write_in(const json_node *root, const char *directory, const char *name, alibi_error *error);

/* Bytes of the UTF-8 character at s (1 to 4), 0 where there is no valid one. */
size_t utf8_length(const char *s, size_t left);
size_t utf8_columns(const char *s); /* code points */

/* The shortest decimal form that reads back as the same double; "" where it is not finite. */
void number_exact(double value, char *text, size_t size);
/* Two decimals, none from 1000 on; "nan" and "inf" as such. */
void number_short(double value, char *text, size_t size);
/* 1234567 as "1 234 567", with no-break spaces. */
void number_grouped(double value, char *text, size_t size);

/* A tick of an axis: "40", "1.5", "2e6". */
void number_tick(double value, char *text, size_t size);

/* One line of a picture, one row of a table. */
typedef struct series {
  const method_result *method;
  const curve *curve;
  const char *colour;                    /* "#0072B2"; the same for a method and its extensions */
  int dash;                              /* 0 solid; 1, 2, 3 ... the method's other lines */
  int round;                             /* how many methods before it had this colour */
  bool main_method;                      /* alibi as trained for the study: drawn heaviest */
  char label[2 * RESULT_NAME_SIZE + 64]; /* "RoPE + NTK", "sinusoidal, trained at 256" */
  char plain[2 * RESULT_NAME_SIZE + 64]; /* as on the command line: "rope+ntk", "sinusoidal@256" */
} series;

/* The same for a method without regard to a protocol.  extend: "" or the extension. */
const char *method_colour(const study_results *results, const char *name, int *round); /* round may be NULL */
void method_label(const study_results *results, const method_result *m, const char *extend, char *label,
                  size_t size);

/* Every curve of a protocol, in the order of results, malloc'd.  *count 0 and NULL where there is none; NULL
 * with *count > 0 where memory is out. */
series *series_list(const study_results *results, const char *protocol, size_t *count);

/* The protocols that were measured: sliding, fixed-target, nonoverlapping first where present, then others.
 * Borrowed names; at most `most`. */
size_t protocol_list(const study_results *results, const char **names, size_t most);
const char *protocol_title(const char *protocol);   /* "Sliding window" */
const char *protocol_meaning(const char *protocol); /* one plain sentence, or "" */

/* Every length of a protocol, ascending, malloc'd; same conventions as series_list. */
int64_t *length_list(const study_results *results, const char *protocol, size_t *count);

bool point_measured(const curve_point *p); /* there is a finite perplexity */
/* Longest measured length before the first that could not be done; 0: all done or none measured.  *why: the
 * sentence of that length, NULL where all were done. */
int64_t curve_end(const curve *c, const char **why);
/* Lowest and highest perplexity; false where nothing was measured. */
bool series_range(const series *lines, size_t count, double *low, double *high);

/* Round numbers inside [low, high] of a logarithmic axis, about five to nine of them; at most `most`. */
size_t axis_ticks(double low, double high, double *ticks, size_t most);
/* Opens [low, high] a little on both sides, in logarithms. */
void axis_open(double *low, double *high);

/* A small line chart as SVG, in the colours of the page around it. */
typedef struct chart_line {
  const char *label, *colour;
  int dash;
  double thickness;
  const double *x, *y; /* NaN in y: a gap */
  size_t count;
} chart_line;

typedef struct chart {
  const char *title, *x_title, *y_title;
  bool log_x; /* y is always logarithmic */
  const double *x_ticks;
  size_t x_tick_count;
  double mark; /* a dashed vertical line with "trained here"; NaN: none */
  const chart_line *lines;
  size_t count;
} chart;

void draft_chart(draft *d, const chart *c);

#endif
