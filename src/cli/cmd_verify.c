/* alibi verify: does a model compute here what its reference computes? */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/model_files.h"
#include "cli/run.h"
#include "evaluate/verification.h"

enum { MOST_LAYERS = 16 }; /* told one by one */

typedef struct verify_options {
  double tolerance;
  bool json;
} verify_options;

static const field verify_fields[] = {
    {.name = "tolerance",
     .kind = FIELD_REAL,
     .offset = offsetof(verify_options, tolerance),
     .minimum = 0,
     .maximum = 1,
     .initial = 2e-4,
     .help = "largest difference of a logit that passes, in parts of the spread of its position's logits (largest "
             "minus smallest)"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(verify_options, json),
     .maximum = 1,
     .help = "print JSON, with every digit"},
};

static verify_options options;
static const char *reference;

static void verify_add_options(command_line *line)
{
  reference = NULL;
  command_add_text(line, "reference", "FILE", &reference,
                   "what another implementation computed of it: a file of scripts/make_reference.py");
  model_files_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(verify_fields), &options, "");
}

/* ---- for people ---- */

static void print_prompt(const verification *v, size_t number, bool causal)
{
  const verified_prompt *p = &v->prompts[number];
  const largest_difference *d = &p->logits;
  printf("\nprompt %zu, %zu tokens", number, p->count);
  if (p->text[0]) printf(": %.60s%s", p->text, strlen(p->text) > 60 ? "..." : "");
  printf("\n  largest difference  %.2e of the spread, token %zu, %s %zu: %.6g, reference %.6g\n", d->relative,
         d->position, causal ? "id" : "channel", d->id, d->ours, d->theirs);
  if (causal)
    printf("  divergence          %.2e nats at most, %.2e on average\n"
           "  same first token    at %zu of %zu\n",
           p->divergence, p->mean_divergence, p->first_same, p->positions);
  if (!p->layers) return;
  size_t first = verified_first_layer(p, options.tolerance);
  for (size_t l = 0; l < p->layer_count; l++) {
    if (p->layer_count > MOST_LAYERS && l > 0 && l + 1 < p->layer_count && l != first) continue;
    char place[40] = "embedding";
    if (l > 0) snprintf(place, sizeof place, "after layer %zu", l - 1);
    printf("  %-19s %.2e of its size\n", place, p->layers[l].difference);
  }
  if (first == 0) printf("  the embedding differs\n");
  else if (first < p->layer_count) printf("  layer %zu is the first that differs\n", first - 1);
}

static void print_text(const char *path, const verification *v, bool causal)
{
  printf("%s beside %s (%s)\n", path, v->software[0] ? v->software : "a reference",
         v->numerics[0] ? v->numerics : "numerics unknown");
  for (size_t i = 0; i < v->count; i++) print_prompt(v, i, causal);
}

/* ---- for programs ---- */

static json_node *prompt_node(const verified_prompt *p)
{
  json_node *node = node_new_object(), *layers = node_new_array();
  node_set_text(node, "text", p->text);
  node_set_integer(node, "tokens", (int64_t)p->count);
  node_set_number(node, "difference", p->logits.relative);
  node_set_integer(node, "position", (int64_t)p->logits.position);
  node_set_integer(node, "id", (int64_t)p->logits.id);
  node_set_number(node, "ours", p->logits.ours);
  node_set_number(node, "reference", p->logits.theirs);
  node_set_number(node, "divergence", p->divergence);
  node_set_number(node, "mean_divergence", p->mean_divergence);
  node_set_integer(node, "positions", (int64_t)p->positions);
  node_set_integer(node, "same_first", (int64_t)p->first_same);
  for (size_t l = 0; l < p->layer_count; l++) node_append_number(layers, p->layers[l].difference);
  if (p->layers) {
    size_t first = verified_first_layer(p, options.tolerance);
    node_set(node, "layers", layers);
    if (first < p->layer_count) node_set_integer(node, "first_layer", (int64_t)first - 1);
    else node_set_null(node, "first_layer");
  } else {
    node_free(layers);
  }
  return node;
}

static status print_json(const char *path, const verification *v, alibi_error *error)
{
  json_node *root = node_new_object(), *prompts = node_new_array();
  node_set_integer(root, "schema", 1);
  node_set_text(root, "model", path);
  node_set_text(root, "reference", reference);
  node_set_text(root, "software", v->software);
  node_set_text(root, "numerics", v->numerics);
  node_set_number(root, "tolerance", options.tolerance);
  node_set_number(root, "difference", verification_largest(v));
  for (size_t i = 0; i < v->count; i++) node_append(prompts, prompt_node(&v->prompts[i]));
  node_set(root, "prompts", prompts);
  return print_node(root, error);
}

static status verify_run(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  alibi_model *model = NULL;
  verification v = {0};
  status result;
  if (line->operand_count != 1)
    RAISE(error, ALIBI_INVALID, "verify: expected one model, found %zu", line->operand_count);
  if (!reference)
    RAISE(error, ALIBI_INVALID, "--reference: expected a file of scripts/make_reference.py, found none");
  TRY(cli_context(&context, error));
  TRY(model_files_open(context, line->operands[0], &model, error));
  TRY(verification_run(model, reference, &v, error));
  if (options.json) TRY(print_json(line->operands[0], &v, error));
  else print_text(line->operands[0], &v, model->config.causal);
  double largest = verification_largest(&v);
  if (!(largest <= options.tolerance))
    RAISE(error, ALIBI_FAILED, "%s: expected differences of at most --tolerance %g of the spread, found %.2e",
          line->operands[0], options.tolerance, largest);
done:
  verification_free(&v);
  alibi_model_free(model);
  cli_context_free(context);
  return result;
}

const command command_verify = {
    .name = "verify",
    .summary = "Compare a model with what its reference computes.",
    .operands = "MODEL",
    .details = "Runs the prompts of the reference file and compares logits, probabilities and, where the file "
               "has them, the hidden states after each layer, so that the first layer that differs is named. "
               "Exit code 1 where a difference is above --tolerance. docs/model-verify.md says how a reference "
               "file is made.",
    .options = verify_add_options,
    .run = verify_run,
};
