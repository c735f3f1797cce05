/* cli/eval_request.h - what `alibi eval` was asked for, read from its command line. */
#ifndef CLI_EVAL_REQUEST_H
#define CLI_EVAL_REQUEST_H

#include "alibi/evaluate.h"
#include "cli/command.h"

enum { EVAL_MOST_LENGTHS = 64, EVAL_DEFAULT_LENGTHS = 5 };

typedef struct eval_options {
  int64_t stride, max_targets, early; /* stride, early: 0 where not given */
  double fail_above;                  /* 0: not given */
  bool documents, words, per_position, resume, json;
} eval_options;

/* Texts are borrowed from the command line. */
typedef struct eval_request {
  eval_options options;
  const char *const *models;
  size_t model_count;
  text_values texts, extend;
  const char *beyond, *protocol_list, *length_list; /* as typed; length_list: NULL */
  const char *out, *per_token;                      /* NULL: not given */
  const char *beginning_text;                       /* as typed */
  int64_t beginning;                                /* id of the token that begins every window; -1: none */
  const char *const *variants; /* extensions that every model is run with; "none": as trained */
  const char *variant_option;  /* that names them: "--extend" */
  size_t variant_count;
  bool protocols[ALIBI_PROTOCOL_COUNT];
  int64_t lengths[EVAL_MOST_LENGTHS]; /* in the order asked for */
  size_t length_count;                /* 0: by the first model's training */
} eval_request;

/* Adds the options, whose values go into *request. */
void eval_request_add(command_line *line, eval_request *request);

/* Everything that can be checked without a file. */
status eval_request_read(const command_line *line, eval_request *request, alibi_error *error);

/* A sentence of the library about one of its options, for somebody who typed ours. */
void eval_request_say(alibi_error *error);

#endif
