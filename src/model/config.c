/* The one table of a model's fields, and the checks that need more than one field. */
#include "model/config.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "op/op.h"

#define FORMAT_NAME "alibi-decoder"

static const char *const norm_names[] = {"layernorm", "rmsnorm", NULL};
static const char *const activation_names[] = {"gelu",  "gelu-tanh",  "silu",  "swiglu", "relu",
                                               "geglu", "geglu-tanh", "reglu", NULL};
static const char *const place_names[] = {"pre", "post", NULL};
static const char *const parallel_names[] = {"none", "one-norm", "two-norms", NULL};
static const char *const bias_names[] = {"as-bias", "yes", "no", NULL};
static const char *const qk_norm_names[] = {"head", "full", "group", NULL};
static const char *const scaling_names[] = {"none", "log-n", "ssmax", NULL};

_Static_assert((int)ALIBI_SCORE_SCALING_LOG_N == (int)SCORE_SCALING_LOG_N &&
                   (int)ALIBI_SCORE_SCALING_SSMAX == (int)SCORE_SCALING_SSMAX,
               "the public names of score scaling are those of the position room");

_Static_assert((int)ALIBI_GELU_ERF == (int)ACTIVATION_GELU_ERF &&
                   (int)ALIBI_GELU_TANH == (int)ACTIVATION_GELU_TANH && (int)ALIBI_SILU == (int)ACTIVATION_SILU &&
                   (int)ALIBI_SWIGLU == (int)ACTIVATION_SWIGLU && (int)ALIBI_RELU == (int)ACTIVATION_RELU &&
                   (int)ALIBI_GEGLU == (int)ACTIVATION_GEGLU &&
                   (int)ALIBI_GEGLU_TANH == (int)ACTIVATION_GEGLU_TANH &&
                   (int)ALIBI_REGLU == (int)ACTIVATION_REGLU,
               "the public names of activations are those of the kernels");

#define SMALLEST_SCALE 1e-9
#define AT(member) offsetof(alibi_model_config, member)

