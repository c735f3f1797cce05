/* alibi slopes: the slope of every head, as the model would use it. */
#include <inttypes.h>
#include <stdio.h>

#include "alibi/attention.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/json_output.h"

typedef struct slopes_options {
  int64_t heads;
  double max_bias;
  int rule;
  bool json;
} slopes_options;

static const char *const rules[] = {"interleaved", "geometric", NULL};

static const field slopes_fields[] = {
    {.name = "heads",
     .kind = FIELD_INTEGER,
     .offset = offsetof(slopes_options, heads),
     .minimum = 1,
     .maximum = ALIBI_MAX_HEADS,
     .initial = 8,
     .help = "attention heads"},
    {.name = "max_bias",
     .kind = FIELD_REAL,
     .offset = offsetof(slopes_options, max_bias),
     .minimum = 0.001,
     .maximum = 100,
     .initial = 8,
     .help = "exponent B: the gentlest slope of a power of two of heads is 2^-B"},
    {.name = "rule",
     .kind = FIELD_CHOICE,
     .offset = offsetof(slopes_options, rule),
     .maximum = 1,
     .choices = rules,
     .help = "what to do when the heads are no power of two: interleaved, as in the authors' code and nearly all "
             "models, or geometric, as in the paper's text"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(slopes_options, json),
     .maximum = 1,
     .help = "print JSON, with every digit"},
};

static slopes_options options;

static void slopes_add_options(command_line *line)
{
  command_add_group(line, "Options", (field_table)FIELD_TABLE(slopes_fields), &options, "");
}

static status print_json(const double *slopes, double sum, alibi_error *error)
{
  json_node *root = node_new_object(), *list = node_new_array();
  node_set_integer(root, "heads", options.heads);
  node_set_number(root, "max_bias", options.max_bias);
  node_set_text(root, "rule", rules[options.rule]);
  for (int64_t h = 0; h < options.heads; h++) node_append_number(list, slopes[h]);
  node_set(root, "slopes", list);
  node_set_number(root, "sum", sum);
  return print_node(root, error);
}

static status slopes_run(command_line *line, alibi_error *error)
{
  (void)line;
  double *slopes = NULL, sum = 0;
  status result = ALIBI_OK;
  TRY(memory_new(&slopes, (size_t)options.heads, sizeof *slopes, "the slopes", error));
  TRY(alibi_slopes((int)options.heads, options.max_bias, (alibi_slope_rule)options.rule, slopes, error));
  for (int64_t h = 0; h < options.heads; h++) sum += slopes[h];
  if (options.json) {
    TRY(print_json(slopes, sum, error));
    goto done;
  }
  printf("head  slope\n");
  for (int64_t h = 0; h < options.heads; h++) printf("%4" PRId64 "  %.9g\n", h, slopes[h]);
  printf(" sum  %.9g\n", sum);
done:
  memory_free(slopes);
  return result;
}

const command command_slopes = {
    .name = "slopes",
    .summary = "Print ALiBi's slope of every attention head.",
    .details =
        "A head with slope m adds -m * distance to its attention scores, not multiplied by 1/sqrt(head size).",
    .options = slopes_add_options,
    .run = slopes_run,
};
