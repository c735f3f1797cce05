/* train/training_run.h - the loop of a whole training: steps until done, the diary of it, checkpoints,
 * evaluations, samples, an early end.  It prints nothing: who watches is told.
 *
 * In FOLDER it writes
 *   log.jsonl      a line a step, an evaluation, an event (file/training_log.h)
 *   checkpoints/   the last few states (train/checkpoint.h), with what this file keeps beside the trainer's: "run"
 *   best/          with patience: the model of the best evaluation so far
 *   events/        where asked for: the log for TensorBoard
 *
 * All of it is a pure function of the settings and the tokens, times apart: a run that goes on from a checkpoint
 * writes what one that was never stopped would have written. */
#ifndef TRAIN_TRAINING_RUN_H
#define TRAIN_TRAINING_RUN_H

#include "alibi/tokenizer.h"
#include "base/field.h"
#include "file/json.h"
#include "file/training_log.h"
#include "train/checkpoint.h"

typedef struct run_settings {
  int64_t checkpoint_every;  /* steps; 0: by time alone */
  double checkpoint_minutes; /* 0: by steps alone */
  int64_t keep_checkpoints;
  int64_t evaluate_every; /* steps; 0: never */
  int64_t evaluate_tokens;
  int64_t patience;     /* evaluations without improvement after which the training ends; 0: never */
  int64_t sample_every; /* steps; 0: never */
  int64_t sample_tokens;
  double sample_temperature;
  bool events;
} run_settings;

field_table run_setting_fields(void);

/* Who watches.  Each may be NULL; the sentences have no full stop. */
typedef struct run_watch {
  void (*step)(void *user, const training_step *step);
  void (*note)(void *user, const char *sentence); /* worth a line */
  void (*warn)(void *user, const char *sentence); /* something failed that the training can do without */
  void *user;
} run_watch;

enum { RUN_LENGTHS = 16, RUN_CURVE = 1000 };

typedef struct run_task {
  alibi_context *context;
  const char *folder;
  run_settings settings;
  int64_t lengths[RUN_LENGTHS]; /* of evaluations; patience goes by the first */
  size_t length_count;
  const char *prompt; /* of samples */
  const alibi_tokenizer *tokenizer;
  const uint32_t *valid; /* tokens that are held out, for evaluations */
  size_t valid_count;
  double peak; /* multiply-adds a second times two that the machine can do; 0: unknown */
  /* What the caller needs to go on from a checkpoint: kept in each one, as run.settings; borrowed. */
  const json_node *settings_record;
  run_watch watch;
} run_task;

/* What has become of it; also what a checkpoint must know.  Zero at the start. */
typedef struct run_state {
  int64_t steps, tokens; /* done */
  double seconds;        /* that steps took */
  int64_t stride;        /* of the curve: a point is the mean of so many steps */
  double losses[RUN_CURVE];
  double first_loss, recent;   /* of the first step; running mean */
  int64_t evaluated, sampled;  /* steps after which that was done last */
  int64_t best_step, failures; /* of patience: evaluations since the best */
  double best_loss;
  bool stopped_early, has_best; /* by patience; best/ holds a model */
  int64_t saved;                /* step of the last good checkpoint; 0: none */
} run_state;

/* Where several ranks train, all make this call: rank 0 writes the files, evaluates, samples and speaks to its
 * watch, the others follow, and all return what became of it.
 *
 * Runs the trainer to its last step.  state: zeroed, or as run_state_read gave it for a trainer from a checkpoint.
 * When it is cancelled (ALIBI_CANCELLED) a checkpoint of the steps done is saved first.  A checkpoint that cannot
 * be saved is a warning while the training runs.  Where the loss is not finite, the sentence also says which
 * checkpoint is left. */
status training_run(alibi_trainer *trainer, const run_task *task, run_state *state, alibi_error *error);

/* From the record of a checkpoint. */
status run_state_read(const json_node *run, const char *what, run_state *state, alibi_error *error);

/* FOLDER/checkpoints; free() it, NULL when memory is out. */
char *run_checkpoints(const char *folder);

/* Operations of a step's matrix products: 6 for each weight that multiplies and token, and those of attention,
 * which sees half of the sequence on average. */
double run_step_operations(const alibi_model *model, double tokens, double length);

#endif