static const field fields[] = {
    {"vocabulary", FIELD_INTEGER, AT(vocabulary), 1, 1 << 24, 256, NULL, NULL, "tokens"},
    {"layers", FIELD_INTEGER, AT(layers), 1, 1024, 4, NULL, NULL, "blocks"},
    {"width", FIELD_INTEGER, AT(width), 1, 1 << 16, 128, NULL, NULL, "channels of the residual stream"},
    {"heads", FIELD_INTEGER, AT(heads), 1, 4096, 8, NULL, NULL, "query heads"},
    {"kv_heads", FIELD_INTEGER, AT(kv_heads), 0, 4096, 0, NULL, NULL, "key-value heads; 0: as many as heads"},
    {"head_size", FIELD_INTEGER, AT(head_size), 0, 256, 0, NULL, NULL, "channels a head; 0: width / heads"},
    {"feed_forward", FIELD_INTEGER, AT(feed_forward), 0, 1 << 18, 0, NULL, NULL,
     "width of the feed-forward part; 0: 4 * width, with gates 8/3 * width up to a multiple of 64"},
    {"train_length", FIELD_INTEGER, AT(train_length), 1, 1 << 24, 64, NULL, NULL, "tokens a training sequence"},
    {"norm", FIELD_CHOICE, AT(norm), 0, 0, ALIBI_NORM_LAYER, norm_names, NULL, "kind of norm"},
    {"norm_bias", FIELD_BOOLEAN, AT(norm_bias), 0, 1, 0, NULL, NULL, "a shift in LayerNorm"},
    {"norm_epsilon", FIELD_REAL, AT(norm_epsilon), 1e-12, 1, 1e-5, NULL, NULL, "added to the variance"},
    {"activation", FIELD_CHOICE, AT(activation), 0, 0, ALIBI_GELU_ERF, activation_names, NULL,
     "of the feed-forward part"},
    {"bias", FIELD_BOOLEAN, AT(bias), 0, 1, 0, NULL, NULL, "biases in linear layers"},
    {"tied", FIELD_BOOLEAN, AT(tied), 0, 1, 1, NULL, NULL, "the output weight is the embedding"},
    {"qk_norm", FIELD_BOOLEAN, AT(qk_norm), 0, 1, 0, NULL, NULL, "norm of queries and keys"},
    {"initial_deviation", FIELD_REAL, AT(initial_deviation), 0, 1, 0.02, NULL, NULL,
     "standard deviation of new weights"},
    {"embedding_deviation", FIELD_REAL, AT(embedding_deviation), 0, 100, 0, NULL, NULL,
     "standard deviation of a new embedding; 0: 1 / sqrt(width)"},
    {"position", FIELD_TEXT, AT(position), 0, 0, 0, NULL, "alibi", "position method"},
    {"score_scaling", FIELD_CHOICE, AT(score_scaling), 0, 0, ALIBI_SCORE_SCALING_NONE, scaling_names, NULL,
     "scores grow with ln n, n keys seen: log-n only beyond the trained length, ssmax always, by a learned "
     "factor"},
    {"original_length", FIELD_INTEGER, AT(original_length), 0, 1 << 24, 0, NULL, NULL,
     "length that positions were first trained at; 0: train_length"},
    {"norm_place", FIELD_CHOICE, AT(norm_place), 0, 0, ALIBI_NORM_PRE, place_names, NULL,
     "x + part(norm(x)), or norm(x + part(x))"},
    {"parallel", FIELD_CHOICE, AT(parallel), 0, 0, ALIBI_PARALLEL_NONE, parallel_names, NULL,
     "attention and feed-forward part both from a block's input, by one norm or each by its own"},
    {"qk_norm_kind", FIELD_CHOICE, AT(qk_norm_kind), 0, 0, ALIBI_QK_NORM_HEAD, qk_norm_names, NULL,
     "RMSNorm of each head, one norm over all heads, or the model's kind of norm of each head"},
    {"qkv_bias", FIELD_CHOICE, AT(qkv_bias), 0, 0, ALIBI_AS_BIAS, bias_names, NULL,
     "bias of queries, keys and values"},
    {"attention_output_bias", FIELD_CHOICE, AT(attention_output_bias), 0, 0, ALIBI_AS_BIAS, bias_names, NULL,
     "bias of attention's output"},
    {"input_bias", FIELD_CHOICE, AT(input_bias), 0, 0, ALIBI_AS_BIAS, bias_names, NULL,
     "bias of the feed-forward part's input"},
    {"output_bias", FIELD_CHOICE, AT(output_bias), 0, 0, ALIBI_AS_BIAS, bias_names, NULL,
     "bias of the feed-forward part's output"},
    {"final_norm", FIELD_BOOLEAN, AT(final_norm), 0, 1, 1, NULL, NULL, "a norm after the last block"},
    {"embedding_norm", FIELD_BOOLEAN, AT(embedding_norm), 0, 1, 0, NULL, NULL, "a norm of the embedding"},
    {"embedding_shift", FIELD_BOOLEAN, AT(embedding_shift), 0, 1, 0, NULL, NULL,
     "a vector added to every embedding"},
    {"causal", FIELD_BOOLEAN, AT(causal), 0, 1, 1, NULL, NULL,
     "tokens see those before them; else all of their sequence"},
    {"clip_qkv", FIELD_REAL, AT(clip_qkv), 0, 1e6, 0, NULL, NULL,
     "queries, keys and values are cut to at most this size; 0: not"},
    {"embedding_scale", FIELD_REAL, AT(embedding_scale), SMALLEST_SCALE, 1e6, 1, NULL, NULL,
     "multiplies the embeddings of tokens"},
    {"score_scale", FIELD_REAL, AT(score_scale), 0, 1e6, 0, NULL, "1 / sqrt(head_size)", "multiplies q.k"},
    {"score_cap", FIELD_REAL, AT(score_cap), 0, 1e6, 0, NULL, NULL,
     "scores are bent to stay below it, before biases; 0: not"},
    {"logit_scale", FIELD_REAL, AT(logit_scale), SMALLEST_SCALE, 1e6, 1, NULL, NULL, "multiplies the logits"},
    {"logit_cap", FIELD_REAL, AT(logit_cap), 0, 1e6, 0, NULL, NULL, "logits are bent to stay below it; 0: not"},
    {"residual_scale", FIELD_REAL, AT(residual_scale), SMALLEST_SCALE, 1e6, 1, NULL, NULL,
     "multiplies what a part adds to the residual stream"},
    {"attention_output_norm", FIELD_BOOLEAN, AT(attention_output_norm), 0, 1, 0, NULL, NULL,
     "x = norm(x + norm(x + attention(x))), where norms come after their parts"},
};

