/* Prompts being written.  Answers are kept as places among the tokens until the prompt ends, when the window that
 * scores from the first of them to the last is known. */
#include "evaluate/task_prompt.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"

uint64_t task_below(task_random *r, uint64_t bound)
{
  return random_below(r->seed, r->stream, r->next++, bound);
}

double task_uniform(task_random *r)
{
  return random_uniform(r->seed, r->stream, r->next++);
}

uint64_t task_bits(task_random *r)
{
  return random_bits(r->seed, r->stream, r->next++);
}

size_t task_another(task_random *r, size_t bound, const size_t *taken, size_t count)
{
  for (;;) {
    size_t index = (size_t)task_below(r, bound), seen = 0;
    while (seen < count && taken[seen] != index) seen++;
    if (seen == count) return index;
  }
}

void task_shuffle(task_random *r, size_t *items, size_t count, size_t first)
{
  for (size_t i = 0; i < first; i++) {
    size_t other = i + (size_t)task_below(r, count - i), kept = items[other];
    items[other] = items[i];
    items[i] = kept;
  }
}

/* Few of many are drawn one by one, so that they need no list of all. */
status task_choose(task_random *r, size_t bound, size_t *indices, size_t count, alibi_error *error)
{
  enum { FEW = 1024, MANY = 16 };
  size_t *all = NULL;
  assert(count <= bound);
  if (count <= FEW && bound / MANY >= count) {
    for (size_t i = 0; i < count; i++) indices[i] = task_another(r, bound, indices, i);
    return ALIBI_OK;
  }
  status result = memory_new(&all, bound, sizeof *all, "a random choice", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < bound; i++) all[i] = i;
  task_shuffle(r, all, bound, count);
  if (count > 0) memcpy(indices, all, count * sizeof *all);
  memory_free(all);
  return ALIBI_OK;
}

status id_list_add(id_list *list, const uint32_t *ids, size_t count, alibi_error *error)
{
  status result = memory_grow(&list->ids, &list->capacity, size_add(list->count, count), sizeof *list->ids,
                              "the tokens of prompts", error);
  if (result != ALIBI_OK || count == 0) return result;
  memcpy(list->ids + list->count, ids, count * sizeof *ids);
  list->count += count;
  return ALIBI_OK;
}

status id_list_add_text(id_list *list, const alibi_tokenizer *tokenizer, const char *text, alibi_error *error)
{
  uint32_t *ids = NULL;
  size_t count;
  status result = alibi_tokenizer_encode(tokenizer, text, strlen(text), &ids, &count, error);
  if (result == ALIBI_OK) result = id_list_add(list, ids, count, error);
  alibi_tokens_free(ids);
  return result;
}

void id_list_free(id_list *list)
{
  free(list->ids);
  *list = (id_list){0};
}

void prompts_begin(task_prompts *p)
{
  p->start = p->tokens.count;
  p->first_answer = p->answer_count;
}

size_t prompts_length(const task_prompts *p)
{
  return p->tokens.count - p->start;
}

status prompts_add(task_prompts *p, const uint32_t *ids, size_t count, alibi_error *error)
{
  return id_list_add(&p->tokens, ids, count, error);
}

status prompts_add_answer(task_prompts *p, const uint32_t *ids, size_t count, double depth, alibi_error *error)
{
  assert(prompts_length(p) > 0 && count > 0);
  status result = memory_grow(&p->answers, &p->answer_capacity, p->answer_count + 1, sizeof *p->answers,
                              "the answers of prompts", error);
  if (result != ALIBI_OK) return result;
  p->answers[p->answer_count++] = (task_answer){.target = p->tokens.count, .count = count, .depth = depth};
  return id_list_add(&p->tokens, ids, count, error);
}

status prompts_end(task_prompts *p, alibi_error *error)
{
  size_t first = p->start + 1, last = p->tokens.count;
  assert(prompts_length(p) >= 2);
  if (p->answer_count > p->first_answer) {
    first = p->answers[p->first_answer].target;
    last = p->answers[p->answer_count - 1].target + p->answers[p->answer_count - 1].count;
  }
  for (size_t i = p->first_answer; i < p->answer_count; i++)
    p->answers[i].target = p->plan.targets + p->answers[i].target - first;
  return plan_add(
      &p->plan,
      (plan_window){
          .start = p->start, .inputs = last - 1 - p->start, .first = first - 1 - p->start, .count = last - first},
      error);
}

void prompts_clear(task_prompts *p)
{
  p->tokens.count = p->answer_count = 0;
  p->plan = (plan){.windows = p->plan.windows, .capacity = p->plan.capacity};
  prompts_begin(p);
}

void prompts_free(task_prompts *p)
{
  id_list_free(&p->tokens);
  plan_free(&p->plan);
  free(p->answers);
  *p = (task_prompts){0};
}
