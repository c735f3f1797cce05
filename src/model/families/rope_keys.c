/* Scalings of rotary positions.  Each published one is an extension of ours with numbers of its own; what is
 * written here is which key is which setting, and what a key that is absent means. */
#include "model/families/rope_keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "model/families/family_tensors.h"
#include "position/rope_frequencies.h"

enum { LIST_SIZE = 768, TEXT_SIZE = 2 * LIST_SIZE + 512 }; /* of a list of longrope */

/* An extension as text, "yarn:factor=4,beta_fast=32". */
typedef struct extension_words {
  char text[TEXT_SIZE];
  size_t used;
  bool has_setting;
} extension_words;

static void say(extension_words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(extension_words *w, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int more = number_print_list(w->text + w->used, sizeof w->text - w->used, format, arguments);
  va_end(arguments);
  if (more > 0) w->used += (size_t)more;
  if (w->used >= sizeof w->text) w->used = sizeof w->text - 1;
}

static void setting(extension_words *w, const char *name, double value)
{
  say(w, "%c%s=%.17g", w->has_setting ? ',' : ':', name, value);
  w->has_setting = true;
}

/* In `rope_scaling`, or where that is not there `rope_parameters`, or at the root. */
static const char *within(const family_opening *o, const char *name, const char *root, char text[192])
{
  const char *object = keys_have(o->keys, "rope_scaling") ? "rope_scaling" : "rope_parameters";
  snprintf(text, 192, "%s.%s%s%s", object, name, root ? "|" : "", root ? root : "");
  return text;
}

static void set_method(family_opening *o, alibi_model_config *config, const char *setting_name, double value,
                       bool windowed)
{
  char name[64];
  snprintf(name, sizeof name, "%s_%s", windowed ? "rope-window" : "rope", setting_name);
  family_set_number(o, config, name, value);
}

/* The fewest digits that give all floats back, or fewer where the list would be too long for that. */
static void list(family_opening *o, extension_words *w, const char *name, const double *values, size_t count)
{
  char text[LIST_SIZE];
  for (int digits = 9; digits >= 4; digits--) {
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof text; i++) {
      char number[32];
      for (int d = 1; d <= digits; d++) {
        number_print(number, sizeof number, "%.*g", d, values[i]);
        if ((float)number_parse(number, NULL) == (float)values[i]) break;
      }
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "/" : "", number);
    }
    if (used >= sizeof text) continue;
    if (digits < 9) family_note(o->notes, "%s: rounded to %d digits", name, digits);
    say(w, "%c%s=%s", w->has_setting ? ',' : ':', name, text);
    w->has_setting = true;
    return;
  }
  keys_fail(o->keys, "%s: expected fewer factors than %zu, or with fewer digits", name, count);
}

static void factors(family_opening *o, extension_words *w, const char *key, const char *name, size_t pairs)
{
  double values[ROPE_PAIRS_MAX];
  const json_node *array = keys_array(o->keys, key);
  size_t count = node_count(array);
  if (!array || count != pairs || count > ROPE_PAIRS_MAX) {
    keys_fail(o->keys, "key '%s': expected a list of %zu numbers, one for each pair of channels, found %zu", key,
              pairs, count);
    return;
  }
  for (size_t i = 0; i < count; i++) {
    values[i] = node_number(node_at(array, i), NAN);
    if (!(values[i] > 0)) {
      keys_fail(o->keys, "key '%s': expected numbers above 0, found another at %zu", key, i);
      return;
    }
  }
  list(o, w, name, values, count);
}

/* The length before the scaling: config's own key, else the length that it has. */
static double original_length(family_opening *o, const alibi_model_config *config)
{
  char names[192];
  return (double)keys_size(
      o->keys, within(o, "original_max_position_embeddings", "original_max_position_embeddings", names),
      config->train_length);
}

