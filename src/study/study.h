/* study/study.h - the main job: train every position method short, test it long, and say what came out.
 *
 * A study is a plan (study.json), a corpus (tokenizer.json and two files of token ids) and a directory per entry
 * (a method at a training length) with its model and its result.  Each entry is trained and evaluated in a child
 * process of its own, so that its peak memory is its own and a study that was interrupted goes on with the entries
 * not yet done. */
#ifndef STUDY_STUDY_H
#define STUDY_STUDY_H

#include "alibi/model.h"
#include "alibi/train.h"
#include "base/field.h"
#include "report/results.h"

typedef struct study_settings {
  bool bytes;            /* tokens are bytes */
  int64_t vocabulary;    /* of the BPE otherwise */
  double held_out;       /* share at the end of each text */
  double minutes;        /* plan the steps from a short measurement; 0: train.steps */
  int64_t max_targets;   /* scored tokens a cell, nonoverlapping and sliding; at least the longest window */
  int64_t fixed_targets; /* the same, fixed-target: a window scores few, so these cost most */
  int64_t rival_length;  /* 0: no rival */
  int64_t jobs;          /* methods trained side by side; 0: one per processor */
} study_settings;

field_table study_fields(void);

/* What watches a study; any function may be NULL.  Items are numbered from 0. */
typedef struct study_observer {
  void *user;
  void (*begin)(void *user, int item, const char *what, double total, const char *unit);
  void (*update)(void *user, int item, double done, const char *detail);
  void (*end)(void *user, int item, const char *summary);
  void (*note)(void *user, const char *sentence);
} study_observer;

/* What the user asked for.  Lists are words between commas; NULL: the default. */
typedef struct study_request {
  study_settings settings;
  alibi_model_config model;   /* its position method is ignored */
  const void *const *options; /* per row of the registry of methods: its settings */
  alibi_train_options train;
  bool steps_given;
  const char *methods;       /* "none,learned,sinusoidal,rope,t5,alibi", "all" */
  const char *extend;        /* "ntk,yarn:factor=4,beta_fast=16"; "none", "all" */
  const char *beyond;        /* "clamp", "wrap": one more extension, of absolute methods; NULL: none */
  const char *train_lengths; /* "64" */
  const char *test_lengths;  /* 1, 2, 4, 8, 16 times the shortest training length */
  const char *protocols;     /* "fixed-target,sliding,nonoverlapping" */
  const char *rival;         /* method of --rival-length: "sinusoidal" */
  const char *const *texts;
  size_t text_count;
  const char *valid; /* NULL: the end of each text is held out */
  const char *directory;
  const char *command; /* the command line, for the report */
  bool resume, overwrite;
  int threads; /* 0: all processors */
  study_observer observer;
} study_request;

/* Is the method one of this list, by itself or in a set? */
bool study_uses(const char *methods, const char *method);

/* Runs the study and writes the report into the directory.  On ALIBI_CANCELLED the report holds what was finished.
 * results: the caller's to free, also on a failure after which it holds something. */
status study_run(alibi_context *context, const study_request *request, study_results *results, alibi_error *error);

/* The child's part: mode "speed", or the label of an entry.  Progress goes to descriptor STUDY_REPORT_FD. */
enum { STUDY_REPORT_FD = 3 };
status study_worker(alibi_context *context, const char *directory, const char *mode, alibi_error *error);

#endif
