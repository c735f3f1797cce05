/* The registry of families, and what they share when they read a configuration: names of activations, tied or not,
 * slopes, sizes that tensors tell. */
#include "model/families/family.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "model/families/family_tensors.h"
#include "position/slopes.h"

#include "model_family_registry.inc"

size_t model_family_count(void)
{
  return MODEL_FAMILY_COUNT;
}

const model_family *model_family_at(size_t index)
{
  return index < MODEL_FAMILY_COUNT ? model_family_registry[index] : NULL;
}

static bool is_among(const char *const *list, const char *name)
{
  for (; list && *list; list++)
    if (strcmp(*list, name) == 0) return true;
  return false;
}

const model_family *model_family_of_type(const char *type)
{
  for (size_t i = 0; i < MODEL_FAMILY_COUNT; i++)
    if (is_among(model_family_registry[i]->types, type)) return model_family_registry[i];
  return NULL;
}

const model_family *model_family_of_gguf(const char *architecture)
{
  for (size_t i = 0; i < MODEL_FAMILY_COUNT; i++)
    if (is_among(model_family_registry[i]->gguf, architecture)) return model_family_registry[i];
  return NULL;
}

void model_family_types(bool gguf, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < MODEL_FAMILY_COUNT; i++)
    for (const char *const *t = gguf ? model_family_registry[i]->gguf : model_family_registry[i]->types; t && *t;
         t++) {
      int more = snprintf(text + used, size - used, "%s%s", used ? ", " : "", *t);
      if (more < 0 || (size_t)more >= size - used) return;
      used += (size_t)more;
    }
}

void family_set(family_opening *o, alibi_model_config *config, const char *name, const char *value)
{
  alibi_error why = {0};
  if (alibi_model_config_set(config, name, value, &why) != ALIBI_OK) keys_fail(o->keys, "%s", why.message);
}

void family_set_number(family_opening *o, alibi_model_config *config, const char *name, double value)
{
  char text[NUMBER_SIZE];
  number_text(value, text);
  family_set(o, config, name, text);
}

const file_tensor *family_tensor(const family_opening *o, const char *name)
{
  char full[FAMILY_NAME_SIZE];
  family_tensor_name(o, name, "0", NULL, full);
  return tensor_file_find(o->file, full);
}

void family_set_vocabulary(family_opening *o, alibi_model_config *config, const char *key)
{
  const char *name = o->gguf ? "token_embd.weight" : o->family->embedding;
  const file_tensor *t = family_tensor(o, name);
  int64_t told = keys_size(o->keys, key, 1);
  if (!t || t->dimensions != 2) {
    keys_fail(o->keys, "expected an embedding [vocabulary, width] beside it, the tensor '%s%s', found %s",
              o->prefix, name, t ? "one of another shape" : "none");
    return;
  }
  if ((uint64_t)told > t->shape[0])
    keys_fail(o->keys, "key '%s%s': expected at most the %zu rows of the embedding '%s', found %lld",
              keys_prefix(o->keys), key, t->shape[0], t->name, (long long)told);
  else if (keys_have(o->keys, key) && (uint64_t)told < t->shape[0])
    family_note(o->notes, "vocabulary: %zu, the rows of the embedding; %s says %lld", t->shape[0], key,
                (long long)told);
  config->vocabulary = (int64_t)t->shape[0];
}

void family_set_tied(family_opening *o, alibi_model_config *config, const char *head, bool otherwise)
{
  char full[FAMILY_NAME_SIZE];
  const file_tensor *t;
  family_tensor_name(o, head, "0", "weight", full);
  t = tensor_file_find(o->file, full);
  bool told = keys_have(o->keys, "tie_word_embeddings");
  config->tied = keys_boolean(o->keys, "tie_word_embeddings", otherwise || !t);
  if (config->tied && t) {
    o->spare_head = t;
    family_note(o->notes, "tensor '%s': not read, since the output weight is the embedding", t->name);
  }
  if (config->tied && !otherwise && !told)
    family_note(o->notes, "the output weight is the embedding, since there is no tensor '%s'", full);
}

void family_set_alibi(family_opening *o, alibi_model_config *config, const char *rounding)
{
  family_set(o, config, "position", "alibi");
  if (!o->reference || !rounding) return;
  family_set(o, config, "alibi_rounding", rounding);
  o->rounds = true;
}

