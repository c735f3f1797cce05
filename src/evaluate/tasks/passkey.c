/* Passkey retrieval: five digits in a lot of irrelevant text, the same text in every paper, so that figures
 * compare. */
#include <stdio.h>

#include "evaluate/task_haystack.h"

static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  task_random random = r->random;
  haystack h;
  unsigned key = 10000 + (unsigned)task_below(&random, 90000);
  status result;
  TRY(haystack_new(1, 1, &h, error));
  h.kind = HAYSTACK_NOISE;
  snprintf(
      h.head, sizeof h.head,
      "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. I will quiz "
      "you about the important information there.");
  h.pieces[0].depth = r->depth;
  snprintf(h.pieces[0].text, PIECE_SIZE, " The pass key is %u. Remember it. %u is the pass key.", key, key);
  snprintf(h.question, sizeof h.question, " What is the pass key? The pass key is");
  snprintf(h.answers[0].text, ANSWER_SIZE, " %u", key);
  h.answers[0].depth = r->depth;
  TRY(haystack_write(&h, r, &random, prompts, error));
done:
  haystack_free(&h);
  return result;
}

const evaluation_task task_passkey = {
    .name = "passkey",
    .title = "Passkey retrieval",
    .about = "a pass key of five digits at each depth of an irrelevant text",
    .source = "Mohtashami and Jaggi 2023, arXiv 2305.16300",
    .needs = TASK_NEEDS_TOKENIZER,
    .depths = true,
    .make = make,
};