/* From norm_place on: written only where they are not at their initial values, so that older versions read what
 * they can run. */
enum { LATER_FIELDS = 19 };

field_table model_config_fields(void)
{
  return (field_table)FIELD_TABLE(fields);
}

void alibi_model_config_init(alibi_model_config *config)
{
  memset(config, 0, sizeof *config);
  config->size = sizeof *config;
  field_init(model_config_fields(), config);
  model_config_set_method(config, "alibi", NULL);
}

const position_method *model_config_method(const alibi_model_config *config)
{
  return position_method_find(config->position);
}

int64_t model_config_original_length(const alibi_model_config *config)
{
  return config->original_length ? config->original_length : config->train_length;
}

position_shape model_config_position_shape(const alibi_model_config *config)
{
  return (position_shape){(size_t)config->layers, (size_t)config->heads, (size_t)config->head_size,
                          (size_t)config->width, (size_t)model_config_original_length(config)};
}

activation_kind model_config_activation(const alibi_model_config *config)
{
  return (activation_kind)config->activation;
}

bool model_config_bias(const alibi_model_config *config, int own)
{
  return own == ALIBI_AS_BIAS ? config->bias : own == ALIBI_BIAS_YES;
}

float model_config_score_scale(const alibi_model_config *config)
{
  return config->score_scale > 0 ? (float)config->score_scale : 1 / sqrtf((float)config->head_size);
}

status model_config_set_method(alibi_model_config *config, const char *name, alibi_error *error)
{
  const position_method *method;
  status result = position_method_require("position", name, &method, error);
  if (result != ALIBI_OK) return result;
  snprintf(config->position, sizeof config->position, "%s", method->name);
  memset(&config->position_options, 0, sizeof config->position_options);
  field_init(method->fields, config->position_options.bytes);
  return model_config_set_extension(config, "extension", "none", error);
}

status model_config_set_extension(alibi_model_config *config, const char *option, const char *text,
                                  alibi_error *error)
{
  extension_choice choice = {0};
  status result = ALIBI_OK;
  if (strcmp(text, "none") != 0) TRY(extension_text_read(option, config->position, text, &choice, error));
  memset(config->extension, 0, sizeof config->extension);
  if (choice.extension) snprintf(config->extension, sizeof config->extension, "%s", choice.extension->name);
  memcpy(config->extension_options.bytes, choice.options.bytes, sizeof config->extension_options.bytes);
done:
  return result;
}

extension_choice model_config_extension(const alibi_model_config *config)
{
  extension_choice choice = {.extension = position_extension_find(config->position, config->extension)};
  memcpy(choice.options.bytes, config->extension_options.bytes, sizeof config->extension_options.bytes);
  return choice;
}

