/* cli/eval_subject.h - what is evaluated: the texts, and the models that read them, each with its own tokens. */
#ifndef CLI_EVAL_SUBJECT_H
#define CLI_EVAL_SUBJECT_H

#include "alibi/tokenizer.h"
#include "cli/eval_request.h"
#include "report/evaluation_results.h"

typedef struct eval_model {
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  uint64_t fingerprint;  /* of the tokenizer */
  uint32_t *tokens;      /* of all documents, one after another */
  uint32_t *token_bytes; /* [vocabulary] */
  uint16_t *words;       /* [count], with --words: how many begin in this token */
  size_t *documents;     /* where each begins */
  size_t count, longest; /* tokens; of the longest document */
  alibi_evaluation *evaluation;
} eval_model;

typedef struct eval_subject {
  const eval_request *request;
  eval_model *models; /* as in results.models */
  size_t *texts;      /* of each document: its place in results.texts; empty texts are no documents */
  size_t document_count;
  char **line_errors; /* of each of results.lines: why the model has no such extension; NULL: it has */
  int64_t lengths[EVAL_MOST_LENGTHS];
  size_t length_count;
  evaluation_results results;
} eval_subject;

/* Opens everything, says what is odd about the texts, decides on lines and lengths. */
status eval_subject_open(alibi_context *context, const eval_request *request, eval_subject *subject,
                         alibi_error *error);
void eval_subject_free(eval_subject *subject);

#endif
