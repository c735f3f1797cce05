/* Configurations are compared as JSON, field by field, in one way of saying each; what only training reads does
 * not count. */
#include "model/families/same_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void same_model_say_path(alibi_error *error, const char *stood, const char *path)
{
  size_t size = strlen(stood);
  char rest[sizeof error->message];
  if (!error || strncmp(error->message, stood, size) != 0) return;
  snprintf(rest, sizeof rest, "%s", error->message + size);
  snprintf(error->message, sizeof error->message, "%.300s%.700s", path, rest);
}

static int bias_word(const alibi_model_config *c, int own)
{
  return model_config_bias(c, own) ? ALIBI_BIAS_YES : ALIBI_BIAS_NO;
}

/* The length that a fine-tuned model had first, said where it counts: by its extension, if that can say it. */
static void settle_original_length(alibi_model_config *c)
{
  extension_choice own = model_config_extension(c);
  const field *original = own.extension ? field_find(own.extension->fields, "original_length") : NULL;
  bool goes_by_it =
      c->extension[0] || c->score_scaling == ALIBI_SCORE_SCALING_LOG_N || strcmp(c->position, "t5") == 0;
  bool linear = strcmp(c->extension, "linear") == 0; /* by its factor alone */
  if (original && (linear || field_get_number(original, c->extension_options.bytes) == 0))
    field_set_number(original, c->extension_options.bytes, "",
                     linear ? 0 : (double)model_config_original_length(c), NULL);
  if (original || !goes_by_it) c->original_length = 0;
}

/* The layout of pairs is the file's own affair. */
static json_node *comparable(const alibi_model_config *config, bool with_extension)
{
  alibi_model_config c = *config, usual;
  alibi_model_config_init(&usual);
  c.qkv_bias = bias_word(config, c.qkv_bias);
  c.attention_output_bias = bias_word(config, c.attention_output_bias);
  c.input_bias = bias_word(config, c.input_bias);
  c.output_bias = bias_word(config, c.output_bias);
  c.bias = false;
  if (c.norm == ALIBI_NORM_RMS) c.norm_bias = false;
  if (!c.qk_norm) c.qk_norm_kind = usual.qk_norm_kind;
  c.initial_deviation = usual.initial_deviation;
  c.embedding_deviation = usual.embedding_deviation;
  settle_original_length(&c);
  if (!with_extension) c.extension[0] = '\0';
  const field *window = field_find(model_config_method(&c)->fields, "window");
  if (window && field_get_number(window, c.position_options.bytes) == 0) /* that is what it stands for */
    field_set_number(window, c.position_options.bytes, "", (double)c.train_length, NULL);
  if (field_find(model_config_method(&c)->fields, "layout")) {
    char name[ALIBI_NAME_SIZE + 8];
    snprintf(name, sizeof name, "%s_layout", c.position);
    alibi_model_config_set(&c, name, "half", NULL);
  }
  return model_config_node(&c);
}

/* Cosines and sines of as many positions as tell frequencies apart. */
static status check_angles(const alibi_model *ours, const alibi_model *theirs, bool *same, alibi_error *error)
{
  enum { POSITIONS = 4096 };
  const alibi_model *models[2] = {ours, theirs};
  position_tables tables[2] = {0};
  status result = ALIBI_OK;
  for (size_t i = 0; i < 2; i++) {
    const alibi_model_config *c = &models[i]->config;
    extension_choice own = model_config_extension(c);
    position_request request = {.shape = model_config_position_shape(c),
                                .options = c->position_options.bytes,
                                .length = POSITIONS,
                                .extension = own.extension,
                                .extension_options = own.options.bytes};
    TRY(position_prepare(models[i]->method, &request, &tables[i], error));
  }
  const position_plan *a = &tables[0].plan, *b = &tables[1].plan;
  *same = a->rotary == b->rotary;
  for (size_t i = 0; *same && i < POSITIONS * a->rotary / 2; i++)
    *same = fabsf(a->cosine[i] - b->cosine[i]) < 1e-4f && fabsf(a->sine[i] - b->sine[i]) < 1e-4f;
done:
  for (size_t i = 0; i < 2; i++) position_release(&tables[i]);
  return result;
}

/* What Llama 3 does to its frequencies may be stored as divisors. */
static bool is_llama3(const alibi_model *model)
{
  extension_choice own = model_config_extension(&model->config);
  return own.extension && strcmp(own.extension->name, "llama3") == 0;
}

/* Are rows of the output weight divided by their length? */
static bool normalises(const alibi_model *model)
{
  const parameter *output = parameter_find(&model->list, "output.weight");
  return output && model->placed && model->placed[output->slot].parts[0].row_scales;
}

/* One key of two configurations, in which what has its initial value is not written. */
static status compare_key(const json_node *ours, const json_node *theirs, const char *key, const char *what,
                          alibi_error *error)
{
  char *mine = node_to_text(node_get(ours, key)), *other = node_to_text(node_get(theirs, key));
  const json_node *a = node_get(ours, key), *b = node_get(theirs, key);
  bool same = a && b && mine && other && strcmp(mine, other) == 0;
  status result = ALIBI_OK;
  if (!same)
    result = fail(error, ALIBI_INVALID, "%s: expected a way to say that '%s' is %s, found only %s", what, key,
                  a && mine ? mine : "as usual", b && other ? other : "what is usual");
  free(mine);
  free(other);
  return result;
}

static status compare(const alibi_model *model, const alibi_model *again, const char *what, alibi_error *error)
{
  bool divided = is_llama3(model) && again->config.extension[0];
  json_node *nodes[2] = {comparable(&model->config, !divided), comparable(&again->config, !divided)};
  bool same = true;
  status result = ALIBI_OK;
  for (size_t n = 0; n < 2; n++)
    for (size_t i = 0; result == ALIBI_OK && i < node_count(nodes[n]); i++) {
      const char *key;
      node_member(nodes[n], i, &key);
      result = compare_key(nodes[0], nodes[1], key, what, error);
    }
  if (result == ALIBI_OK && divided) result = check_angles(model, again, &same, error);
  if (!same)
    result = fail(error, ALIBI_INVALID, "%s: expected a way to say llama3's frequencies, found none", what);
  node_free(nodes[1]);
  node_free(nodes[0]);
  return result;
}

status same_model_check(const alibi_model *model, const char *sketch, const char *what, alibi_error *error)
{
  alibi_model *again = NULL;
  alibi_error why = {0};
  status result = alibi_model_open(model->context, sketch, &again, &why);
  if (result == ALIBI_BAD_INPUT) {
    same_model_say_path(&why, sketch, "its file");
    RAISE(error, ALIBI_INVALID, "%s: expected a way to say all of this model, found none: %.800s", what,
          why.message);
  }
  if (result != ALIBI_OK) RAISE(error, result, "%s", why.message);
  if (normalises(model) != normalises(again))
    RAISE(error, ALIBI_INVALID,
          "%s: expected a way to say that rows of the output weight are divided by their length, found none",
          what);
  TRY(compare(model, again, what, error));
done:
  alibi_model_free(again);
  return result;
}
