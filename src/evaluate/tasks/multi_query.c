/* Needles of several questions (needles.h). */
#include "evaluate/tasks/needles.h"

static const field fields[] = {NEEDLE_FIELDS, NEEDLE_COUNT(queries, 4, "keys, all of them asked for")};

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  return needles_make(r->options, r, prompts, error);
}

const evaluation_task task_multi_query = {
    .name = "multi-query",
    .title = "Needles of several questions",
    .about = "the special magic numbers of several keys",
    .source = "RULER (niah_multiquery), Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT,
    .depths = true,
    .spreads = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(needle_options),
    .needs_text = needles_need_text,
    .make = make,
};