static status check_limit(const alibi_model_config *config, const position_method *method,
                          const position_shape *shape, alibi_error *error)
{
  size_t limit = position_method_limit(method, shape, config->position_options.bytes, NULL);
  if ((size_t)config->train_length <= limit) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "train_length: expected at most the %zu positions that the method '%s' has, found %lld", limit,
              method->name, (long long)config->train_length);
}

static status check_extension(const alibi_model_config *config, size_t length, const extension_choice *choice,
                              alibi_error *error)
{
  position_request request = {.shape = model_config_position_shape(config),
                              .options = config->position_options.bytes,
                              .length = (size_t)config->train_length,
                              .extension = choice->extension,
                              .extension_options = choice->options.bytes,
                              .extension_length = length};
  return position_extension_check(model_config_method(config), &request, error);
}

status model_config_take(const alibi_model_config *given, alibi_model_config *config, alibi_error *error)
{
  alibi_model_config_init(config);
  return settings_take(given, config, sizeof *config, "alibi_model_config", error);
}

static status set(alibi_model_config *config, const char *name, const char *value, alibi_error *error)
{
  if (strcmp(name, "position") == 0) return model_config_set_method(config, value, error);
  if (strcmp(name, "extension") == 0) return model_config_set_extension(config, name, value, error);
  const field *f = field_find(model_config_fields(), name);
  if (f) return field_set_text(f, config, name, value, error);
  const position_method *method = model_config_method(config);
  size_t prefix = method ? strlen(method->name) : 0;
  if (method && strncmp(name, method->name, prefix) == 0 && name[prefix] == '_') {
    f = field_find(method->fields, name + prefix + 1);
    if (f) return field_set_text(f, config->position_options.bytes, name, value, error);
  }
  return fail(error, ALIBI_INVALID, "model configuration: expected a known field, found '%s'", name);
}

/* A caller's older struct may end before the field, and then is left alone. */
status alibi_model_config_set(alibi_model_config *config, const char *name, const char *value, alibi_error *error)
{
  alibi_model_config own, before;
  status result = model_config_take(config, &own, error);
  if (result != ALIBI_OK) return result;
  size_t theirs = config->size, shared = theirs < sizeof own ? theirs : sizeof own;
  memcpy(&before, &own, sizeof own);
  result = set(&own, name, value, error);
  if (result != ALIBI_OK) return result;
  if (memcmp((const char *)&own + shared, (const char *)&before + shared, sizeof own - shared) != 0)
    return fail(error, ALIBI_INVALID,
                "model configuration: '%s': expected a struct that has this field, found one of %zu bytes", name,
                theirs);
  memcpy(config, &own, shared);
  config->size = theirs;
  return ALIBI_OK;
}

static status check_sizes(const alibi_model_config *c, alibi_error *error)
{
  if (c->head_size == 0 && c->width % c->heads != 0)
    return fail(error, ALIBI_INVALID, "heads: expected a divisor of the width %lld, found %lld (or set head_size)",
                (long long)c->width, (long long)c->heads);
  if (c->head_size == 0 && c->width / c->heads > 256)
    return fail(error, ALIBI_INVALID, "head_size: expected at most 256, found width %lld / heads %lld",
                (long long)c->width, (long long)c->heads);
  if (c->kv_heads != 0 && c->heads % c->kv_heads != 0)
    return fail(error, ALIBI_INVALID, "kv_heads: expected a divisor of the %lld heads, found %lld",
                (long long)c->heads, (long long)c->kv_heads);
  if (c->norm == ALIBI_NORM_RMS && c->norm_bias)
    return fail(error, ALIBI_INVALID, "norm_bias: expected false with rmsnorm, found true");
  return ALIBI_OK;
}

