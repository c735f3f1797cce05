/* study/study_plan.h - everything that decides a study's numbers, fixed before the first step and kept in
 * study.json: what a child process and a resumed study read. */
#ifndef STUDY_STUDY_PLAN_H
#define STUDY_STUDY_PLAN_H

#include "position/extension_text.h"
#include "study/study.h"

enum { STUDY_MAX_LENGTHS = 32, STUDY_MAX_ENTRIES = 64, STUDY_MAX_NAMES = 16, STUDY_LABEL_SIZE = 96 };

/* An extension with all its settings, or the name of a protocol. */
typedef char study_name[EXTENSION_TEXT_SIZE];

typedef struct study_entry {
  char label[STUDY_LABEL_SIZE]; /* "alibi"; "sinusoidal-256" where the length is not the first */
  char role[16];                /* "method", "rival" */
  alibi_model_config model;
  double train_tokens_per_second; /* measured alone; 0: not yet */
} study_entry;

typedef struct study_plan {
  study_settings settings;
  alibi_train_options train; /* with the number of steps */
  study_entry entries[STUDY_MAX_ENTRIES];
  size_t entry_count;
  int64_t lengths[STUDY_MAX_LENGTHS]; /* ascending */
  size_t length_count;
  study_name extensions[STUDY_MAX_NAMES];
  size_t extension_count;
  study_name protocols[STUDY_MAX_NAMES];
  size_t protocol_count;
  int64_t train_tokens, valid_tokens;
  int64_t threads;                            /* of each child */
  int64_t jobs;                               /* children side by side */
  double evaluate_seconds[STUDY_MAX_LENGTHS]; /* a token, measured at each length */
  bool measured;                              /* speeds and steps are final */
  char *text;                                 /* one sentence on the corpus */
  char *command;
} study_plan;

/* Lists, lengths and entries from the request; not yet the corpus. */
status study_plan_make(const study_request *request, study_plan *plan, alibi_error *error);
status study_plan_write(const study_plan *plan, const char *directory, alibi_error *error);
status study_plan_read(const char *directory, study_plan *plan, alibi_error *error);
void study_plan_free(study_plan *plan);

/* Children side by side and threads of each, for `threads` (0: all processors) and jobs asked for; changes no
 * number. */
void study_plan_place(study_plan *plan, int threads);

/* alibi_protocol of a name; -1 where there is none. */
int study_protocol(const char *name);

const study_entry *study_plan_find(const study_plan *plan, const char *label);
/* Tokens that a text must have held out: the longest window and one more. */
int64_t study_plan_longest(const study_plan *plan);

/* DIR/a and DIR/a/b; malloc'd. */
status study_path(const char *directory, const char *a, const char *b, char **path, alibi_error *error);

#endif
