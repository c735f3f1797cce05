/* evaluate/task_prompt.h - prompts being written: ids in one buffer, the windows that read them, and which of
 * their tokens are answers. */
#ifndef EVALUATE_TASK_PROMPT_H
#define EVALUATE_TASK_PROMPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "evaluate/plan.h"

/* Numbers that are drawn one after another; a copy draws the same ones. */
typedef struct task_random {
  uint64_t seed, stream, next;
} task_random;

uint64_t task_below(task_random *random, uint64_t bound); /* 0 .. bound-1 */
double task_uniform(task_random *random);                 /* [0, 1) */
uint64_t task_bits(task_random *random);
/* 0 .. bound-1, none of taken[0 .. count-1], which leave most of them. */
size_t task_another(task_random *random, size_t bound, const size_t *taken, size_t count);
/* The `first` items are then a random choice of all `count`, in a random order. */
void task_shuffle(task_random *random, size_t *items, size_t count, size_t first);
/* indices[0 .. count-1]: as many different ones of 0 .. bound-1 in a random order; count <= bound. */
status task_choose(task_random *random, size_t bound, size_t *indices, size_t count, alibi_error *error);

/* Ids that grow. */
typedef struct id_list {
  uint32_t *ids;
  size_t count, capacity;
} id_list;

status id_list_add(id_list *list, const uint32_t *ids, size_t count, alibi_error *error);
/* The ids of a text that stands by itself. */
status id_list_add_text(id_list *list, const alibi_tokenizer *tokenizer, const char *text, alibi_error *error);
void id_list_free(id_list *list);

typedef struct task_answer {
  size_t target, count; /* targets of the plan */
  double depth;         /* where what is asked for lies */
} task_answer;

typedef struct task_prompts {
  id_list tokens;
  plan plan;
  task_answer *answers;
  size_t answer_count, answer_capacity;
  /* the prompt that is being written */
  size_t start, first_answer;
} task_prompts;

/* begin -> (ids, or answers between them) ... -> end.  The first token is never one of an answer. */
void prompts_begin(task_prompts *prompts);
status prompts_add(task_prompts *prompts, const uint32_t *ids, size_t count, alibi_error *error);
status prompts_add_answer(task_prompts *prompts, const uint32_t *ids, size_t count, double depth,
                          alibi_error *error);
/* Without an answer the prompt is scored from its second token on. */
status prompts_end(task_prompts *prompts, alibi_error *error);
size_t prompts_length(const task_prompts *prompts); /* tokens of the one that is being written */
void prompts_clear(task_prompts *prompts);          /* keeps the memory */
void prompts_free(task_prompts *prompts);

#endif