/* Fields that only mean something, or only can be, beside others. */
static status check_together(const alibi_model_config *c, alibi_error *error)
{
  if (c->parallel != ALIBI_PARALLEL_NONE && c->norm_place == ALIBI_NORM_POST)
    return fail(error, ALIBI_INVALID, "parallel: expected none with norms after their parts, found '%s'",
                parallel_names[c->parallel]);
  if (c->attention_output_norm && c->norm_place != ALIBI_NORM_POST)
    return fail(error, ALIBI_INVALID,
                "attention_output_norm: expected false with norms before their parts, found true");
  if (c->qk_norm_kind != ALIBI_QK_NORM_HEAD && !c->qk_norm)
    return fail(error, ALIBI_INVALID, "qk_norm_kind: expected qk_norm beside it, found '%s' without",
                qk_norm_names[c->qk_norm_kind]);
  if (!c->causal && c->score_scaling != ALIBI_SCORE_SCALING_NONE)
    return fail(error, ALIBI_INVALID,
                "score_scaling: expected none where tokens see all of their sequence, found '%s'",
                scaling_names[c->score_scaling]);
  return ALIBI_OK;
}

/* Gates take a normed input; what a token's score with a later one is, few methods say. */
static status check_method(const alibi_model_config *c, const position_method *method, alibi_error *error)
{
  position_request request = {.shape = model_config_position_shape(c),
                              .options = c->position_options.bytes,
                              .length = (size_t)c->train_length};
  if (c->causal && c->norm_place == ALIBI_NORM_PRE) return ALIBI_OK;
  position_plan plan = position_outline(method, &request);
  if (plan.gated && c->norm_place == ALIBI_NORM_POST)
    return fail(error, ALIBI_INVALID, "norm_place: expected pre with the position method '%s', found post",
                method->name);
  bool symmetric = (plan.bias == BIAS_NONE || plan.bias == BIAS_SLOPE) && plan.window == 0;
  if (c->causal || symmetric) return ALIBI_OK;
  return fail(
      error, ALIBI_INVALID,
      "causal: expected true with the position method '%s', which says nothing of later tokens, found false",
      method->name);
}

/* A gate is a third matrix: 8/3 of the width keeps the count of weights. */
static int64_t usual_feed_forward(const alibi_model_config *c)
{
  bool gated = op_activation_parts((activation_kind)c->activation) > 1;
  return gated ? (8 * c->width / 3 + 63) / 64 * 64 : 4 * c->width;
}

status model_config_resolve(alibi_model_config *config, alibi_error *error)
{
  status result = field_check(model_config_fields(), config, "model configuration", error);
  if (result == ALIBI_OK) result = check_sizes(config, error);
  if (result == ALIBI_OK) result = check_together(config, error);
  if (result != ALIBI_OK) return result;
  const position_method *method;
  result = position_method_require("position", config->position, &method, error);
  if (result != ALIBI_OK) return result;
  if (config->head_size == 0) config->head_size = config->width / config->heads;
  if (config->kv_heads == 0) config->kv_heads = config->heads;
  if (config->feed_forward == 0) config->feed_forward = usual_feed_forward(config);
  result = field_check(method->fields, config->position_options.bytes, config->position, error);
  position_shape shape = model_config_position_shape(config);
  if (result == ALIBI_OK && method->check) result = method->check(&shape, config->position_options.bytes, error);
  if (result == ALIBI_OK) result = check_method(config, method, error);
  if (result == ALIBI_OK && !config->extension[0]) result = check_limit(config, method, &shape, error);
  if (result != ALIBI_OK || !config->extension[0]) return result;
  const position_extension *extension;
  result = position_extension_require("extension", config->position, config->extension, &extension, error);
  if (result != ALIBI_OK) return result;
  extension_choice choice = model_config_extension(config);
  return check_extension(config, 0, &choice, error);
}

status model_config_read_extension(const alibi_model_config *config, const char *option, const char *text,
                                   extension_choice *choice, alibi_error *error)
{
  if (config->extension[0])
    return fail(error, ALIBI_INVALID,
                "%s: expected none, since the model has the extension '%s' of its own, found '%s'", option,
                config->extension, text);
  status result = extension_text_read(option, config->position, text, choice, error);
  return result == ALIBI_OK ? check_extension(config, (size_t)config->train_length, choice, error) : result;
}

