/* cli/train_command.h - the parts of `alibi train`: what a training is (cmd_train.c makes it), its plan before the
 * start (train_plan.c), and what is written at its end (train_record.c). */
#ifndef CLI_TRAIN_COMMAND_H
#define CLI_TRAIN_COMMAND_H

#include "alibi/evaluate.h"
#include "cli/command.h"
#include "train/train_data.h"
#include "train/training_run.h"

/* Options that decide nothing of the outcome: where it goes, who computes, what is said. */
#define TRAIN_NO_SETTINGS                                                                                         \
  "out", "write_config", "threads", "quiet", "resume", "overwrite", "dry_run", "json", "ranks", "sequence_ranks"

typedef struct training {
  const command_line *line;
  const char *out, *from_path, *valid_path;
  double held_out;
  alibi_context *context;
  train_data data;
  alibi_model *from; /* --from, until the trainer has its weights */
  alibi_model_config config;
  alibi_train_options options;
  alibi_trainer *trainer;
  alibi_model *best;   /* with --patience, where it is not the trainer's */
  json_node *settings; /* as a file of settings, for going on */
  run_task task;
  run_state state;
  alibi_evaluate_result test; /* size 0: not tested */
} training;

/* What a training goes on from. */
typedef struct going_on {
  char *path; /* of the checkpoint; NULL: the training begins */
  checkpoint_about about;
  int damaged;   /* checkpoints that are not whole */
  bool finished; /* DIR holds the model that would come of it */
} going_on;

/* ---- train_resume.c ---- */

/* The newest checkpoint that is whole, if there is one; its settings go where they were not typed, and must agree
 * where they were. */
status train_go_on(command_line *line, const char *out, going_on *g, alibi_error *error);
/* An unfinished training is not lost by a command that forgot --resume. */
status train_check_unfinished(const char *out, alibi_error *error);

/* The model that is the result. */
alibi_model *training_model(const training *t);

/* ---- train_plan.c ---- */

/* ALIBI_FAILED where the machine has not the memory, with numbers. */
status train_plan_check(const training *t, alibi_error *error);
/* To stdout: sizes, memory, and the time that a short measurement foretells. */
status train_plan_print(const training *t, bool json, alibi_error *error);

/* ---- train_record.c ---- */

/* The model, its tokenizer and train.json into DIR; they are complete beside it before the first of the old files
 * is replaced. */
status train_write_model(const training *t, alibi_error *error);
/* train.json alone. */
status train_write_record(const training *t, alibi_error *error);

#endif
