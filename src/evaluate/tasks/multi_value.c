/* Needles of several values (needles.h). */
#include "evaluate/tasks/needles.h"

static const field fields[] = {NEEDLE_FIELDS, NEEDLE_COUNT(values, 4, "values of the key, all of them asked for")};

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  return needles_make(r->options, r, prompts, error);
}

const evaluation_task task_multi_value = {
    .name = "multi-value",
    .title = "Needles of several values",
    .about = "all special magic numbers of one key",
    .source = "RULER (niah_multivalue), Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT,
    .depths = true,
    .spreads = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(needle_options),
    .needs_text = needles_need_text,
    .make = make,
};
