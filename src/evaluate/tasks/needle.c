/* Needle in a haystack (needles.h). */
#include "evaluate/tasks/needles.h"

static const field fields[] = {NEEDLE_FIELDS};

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  return needles_make(r->options, r, prompts, error);
}

const evaluation_task task_needle = {
    .name = "needle",
    .title = "Needle in a haystack",
    .about = "a special magic number at each depth of the user's text",
    .source = "Kamradt 2023; RULER's single needle, Hsieh et al. 2024, arXiv 2404.06654",
    .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT,
    .depths = true,
    .spreads = false,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(needle_options),
    .needs_text = needles_need_text,
    .make = make,
};
