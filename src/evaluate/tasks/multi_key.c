/* Needles of several keys (needles.h). */
#include "evaluate/tasks/needles.h"

static const field fields[] = {NEEDLE_FIELDS, NEEDLE_COUNT(keys, 4, "needles in all, one of which is asked for")};

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  return needles_make(r->options, r, prompts, error);
}

const evaluation_task task_multi_key = {
    .name = "multi-key",
    .title = "Needles of several keys",
    .about = "the same among needles of other keys",
    .source = "RULER (niah_multikey), Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT,
    .depths = true,
    .spreads = false,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(needle_options),
    .needs_text = needles_need_text,
    .make = make,
};