static double factor_of(family_opening *o, const char *type, double otherwise)
{
  char names[192];
  double factor = keys_real(o->keys, within(o, "factor", NULL, names), otherwise);
  if (factor >= 1) return factor;
  char found[NUMBER_SIZE] = "none";
  if (keys_have(o->keys, names)) number_text(factor, found);
  keys_fail(o->keys, "key '%s': expected a number of at least 1 for the scaling '%s', found %s", names, type,
            found);
  return 1;
}

static void optional(family_opening *o, extension_words *w, const char *key, const char *name)
{
  char names[192];
  double value = keys_real(o->keys, within(o, key, NULL, names), 0);
  if (value != 0) setting(w, name, value);
}

static void yarn(family_opening *o, const alibi_model_config *config, extension_words *w)
{
  char names[192];
  double original = original_length(o, config);
  setting(w, "factor", factor_of(o, "yarn", (double)config->train_length / original));
  setting(w, "original_length", original);
  optional(o, w, "beta_fast", "beta_fast");
  optional(o, w, "beta_slow", "beta_slow");
  optional(o, w, "attention_factor", "attention_factor");
  optional(o, w, "mscale", "mscale");
  optional(o, w, "mscale_all_dim", "mscale_all_dim");
  if (!keys_boolean(o->keys, within(o, "truncate", NULL, names), true))
    say(w, ",truncate=false"), w->has_setting = true;
}

static void llama3(family_opening *o, const alibi_model_config *config, extension_words *w)
{
  char names[192];
  setting(w, "factor", factor_of(o, "llama3", 0));
  setting(w, "low_freq_factor", keys_real(o->keys, within(o, "low_freq_factor", NULL, names), 1));
  setting(w, "high_freq_factor", keys_real(o->keys, within(o, "high_freq_factor", NULL, names), 4));
  setting(w, "original_length", original_length(o, config));
}

static void longrope(family_opening *o, const alibi_model_config *config, size_t pairs, extension_words *w)
{
  char names[192];
  double original = original_length(o, config), ratio = (double)config->train_length / original;
  double factor = keys_real(o->keys, within(o, "factor", NULL, names), ratio);
  setting(w, "factor", factor > 1 ? factor : 1);
  setting(w, "original_length", original);
  optional(o, w, "attention_factor", "attention_factor");
  factors(o, w, within(o, "short_factor", NULL, names), "short_factors", pairs);
  factors(o, w, within(o, "long_factor", NULL, names), "long_factors", pairs);
}

static void read_scaling(family_opening *o, alibi_model_config *config, size_t pairs)
{
  static const char *const no_effect[] = {"rope_scaling.finetuned", "rope_parameters.finetuned", NULL};
  char first[192], second[192], both[400];
  extension_words w = {.used = 0};
  snprintf(both, sizeof both, "%s|%s", within(o, "rope_type", NULL, first), within(o, "type", NULL, second));
  const char *type = keys_text(o->keys, both, "default");
  if (strcmp(type, "default") == 0) return;
  if (strcmp(type, "su") == 0) type = "longrope";
  say(&w, "%s", type);
  if (strcmp(type, "linear") == 0) {
    setting(&w, "factor", factor_of(o, type, 0));
  } else if (strcmp(type, "dynamic") == 0) {
    setting(&w, "factor", factor_of(o, type, 0));
    setting(&w, "original_length", (double)config->train_length);
  } else if (strcmp(type, "yarn") == 0) {
    yarn(o, config, &w);
  } else if (strcmp(type, "llama3") == 0) {
    llama3(o, config, &w);
  } else if (strcmp(type, "longrope") == 0) {
    longrope(o, config, pairs, &w);
  } else {
    keys_fail(o->keys, "key '%s': expected default, linear, dynamic, yarn, llama3 or longrope, found '%s'", first,
              type);
    return;
  }
  keys_no_effect(o->keys, no_effect);
  if (!keys_failed(o->keys)) family_set(o, config, "extension", w.text);
}

