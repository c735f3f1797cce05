/* alibi data synthetic: the second operand is a task, whose own options decide what a sequence is made of. */
#include "cli/data_synthetic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/progress.h"
#include "cli/run.h"
#include "cli/task_options.h"
#include "train/synthetic.h"

enum { VOCABULARY = 256 };

typedef struct synthetic_options {
  int64_t length, sequences, held_out, seed;
} synthetic_options;

#define AT(member) offsetof(synthetic_options, member)

static const field fields[] = {
    {"length", FIELD_INTEGER, AT(length), 2, 1 << 24, 64, NULL, NULL, "tokens of a sequence"},
    {"sequences", FIELD_INTEGER, AT(sequences), 1, 1e9, 50000, NULL, NULL, "sequences to train on"},
    {"held_out_sequences", FIELD_INTEGER, AT(held_out), 0, 1e9, 1000, NULL, NULL, "others, to be tested on alone"},
    {"seed", FIELD_INTEGER, AT(seed), 0, 9007199254740992.0, 1, NULL, NULL, "of all that is drawn"},
};

static synthetic_options options;
static task_own_options own;

void data_synthetic_add_options(command_line *line)
{
  command_add_group(line, "data synthetic", (field_table)FIELD_TABLE(fields), &options, "");
  task_options_add(line, true, &own);
}

const char *data_synthetic_given(const command_line *line)
{
  static char option[128];
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    if (!command_line_given(line, &options, fields[i].name)) continue;
    field_option("", fields[i].name, option, sizeof option);
    return option;
  }
  return task_options_given(line, &own, NULL);
}

/* Those of data build and data show. */
static const char *given_other(const command_line *line)
{
  static const char *const others[] = {"tokenizer", "valid",          "sample_mb",    "held_out", "format",
                                       "field",     "skip_bad_lines", "shard_tokens", "json"};
  static const char *const known[] = {"out",       "vocabulary",         "threads", "quiet", "length",
                                      "sequences", "held_out_sequences", "seed",    NULL};
  const char *other = command_line_given_other(line, known);
  for (size_t i = 0; other && i < sizeof others / sizeof others[0]; i++) {
    char option[128];
    field_option("", others[i], option, sizeof option);
    if (strcmp(option, other) == 0) return other;
  }
  return NULL;
}

static void on_progress(void *user, uint64_t done, uint64_t total)
{
  int *item = user;
  if (*item < 0) *item = progress_begin("writing sequences", (double)total, "sequences");
  progress_update(*item, (double)done, NULL);
}

status data_synthetic(const command_line *line, const char *out, int64_t vocabulary, alibi_error *error)
{
  alibi_context *context = NULL;
  const evaluation_task *task;
  int item = -1;
  char names[256];
  status result = ALIBI_OK;
  task_names(true, names, sizeof names);
  const char *other = given_other(line);
  if (other) RAISE(error, ALIBI_INVALID, "%s belongs to another verb of alibi data, not to data synthetic", other);
  if (line->operand_count != 2)
    RAISE(error, ALIBI_INVALID, "data synthetic: expected one task (%s), found %zu", names,
          line->operand_count - 1);
  task = task_find(line->operands[1]);
  if (!task || !task->sequence)
    RAISE(error, ALIBI_INVALID, "data synthetic: expected a task that can be trained, %s, found '%s'", names,
          line->operands[1]);
  if (!out) RAISE(error, ALIBI_INVALID, "data synthetic: --out DIR is missing");
  other = task_options_given(line, &own, task);
  if (other) RAISE(error, ALIBI_INVALID, "%s: a setting of another task than %s", other, task->name);
  synthetic_request request = {.task = task,
                               .options = task_options_of(&own, task),
                               .length = (size_t)options.length,
                               .sequences = (uint64_t)options.sequences,
                               .held_out = (uint64_t)options.held_out,
                               .vocabulary = (uint32_t)(vocabulary ? vocabulary : VOCABULARY),
                               .seed = (uint64_t)options.seed,
                               .out = out,
                               .progress = on_progress,
                               .user = &item};
  TRY(cli_context(&context, error));
  TRY(synthetic_make(context, &request, error));
  if (item >= 0) progress_end(item, NULL);
  if (!cli_quiet())
    fprintf(stderr,
            "%s: %" PRIu64
            " sequences of %zu tokens; alibi train --out MODEL --order documents --train-length %zu %s\n",
            out, request.sequences, request.length, request.length, out);
done:
  cli_context_free(context);
  return result;
}
