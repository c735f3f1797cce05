/* evaluate/task_questions.h - questions of several choices, from a file of JSON lines:
 * {"context": "Two and two is", "choices": [" four", " five"], "answer": 0} */
#ifndef EVALUATE_TASK_QUESTIONS_H
#define EVALUATE_TASK_QUESTIONS_H

#include <stddef.h>

#include "base/error.h"

typedef struct choice_question {
  char *context, **choices;
  size_t count, answer; /* choices: two at least; the right one, from 0 */
  size_t line;          /* from 1 */
} choice_question;

typedef struct choice_questions {
  choice_question *items;
  size_t count, capacity;
} choice_questions;

/* Other keys are passed over, and so are empty lines.  ALIBI_BAD_INPUT names the line, what was expected and what
 * was found. */
status choice_questions_read(const char *path, choice_questions *questions, alibi_error *error);
void choice_questions_free(choice_questions *questions);

#endif
