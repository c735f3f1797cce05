/* cli/task_subject.h - what `alibi task` is asked for, and a model that it is asked of, with what prompts are made
 * of. */
#ifndef CLI_TASK_SUBJECT_H
#define CLI_TASK_SUBJECT_H

#include "cli/extend_option.h"
#include "cli/task_options.h"
#include "evaluate/task_questions.h"

enum { TASK_LENGTHS = 64, TASK_DEPTHS = 64 };

typedef struct task_wish {
  const evaluation_task *task;
  const char *const *models; /* [model_count] */
  size_t model_count;
  const char *text, *questions, *evaluator, *out; /* NULL: not given */
  extend_option extension;
  int64_t lengths[TASK_LENGTHS];
  double depths[TASK_DEPTHS];
  task_settings settings;
} task_wish;

/* A model, opened; prompts are written for its tokenizer. */
typedef struct task_subject {
  alibi_model *model, *evaluator;
  alibi_tokenizer *tokenizer;
  uint32_t *text;
  size_t text_bytes;
  word_list words;
  choice_questions questions;
  task_material material;
  extension_choice choice;
  const char *extend; /* NULL: as trained */
  char *refused;      /* the model has no such extension or policy: a sentence; NULL: it has */
} task_subject;

/* What is wrong with what was asked for or with a file is an error; an extension or policy that the model has not
 * is none. */
status task_subject_open(alibi_context *context, const char *path, const task_wish *wish, task_subject *subject,
                         alibi_error *error);
void task_subject_close(task_subject *subject);

#endif
