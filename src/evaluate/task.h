/* evaluate/task.h - the seam of evaluation tasks: one const row each, one file each (tasks/<name>.c), one name in
 * tasks/CMakeLists.txt.
 *
 * A task writes prompts: token ids, some of which are its answer.  All prompts of a length run as windows of a
 * plan (evaluate/plan.h); a token of the answer is hit where it is the most probable one after the tokens before
 * it, so an answer whose tokens are all hit is what greedy decoding would have written there; of several answers
 * each comes after the right ones before it.  Out comes a table of lengths against depths.  A task that measures
 * something else brings a `run` of its own.
 *
 * A prompt is a pure function of (task, its options, material, seed, length, depth, trial). */
#ifndef EVALUATE_TASK_H
#define EVALUATE_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/model.h"
#include "alibi/tokenizer.h"
#include "base/error.h"
#include "base/field.h"
#include "evaluate/statistics.h"
#include "evaluate/task_prompt.h"
#include "evaluate/task_words.h"
#include "model/config.h"

enum { TASK_OPTIONS_SIZE = 256, TASK_MEASURES = 6, TASK_SENTENCE_SIZE = 1024 };

/* What a task has to be given. */
typedef enum task_need {
  TASK_NEEDS_TOKENIZER = 1,
  TASK_NEEDS_TEXT = 2, /* ids of a text, at least as many as the longest length */
  TASK_NEEDS_QUESTIONS = 4,
  TASK_TAKES_TEXT = 8, /* needs none, but makes something of it */
  TASK_TAKES_EVALUATOR = 16
} task_need;

/* What prompts are made of.  Borrowed. */
typedef struct task_material {
  const alibi_tokenizer *tokenizer; /* NULL: ids alone */
  uint32_t vocabulary;              /* of the model */
  int64_t train_length;             /* of the model */
  const uint32_t *text;             /* the user's; NULL: none */
  size_t text_count;
  const word_list *words; /* of that text, or made ones (evaluate/task_words.h) */
  const struct choice_questions *questions;
  alibi_model *evaluator; /* NULL: the model itself */
} task_material;

/* One prompt that is wanted. */
typedef struct task_request {
  alibi_context *context; /* whose cancelling ends long work; NULL: nothing does */
  const task_material *material;
  const void *options; /* the task's own */
  size_t length;       /* tokens, the answer's among them */
  double depth;        /* 0: the beginning, 1: right before the question; where the task has depths */
  task_random random;
} task_request;

typedef struct task_cell {
  int64_t answers, exact; /* exact: all tokens hit */
  int64_t tokens, hits;   /* of the answers */
  double nll;             /* sum over these tokens, nats */
  block_sums prompts;     /* what the accuracy counts: right ones, and of how many; a block a prompt */
} task_cell;

typedef struct task_measure {
  double value, standard_error; /* NaN: unknown */
} task_measure;

typedef struct task_row {
  int64_t length;
  char why[TASK_SENTENCE_SIZE]; /* not done: a sentence, and the numbers are 0 */
  task_cell all;
  task_cell *cells;                     /* [columns] */
  task_measure measures[TASK_MEASURES]; /* of a task with such */
  int64_t inputs;                       /* tokens read */
  double seconds;
} task_row;

typedef struct task_settings {
  const int64_t *lengths; /* [length_count]; a task with its own length: none */
  size_t length_count;
  const double *depths; /* [depth_count], each 0 .. 1, ascending */
  size_t depth_count;
  int64_t trials; /* prompts for each cell, or for each length where the prompt chooses the depth */
  uint64_t seed;
  const void *options;         /* the task's own */
  extension_choice *extension; /* NULL: as trained */
  size_t batch_tokens;         /* 0: 512 a thread */
  /* Told on the calling thread, now and then, first with none done and last with all: tokens read so far, of all;
   * may be NULL. */
  void (*progress)(void *user, double done, double total);
  void *user;
} task_settings;

