/* file/training_log.h - log.jsonl, the diary of a training: one JSON object a line.  docs/watching.md says what
 * the keys mean to a user.  Three kinds of lines:
 *
 *   a step        {"step":1,"loss":6.93,"gradient_norm":1.2,...}: the keys of training_step_fields
 *   an evaluation {"step":100,"evaluation":[{"length":128,"loss":3.1,"perplexity":22.2},...]}
 *   an event      {"step":57,"event":"spike","text":"..."}
 *
 * A number that is not finite is null.  Lines are written whole and in the order of what happened, so whoever
 * reads while the training runs sees at most one unfinished line, the last. */
#ifndef FILE_TRAINING_LOG_H
#define FILE_TRAINING_LOG_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/field.h"

/* After step `step` (the first is 1).  A number that is not known is NaN; an integer 0. */
typedef struct training_step {
  int64_t step;
  double loss;          /* nats a token, mean over the step's targets */
  double gradient_norm; /* before clipping */
  double learning_rate;
  int64_t tokens;           /* of this step, over all ranks */
  int64_t tokens_done;      /* with this step */
  int64_t length;           /* tokens a sequence */
  double tokens_per_second; /* of this step */
  double share_of_peak;     /* of the measured fused multiply-add peak: 0.55 */
  double seconds;           /* of this step */
} training_step;

typedef struct training_evaluation {
  int64_t step, length;
  double loss, perplexity;
} training_evaluation;

/* The training went on from its state after `step`; what the log says of later steps before this line is void. */
#define TRAINING_RESUMED "resumed"

typedef struct training_event {
  int64_t step;
  char name[32]; /* TRAINING_RESUMED, "spike", "sample", "early_stop", "checkpoint_failed", "stopped" */
  char *text;    /* a sentence, or "" */
} training_event;

/* The one table of the keys of a step, in the order of the file. */
field_table training_step_fields(void);

/* ---- writing ---- */

typedef struct training_log_writer {
  char *path;
  FILE *stream; /* NULL after a failed write: the next one repairs the file first */
} training_log_writer;

/* last < 0: begins anew.  Else goes on after step `last` of the log that may be there: lines of later steps, an
 * unfinished one and those that are no JSON go, all others stay to the byte. */
status training_log_begin(const char *path, int64_t last, training_log_writer *writer, alibi_error *error);
/* Each writes one line and flushes it.  A failure (a full disk) loses that line and no other: a training may say
 * so and go on.  A step allocates nothing. */
status training_log_step(training_log_writer *writer, const training_step *step, alibi_error *error);
/* Of one step: the list's own numbers of it are not read. */
status training_log_evaluation(training_log_writer *writer, int64_t step, const training_evaluation *list,
                               size_t count, alibi_error *error);
status training_log_event(training_log_writer *writer, int64_t step, const char *name, const char *text,
                          alibi_error *error); /* text may be NULL */
/* Closes it; fine for a zeroed one. */
void training_log_end(training_log_writer *writer);

/* ---- reading ---- */

typedef struct training_log {
  training_step *steps; /* ascending, each once */
  size_t step_count;
  training_evaluation *evaluations; /* ascending by step */
  size_t evaluation_count;
  training_event *events; /* as they came, no two the same */
  size_t event_count;
  /* Of no use to a reader: where memory grows, the latest step of an event. */
  size_t step_room, evaluation_room, event_room;
  int64_t latest_event;
} training_log;

/* Reads what is there, also while it is written: an unfinished last line is none.  Where the log jumps back (a
 * training that was resumed) the later lines count; events are history and stay.  Keys and kinds of lines that are
 * not known are passed over.  A line that is no JSON object, has no step, or holds what is no number for a key
 * that is one: ALIBI_BAD_INPUT with "FILE: line N: ...". */
status training_log_read(const char *path, training_log *log, alibi_error *error);
void training_log_free(training_log *log); /* what it holds, not the struct */

#endif
