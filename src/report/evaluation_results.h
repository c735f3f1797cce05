/* report/evaluation_results.h - what an evaluation found, as plain data: the one description from which `alibi
 * eval` makes its table, results.json, results.csv, the picture and report.html.  docs/evaluation.md is the user's
 * page. */
#ifndef REPORT_EVALUATION_RESULTS_H
#define REPORT_EVALUATION_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "report/results.h"

enum { EVALUATION_SCHEMA = 1 };

/* A file, one document.  Of no bytes: it was left out. */
typedef struct evaluation_text {
  char *path;
  int64_t bytes;
  int64_t invalid_bytes; /* that are no UTF-8; evaluated as they are */
} evaluation_text;

typedef struct evaluated_model {
  char *name; /* what tells it from the others: the last part of its path where that does */
  char *path;
  char *position;
  char *extension; /* of its own; NULL: none */
  char *tokenizer;
  int64_t train_length, parameters, vocabulary;
  int64_t tokens;   /* of all texts */
  bool same_tokens; /* its tokenizer and ids are the first model's: differences are by pairs of tokens */
} evaluated_model;

/* A model as it is run: one line of a picture. */
typedef struct evaluation_line {
  size_t model;
  char *extend; /* NULL: as trained */
  char *label;  /* "m", "m + yarn:factor=4" */
} evaluation_line;

/* A line by a protocol at a length, over all documents or one.  Where it could not be done only `error` says
 * something. */
typedef struct evaluated_row {
  size_t line;
  const char *protocol; /* borrowed: a name that lives for ever */
  int64_t length;
  int64_t document;               /* in texts; -1: all of them pooled */
  char *error;                    /* NULL: measured */
  int64_t stride;                 /* W; S of sliding and streaming; T of fixed-target */
  int64_t tokens, bytes;          /* scored */
  double nll, nll_standard_error; /* nats a token */
  double perplexity, standard_error;
  double bits_per_byte;
  int64_t words;          /* that begin in the scored text; 0: not asked for */
  double word_perplexity; /* exp of all nats over these */
  int64_t early, early_tokens;
  double early_nll, late_nll,
      late_standard_error; /* of tokens predicted from fewer than `early` inputs; of others */
  int64_t
      longest_window; /* inputs of the longest window that was read: below the length where no text fills one */
  int64_t documents;  /* texts that were read */
  double seconds;
  int64_t input_tokens;  /* 0: another row's run served this one too */
  int64_t paired_tokens; /* with the first line's row of the same protocol, length and document; 0: not compared */
  double difference, difference_standard_error; /* nats a token; below 0: better than the first line */
  /* loss against place in the window, where asked for: [length], and the number of full windows */
  double *position_nll, *position_band;
  int64_t position_windows;
} evaluated_row;

typedef struct evaluation_results {
  char *command; /* how to repeat it */
  char *machine;
  double seconds;
  bool by_document, by_word; /* asked for */
  int64_t stride;            /* asked for; 0: a quarter of the length */
  int64_t max_targets;       /* asked for; 0: all */
  bool begins;               /* every window, with the token `beginning` */
  int64_t beginning;
  result_setting *settings;
  size_t setting_count;
  evaluation_text *texts;
  size_t text_count;
  evaluated_model *models;
  size_t model_count;
  evaluation_line *lines;
  size_t line_count;
  evaluated_row *rows; /* by protocol, then length, then line, then document, pooled first */
  size_t row_count;
} evaluation_results;

void evaluation_results_free(evaluation_results *results);

/* The row of the same line or another; document -1: pooled.  NULL where there is none. */
const evaluated_row *evaluation_find(const evaluation_results *results, size_t line, const char *protocol,
                                     int64_t length, int64_t document);

/* The protocols of the rows, in their order; borrowed names, at most `most`. */
size_t evaluation_protocols(const evaluation_results *results, const char **names, size_t most);

/* "better", "worse": the difference is more than two of its standard errors; "equal": there is none, token by
 * token; else "unclear".  NULL: not compared. */
const char *evaluation_verdict(const evaluated_row *row);

/* exp(difference) - 1 and its error, in percent of the first line's perplexity. */
void evaluation_percent(const evaluated_row *row, double *percent, double *error);

/* What a change of the loss by so many nats does to the perplexity, in percent; 0 where it rounds to that. */
double evaluation_change(double nats);

/* What the early token curse does to a nonoverlapping curve: the mean loss at `from` less that at `to`, which is
 * exactly `fewer_early`, what the shares of the two kinds of token at `to` would do to the losses at `from`, +
 * `better_read`, what changed losses do with the shares at `to`.  Long windows have few early tokens, so their
 * loss is known badly; here it weighs as little as they are few. */
typedef struct evaluation_gain {
  const evaluated_row *from, *to;
  double total, fewer_early, better_read; /* nats a token; above 0: better at `to` */
} evaluation_gain;

/* from: the line's row at its trained length, else its shortest.  false where there is no such pair. */
bool evaluation_gain_of(const evaluation_results *results, const evaluated_row *to, evaluation_gain *gain);

/* One sentence: which line is lowest at the longest length of the fairest protocol that was measured, and whether
 * that is sure.  malloc'd, NULL where memory is out. */
char *evaluation_answer(const evaluation_results *results);

/* The pooled rows as curves: what the pictures are drawn from.  Borrows nothing; release with study_results_free.
 */
status evaluation_curves(const evaluation_results *results, study_results *curves, alibi_error *error);

/* ---- drawings ---- */

/* Text for a terminal; malloc'd, NULL where memory is out. */
char *evaluation_table(const evaluation_results *results);

json_node *evaluation_node(const evaluation_results *results);
status evaluation_write_json(const evaluation_results *results, const char *directory, alibi_error *error);
status evaluation_write_csv(const evaluation_results *results, const char *directory, alibi_error *error);

/* report.html, self-contained, with directory/curves.svg inside where there is one (results_write_pictures). */
status evaluation_write_html(const evaluation_results *results, const study_results *curves, const char *directory,
                             alibi_error *error);

#endif