static size_t head_size(const alibi_model_config *config)
{
  return (size_t)(config->head_size ? config->head_size : config->width / config->heads);
}

void rope_keys_read(family_opening *o, alibi_model_config *config, const rope_keys *names)
{
  char text[192];
  bool windowed = names->window > 0;
  family_set(o, config, "position", windowed ? "rope-window" : "rope");
  set_method(o, config, "base", keys_real(o->keys, within(o, "rope_theta", names->base, text), names->usual_base),
             windowed);
  double fraction = keys_real(
      o->keys,
      within(o, "partial_rotary_factor", names->fraction ? names->fraction : "partial_rotary_factor", text),
      names->usual_fraction);
  if (!names->fraction && fraction != 1) /* which transformers does not read there */
    keys_fail(o->keys,
              "key 'partial_rotary_factor': expected 1, since heads turn as a whole in this family, found %g",
              fraction);
  set_method(o, config, "fraction", fraction, windowed);
  if (windowed) set_method(o, config, "window", (double)names->window, true);
  if (keys_failed(o->keys)) return;
  size_t turning = (size_t)floor(fraction * (double)head_size(config) + 1e-6);
  read_scaling(o, config, turning / 2);
}

/* ---- writing ---- */

double rope_keys_setting(const alibi_model_config *config, const char *name)
{
  const field *f = field_find(model_config_method(config)->fields, name);
  return f ? field_get_number(f, config->position_options.bytes) : 0;
}

/* "1/1.05/1.1", as a list of numbers. */
static json_node *list_of(const char *text)
{
  json_node *array = node_new_array();
  while (*text) {
    char *end;
    node_append_number(array, number_parse(text, &end));
    text = *end == '/' ? end + 1 : end + strlen(end);
  }
  return array;
}

/* Settings of an extension under their names there; 0 and true are what an absent key means. */
static void put_scaling(json_node *scaling, const json_node *settings)
{
  static const char *const renamed[][2] = {{"original_length", "original_max_position_embeddings"},
                                           {"short_factors", "short_factor"},
                                           {"long_factors", "long_factor"}};
  for (size_t i = 0; i < node_count(settings); i++) {
    const char *key;
    const json_node *value = node_member(settings, i, &key);
    for (size_t r = 0; r < sizeof renamed / sizeof *renamed; r++)
      if (strcmp(key, renamed[r][0]) == 0) key = renamed[r][1];
    switch (node_kind_of(value)) {
    case NODE_TEXT: node_set(scaling, key, list_of(node_text(value, ""))); break;
    case NODE_BOOLEAN:
      if (!node_boolean(value, true)) node_set_boolean(scaling, key, false);
      break;
    case NODE_INTEGER:
      if (node_integer(value, 0) != 0) node_set_integer(scaling, key, node_integer(value, 0));
      break;
    default:
      if (node_number(value, 0) != 0) node_set_number(scaling, key, node_number(value, 0));
      break;
    }
  }
}

void rope_keys_put(json_node *object, const alibi_model_config *config, const char *base)
{
  extension_choice own = model_config_extension(config);
  node_set_number(object, base, rope_keys_setting(config, "base"));
  if (!own.extension) return;
  json_node *scaling = node_new_object(), *settings = node_new_object();
  const field *original = field_find(own.extension->fields, "original_length");
  bool told = strcmp(own.extension->name, "linear") != 0 && strcmp(own.extension->name, "dynamic") != 0;
  double length = told ? (double)model_config_original_length(config) : 0;
  if (original && (!told || field_get_number(original, own.options.bytes) == 0))
    field_set_number(original, own.options.bytes, "", length, NULL);
  node_set_fields(settings, own.extension->fields, own.options.bytes);
  node_set_text(scaling, "rope_type", own.extension->name);
  put_scaling(scaling, settings);
  node_set(object, "rope_scaling", scaling);
  node_free(settings);
}