status alibi_model_config_check(const alibi_model_config *config, alibi_error *error)
{
  alibi_model_config copy;
  status result = model_config_take(config, &copy, error);
  return result == ALIBI_OK ? model_config_resolve(&copy, error) : result;
}

/* The last `later` of the fields only where they are not at their initial values; initial: room for all. */
static void write_fields(json_node *node, field_table all, size_t later, const void *values, void *initial)
{
  field_init(all, initial);
  for (size_t i = 0; i < all.count; i++) {
    const field *f = &all.fields[i];
    if (i + later < all.count || !field_equal(f, values, initial))
      node_set_fields(node, (field_table){f, 1}, values);
  }
}

json_node *model_config_node(const alibi_model_config *config)
{
  json_node *root = node_new_object(), *position = node_new_object();
  const position_method *method = model_config_method(config);
  node_set_text(root, "format", FORMAT_NAME);
  alibi_model_config initial;
  write_fields(root, model_config_fields(), LATER_FIELDS, config, &initial);
  node_set_text(position, "method", config->position);
  if (method)
    write_fields(position, method->fields, method->later_fields, config->position_options.bytes,
                 initial.position_options.bytes);
  const position_extension *extension = position_extension_find(config->position, config->extension);
  if (extension) {
    json_node *own = node_new_object();
    node_set_text(own, "name", extension->name);
    node_set_fields(own, extension->fields, config->extension_options.bytes);
    node_set(position, "extension", own);
  }
  node_set(root, "position", position); /* replaces the bare name */
  return root;
}

/* {"name": name, settings...}; NULL: none. */
static status read_extension(const json_node *node, const char *what, alibi_model_config *config,
                             alibi_error *error)
{
  static const char *const others[] = {"name", NULL};
  const position_extension *extension;
  const char *name = node_text(node_get(node, "name"), NULL);
  alibi_error why = {0};
  if (!node) return ALIBI_OK;
  if (!name)
    return fail(error, ALIBI_BAD_INPUT, "%s: position: extension: expected an object with a name, found none",
                what);
  if (position_extension_require("extension", config->position, name, &extension, &why) != ALIBI_OK)
    return fail(error, ALIBI_BAD_INPUT, "%s: position: %s", what, why.message);
  snprintf(config->extension, sizeof config->extension, "%s", extension->name);
  field_init(extension->fields, config->extension_options.bytes);
  return node_get_fields(node, extension->fields, config->extension_options.bytes, what, others, error);
}

status model_config_read(const json_node *node, const char *what, alibi_model_config *config, alibi_error *error)
{
  static const char *const outer[] = {"format", "position", NULL}, *const inner[] = {"method", "extension", NULL};
  status result = ALIBI_OK;
  alibi_model_config_init(config);
  const char *format = node_text(node_get(node, "format"), NULL);
  if (!format || strcmp(format, FORMAT_NAME) != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: format: expected '%s', found '%s'", what, FORMAT_NAME,
          format ? format : "nothing");
  TRY(node_get_fields(node, model_config_fields(), config, what, outer, error));
  const json_node *position = node_get(node, "position");
  const char *name = node_text(node_get(position, "method"), NULL);
  if (!name) RAISE(error, ALIBI_BAD_INPUT, "%s: position: expected an object with a method, found none", what);
  alibi_error inner_error = {0};
  if (model_config_set_method(config, name, &inner_error) != ALIBI_OK)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s", what, inner_error.message);
  TRY(node_get_fields(position, model_config_method(config)->fields, config->position_options.bytes, what, inner,
                      error));
  TRY(read_extension(node_get(position, "extension"), what, config, error));
  if (model_config_resolve(config, &inner_error) != ALIBI_OK)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s", what, inner_error.message);
done:
  return result;
}