/* As text: nine digits give a float back. */
void family_take_slopes(family_opening *o, alibi_model_config *config, const float *slopes, size_t count)
{
  char list[ALIBI_POSITION_OPTIONS_SIZE];
  size_t used = 0;
  for (size_t h = 0; h < count && used < sizeof list; h++) {
    int more = number_print(list + used, sizeof list - used, "%s%.9g", h ? "," : "", (double)slopes[h]);
    used += (size_t)(more > 0 ? more : 0);
  }
  if (used >= sizeof list)
    keys_fail(o->keys, "slopes of %zu heads: expected a list of at most %zu bytes", count, sizeof list);
  else family_set(o, config, "alibi_slopes", list);
}

void family_set_slopes(family_opening *o, alibi_model_config *config, const char *tensor)
{
  const file_tensor *t = family_tensor(o, tensor);
  enum { MOST = 512 };
  float slopes[MOST];
  double largest = 0;
  size_t heads = (size_t)config->heads, elements = 1;
  if (!t || keys_failed(o->keys)) return;
  for (int d = 0; d < t->dimensions; d++) elements = size_mul(elements, t->shape[d]);
  if (elements != heads || heads > MOST || !family_widen_small(t, slopes)) {
    keys_fail(o->keys,
              "tensor '%s': expected one slope for each of the %zu heads (F32, F16 or BF16), found %zu of type %s",
              t->name, heads, elements, tensor_type_name(t->type));
    return;
  }
  for (size_t h = 0; h < heads; h++) {
    double rule = slope_of_head((int)h, (int)heads, 8, ALIBI_SLOPES_INTERLEAVED);
    double difference = fabs((double)slopes[h] - rule) / rule;
    if (!(difference <= largest)) largest = difference;
  }
  if (largest <= 1e-6) {
    family_note(o->notes, "tensor '%s': the slopes of the rule", t->name);
    return;
  }
  family_note(o->notes, "tensor '%s': slopes of its own, up to %.3g of the rule's from those", t->name, largest);
  family_take_slopes(o, config, slopes, heads);
}

void family_set_activation(family_opening *o, alibi_model_config *config, const char *keys, const char *otherwise,
                           bool gated)
{
  static const struct {
    const char *names[6];
    alibi_activation plain, gated;
  } known[] = {{{"gelu", "gelu_python"}, ALIBI_GELU_ERF, ALIBI_GEGLU},
               {{"gelu_new", "gelu_fast", "gelu_pytorch_tanh", "gelu_tanh", "gelu_python_tanh"},
                ALIBI_GELU_TANH,
                ALIBI_GEGLU_TANH},
               {{"silu", "swish"}, ALIBI_SILU, ALIBI_SWIGLU},
               {{"relu"}, ALIBI_RELU, ALIBI_REGLU}};
  const char *name = keys_text(o->keys, keys, otherwise);
  for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
    for (size_t n = 0; n < 6 && known[k].names[n]; n++)
      if (strcmp(name, known[k].names[n]) == 0) {
        config->activation = gated ? known[k].gated : known[k].plain;
        return;
      }
  keys_fail(o->keys, "key '%.*s': expected gelu, gelu_new, gelu_pytorch_tanh, silu or relu, found '%s'",
            (int)strcspn(keys, "|"), keys, name);
}

/* The first of the family's prefixes with which its embedding is there. */
static void find_prefix(family_opening *o)
{
  static const char *const none[] = {"", NULL};
  const char *const *prefixes = o->gguf || !o->family->prefixes ? none : o->family->prefixes;
  const char *name = o->gguf ? "token_embd.weight" : o->family->embedding;
  for (const char *const *p = prefixes; *p; p++) {
    o->prefix = *p;
    if (family_tensor(o, name)) return;
  }
  o->prefix = prefixes[0];
}

status family_configure(family_opening *o, alibi_model_config *config, alibi_error *error)
{
  alibi_error why = {0};
  status result;
  find_prefix(o);
  alibi_model_config_init(config);
  (o->gguf ? o->family->configure_gguf : o->family->configure)(o, config);
  if (o->reference && !o->rounds)
    family_note(o->notes, "reference numerics: this model has no rounding of its own");
  TRY(keys_finish(o->keys, error));
  result = model_config_resolve(config, &why);
  if (result != ALIBI_OK) RAISE(error, ALIBI_BAD_INPUT, "%s: %s", o->path, why.message);
done:
  return result;
}