/* ---- GGUF ---- */

/* Divisors of the frequencies, as llama.cpp's converter has them for the scaling of Llama 3. */
static void read_divisors(family_opening *o, alibi_model_config *config, const file_tensor *t, size_t pairs)
{
  float values[ROPE_PAIRS_MAX];
  double divisors[ROPE_PAIRS_MAX];
  extension_words w = {.used = 0};
  if (t->dimensions != 1 || t->shape[0] != pairs || pairs > ROPE_PAIRS_MAX || !family_widen_small(t, values)) {
    keys_fail(o->keys,
              "tensor '%s': expected %zu divisors of frequencies (F32, F16 or BF16), found %zu of type %s",
              t->name, pairs, t->dimensions == 1 ? t->shape[0] : 0, tensor_type_name(t->type));
    return;
  }
  for (size_t p = 0; p < pairs; p++) divisors[p] = values[p];
  o->divisors = t;
  family_note(o->notes, "tensor '%s': divisors of the frequencies, read as factors of longrope", t->name);
  say(&w, "longrope");
  setting(&w, "factor", 1);
  list(o, &w, "short_factors", divisors, pairs);
  list(o, &w, "long_factors", divisors, pairs);
  if (!keys_failed(o->keys)) family_set(o, config, "extension", w.text);
}

void rope_keys_read_gguf(family_opening *o, alibi_model_config *config, bool adjacent)
{
  static const char *const no_effect[] = {"rope.scaling.finetuned", NULL};
  family_keys *k = o->keys;
  extension_words w = {.used = 0};
  size_t d = head_size(config);
  family_set(o, config, "position", "rope");
  family_set_number(o, config, "rope_base", keys_real(k, "rope.freq_base", 10000));
  int64_t turning = keys_size(k, "rope.dimension_count", (int64_t)d);
  family_set_number(o, config, "rope_fraction", (double)turning / (double)d);
  family_set(o, config, "rope_layout", adjacent ? "adjacent" : "half");
  keys_no_effect(k, no_effect);
  const file_tensor *divisors = family_tensor(o, "rope_freqs.weight");
  const char *type = keys_text(k, "rope.scaling.type", keys_have(k, "rope.scale_linear") ? "linear" : "none");
  double factor = keys_real(k, "rope.scaling.factor|rope.scale_linear", 1);
  if (keys_failed(k)) return;
  if (divisors) {
    if (strcmp(type, "none") != 0 && factor != 1)
      keys_fail(k, "key '%srope.scaling.type': expected none beside the tensor rope_freqs.weight, found '%s'",
                keys_prefix(k), type);
    read_divisors(o, config, divisors, (size_t)turning / 2);
  } else if (strcmp(type, "linear") == 0 && factor != 1) {
    say(&w, "linear");
    setting(&w, "factor", factor);
    family_set(o, config, "extension", w.text);
  } else if (strcmp(type, "yarn") == 0) {
    say(&w, "yarn");
    setting(&w, "factor", factor);
    setting(&w, "original_length",
            (double)keys_size(k, "rope.scaling.original_context_length", config->train_length));
    keys_expect_integer(k, "rope.scaling.attn_factor|rope.scaling.yarn_attn_factor", 1);
    keys_expect_integer(k, "rope.scaling.yarn_ext_factor", 1);
    double fast = keys_real(k, "rope.scaling.yarn_beta_fast", 32),
           slow = keys_real(k, "rope.scaling.yarn_beta_slow", 1);
    setting(&w, "beta_fast", fast);
    setting(&w, "beta_slow", slow);
    family_set(o, config, "extension", w.text);
  } else if (strcmp(type, "none") != 0 && strcmp(type, "linear") != 0) {
    keys_fail(k, "key '%srope.scaling.type': expected none, linear or yarn, found '%s'", keys_prefix(k), type);
  }
}