typedef struct task_result {
  size_t columns; /* depths; 0: none */
  task_row *rows; /* one a length */
  size_t count;
} task_result;

typedef struct evaluation_task {
  const char *name;    /* "passkey" */
  const char *title;   /* "Passkey retrieval" */
  const char *about;   /* one line for --help */
  const char *source;  /* paper */
  unsigned needs;      /* task_need, together */
  bool depths;         /* a prompt for each depth */
  bool spreads;        /* a prompt has answers at many depths, each counts in the nearest column */
  bool by_token;       /* accuracy is the share of tokens hit, not of whole answers */
  field_table fields;  /* of its options */
  size_t options_size; /* <= TASK_OPTIONS_SIZE */
  /* May be NULL: does it need a text with these options?  As TASK_NEEDS_TEXT, then. */
  bool (*needs_text)(const void *options);
  /* Writes one prompt of exactly request->length tokens.  ALIBI_INVALID: the length is too short, or the text, or
   * the like. */
  status (*make)(const task_request *request, task_prompts *prompts, alibi_error *error);
  /* Or, in place of make: fills row->measures (named by `measures`, which ends with NULL), at a length or, of a
   * task that chooses its own, at row->length 0. */
  const char *const *measures;
  bool own_length;
  /* settings->progress is told of this row alone. */
  status (*run)(alibi_model *model, const task_material *material, const task_settings *settings, task_row *row,
                alibi_error *error);
  /* May be NULL: one sequence of a training set, `length` ids (alibi data synthetic).  In check_sequence
   * ALIBI_INVALID where there is none of this length over this vocabulary. */
  status (*check_sequence)(const void *options, size_t length, uint32_t vocabulary, alibi_error *error);
  /* context: whose cancelling ends a long one; may be NULL. */
  status (*sequence)(alibi_context *context, const void *options, size_t length, uint32_t vocabulary,
                     task_random random, uint32_t *ids, alibi_error *error);
} evaluation_task;

size_t task_count(void);
const evaluation_task *task_at(size_t index);
const evaluation_task *task_find(const char *name);
/* "passkey, needle, ..."; trainable: those of which there are training sets. */
void task_names(bool trainable, char *text, size_t size);

bool task_needs_text(const evaluation_task *task, const void *options);
/* Of the settings and the material, before any model runs: ALIBI_INVALID. */
status task_check(const evaluation_task *task, const task_material *material, const task_settings *settings,
                  alibi_error *error);

/* Runs all lengths.  One that the model or the task cannot do is a row that says why; ALIBI_CANCELLED between
 * batches. */
status task_run(alibi_model *model, const evaluation_task *task, const task_material *material,
                const task_settings *settings, task_result *result, alibi_error *error);
/* All lengths are rows that say why. */
status task_refuse(const evaluation_task *task, const task_settings *settings, const char *why,
                   task_result *result, alibi_error *error);
void task_result_free(task_result *result);

/* Of what is written for long: ALIBI_CANCELLED.  task_check_draws: at each `done` that 1000000 divides. */
status task_check_cancel(const task_request *request, alibi_error *error);
status task_check_draws(alibi_context *context, size_t done, alibi_error *error);

/* For the engine. */
size_t task_batch_tokens(const alibi_model *model, const task_settings *settings);

/* The random numbers of a prompt. */
task_random task_random_of(const evaluation_task *task, uint64_t seed, size_t length, size_t depth,
                           uint64_t trial);

/* Share of the cell's answers (or, by_token, tokens) that are right; NaN without answers. */
double task_accuracy(const evaluation_task *task, const task_cell *cell);
/* Its standard error.  Answers of one prompt are right or wrong together, so prompts are what varies
 * (evaluate/statistics.h); NaN with fewer than two. */
double task_accuracy_error(const task_cell *cell);
/* The longest length up to which every row's accuracy is at least `share`; 0: none. */
int64_t task_reach(const evaluation_task *task, const task_result *result, double share);

#endif
