/* train/checkpoint.h - a trainer on disk: everything that its next steps depend on.
 *
 * A checkpoint is a directory:
 *   config.json, model.safetensors   the model, as alibi_model_open reads it
 *   tokenizer.json                   where the caller has one
 *   optimiser.safetensors            first_moment.NAME, second_moment.NAME for every parameter
 *   state.json                       options, step, spike guard, sources of tokens, the caller's own record, and
 * fingerprints of the other files It is written beside its place and renamed when all of it is on disk: what has
 * the name is whole.  Damage that comes later is found by the fingerprints. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "alibi/tokenizer.h"
#include "file/json.h"
#include "train/trainer.h"

/* What a checkpoint says of itself. */
typedef struct checkpoint_about {
  int64_t step, tokens_done;
  alibi_model_config config;
  alibi_train_options options;
  json_node *root;      /* state.json */
  const json_node *run; /* the caller's record in it, or NULL */
} checkpoint_about;

/* Where several ranks train, all make this call; rank 0 writes, the same files as one rank would, and all return
 * what became of it.  To go on, every rank reads them, with any number of ranks.
 *
 * tokenizer: NULL or what belongs to the model.  run: the caller's record, taken over (NULL: none). */
status checkpoint_save(const alibi_trainer *trainer, const alibi_tokenizer *tokenizer, json_node *run,
                       const char *directory, alibi_error *error);

/* Reads state.json, and all files against their fingerprints: ALIBI_BAD_INPUT names what is damaged or missing. */
status checkpoint_read(const char *directory, checkpoint_about *about, alibi_error *error);
void checkpoint_about_free(checkpoint_about *about);

/* A trainer as it was when it was saved.  sources and shares as in trainer_new; ALIBI_INVALID where they are not
 * those that it was trained on.  about: as checkpoint_read gave it, so that fingerprints are not taken twice of
 * files as large as the memory. */
status checkpoint_trainer(alibi_context *context, const char *directory, const checkpoint_about *about,
                          const token_source *sources, const double *shares, size_t count, alibi_trainer **trainer,
                          alibi_error *error);
/* Both in one. */
status checkpoint_open(alibi_context *context, const char *directory, const token_source *sources,
                       const double *shares, size_t count, alibi_trainer **trainer, alibi_error *error);

/* ---- the checkpoints of a run: step-00000100, step-00000200, ... in one folder ---- */

/* FOLDER/step-00000100; free() it, NULL when memory is out. */
char *checkpoint_path(const char *folder, int64_t step);

/* The newest one that is whole, read into `about`; *path is NULL where there is none.  damaged(user, sentence) is
 * told of each newer one that is not. */
status checkpoint_newest(const char *folder, void (*damaged)(void *user, const char *sentence), void *user,
                         char **path, checkpoint_about *about, alibi_error *error);

/* Removes all but the newest `keep` and what unfinished saves left. */
status checkpoint_prune(const char *folder, size_t keep, alibi_error *error);

#endif
