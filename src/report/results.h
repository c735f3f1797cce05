/* report/results.h - what a study found, as plain data: the one description from which the table, results.json,
 * results.csv, the pictures and the HTML report are made, and which a method's child process hands to the
 * study as a JSON file. */
#ifndef REPORT_RESULTS_H
#define REPORT_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"

enum { RESULT_NAME_SIZE = 64, RESULT_EXTEND_SIZE = 4096, RESULT_SENTENCE_SIZE = 256 };

/* One measured length.  Where it could not be done, error says why and the numbers are NaN. */
typedef struct curve_point {
  int64_t length;            /* window W, in tokens */
  int64_t stride;            /* tokens scored a window: W, S of sliding, T of fixed-target */
  int64_t tokens;            /* scored targets */
  double nll;                /* mean negative log-likelihood, nats a token */
  double nll_standard_error; /* NaN with fewer than two blocks */
  double perplexity;         /* exp(nll) */
  double standard_error;     /* of the perplexity */
  double bits_per_byte;
  char error[RESULT_SENTENCE_SIZE]; /* "" where measured */
} curve_point;

typedef struct curve {
  char protocol[RESULT_NAME_SIZE]; /* "nonoverlapping", "sliding", "fixed-target" */
  char extend[RESULT_EXTEND_SIZE]; /* "" or "linear", "ntk", "yarn:factor=4" */
  curve_point *points;
  size_t count;
} curve;

typedef struct method_result {
  char name[RESULT_NAME_SIZE]; /* method: "alibi" */
  char role[RESULT_NAME_SIZE]; /* "method", or "rival" for --rival-length */
  int64_t train_length, parameters, steps, train_tokens;
  double train_seconds; /* wall time of its training */
  double train_cpu_seconds;
  double train_tokens_per_second; /* measured alone on the machine */
  double evaluate_tokens_per_second;
  double final_loss; /* nats, mean over the last tenth of the steps */
  int64_t peak_memory_bytes;
  double *losses; /* one per `loss_every` steps */
  size_t loss_count;
  int64_t loss_every;
  curve *curves;
  size_t curve_count;
} method_result;

/* A line of the page "every setting": ("learning_rate", "0.006"). */
typedef struct result_setting {
  char *name, *value;
} result_setting;

typedef struct study_results {
  char *question;     /* one sentence, made by study/ */
  char *answer;       /* one sentence, made by study/ from the numbers */
  char *rival_answer; /* with --rival-length; else NULL */
  char *next_command; /* suggested second command; or NULL */
  char *command;      /* how to repeat it: the whole command line */
  char *text;         /* which texts, how large, how split: one sentence */
  char *machine;      /* processor, threads, instruction set, version of alibi */
  double seconds;     /* wall time of the study */
  int64_t train_length;
  result_setting *settings;
  size_t setting_count;
  method_result *methods; /* in the order of the command line; unfinished ones are absent */
  size_t method_count;
} study_results;

void method_result_free(method_result *method); /* what it holds, not the struct */
void study_results_free(study_results *results);

const curve *method_find_curve(const method_result *method, const char *protocol, const char *extend);
const curve_point *curve_find_point(const curve *c, int64_t length);

/* Names as people write them where that is not how the command line does ("ALiBi"); every other name as it is. */
const char *results_spelling(const char *name);

/* JSON.  method_result_read refuses what method_result_node would not have written. */
json_node *method_result_node(const method_result *method);
status method_result_read(const json_node *node, const char *what, method_result *method, alibi_error *error);
json_node *study_results_node(const study_results *results);

/* Drawings; each writes atomically.  directory: where results.json, curves.svg ... go. */
status results_write_json(const study_results *results, const char *directory, alibi_error *error);
status results_write_csv(const study_results *results, const char *directory, alibi_error *error);

/* curves.dat and curves.gp beside curves.svg and curves.png, made by running gnuplot.  Without gnuplot: ALIBI_OK,
 * *made false, the script and data are there, and older pictures are removed, because they show other numbers.
 * A gnuplot that fails to draw the SVG is an error that holds its first line. */
status results_write_pictures(const study_results *results, const char *directory, bool *made, alibi_error *error);

/* report.html, self-contained: curves.svg is put into the page, so draw it first; without one the page draws its
 * curves itself. */
status results_write_html(const study_results *results, const char *directory, alibi_error *error);

/* Text for a terminal of `columns` columns (0: 80): the table (one row a method and extension, one column a
 * length, for one protocol) and a plot in characters.  malloc'd, NULL when memory is out. */
char *results_table(const study_results *results, const char *protocol, int columns);
/* Speed, extra time and memory of every method, one row each; malloc'd, NULL when memory is out. */
char *results_costs(const study_results *results);
double results_fastest(const study_results *results); /* training tokens a second */
char *results_plot(const study_results *results, const char *protocol, int columns, bool utf8);

#endif
