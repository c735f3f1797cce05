/* The configuration as a flat list of paths and values, each with a mark when it is asked for.  A public model's
 * configuration can change its numbers by any key; so nothing may be skipped in silence, and what families know to
 * be without effect they have to say. */
#include "model/families/family_keys.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

typedef struct key_entry {
  char *path;
  const json_node *node; /* a value or an array; of an object only one that is empty, or whole (is_whole) */
  bool asked, idle; /* idle: known to be without effect */
} key_entry;

struct family_keys {
  const char *what, *prefix;
  family_notes *notes;
  key_entry *entries;
  size_t count, capacity;
  alibi_error first;
};

/* Keys of the library that saves configurations: how it is run, trained, generated from. */
/* clang-format off */
static const char *const without_effect[] = {
    "architectures", "auto_map*", "model_type", "torch_dtype", "dtype", "transformers_version", "_name_or_path",
    "name_or_path", "_commit_hash", "license", "tokenizer_class", "tokenizer_name", "vocab_file", "unsloth_*",
    "transformers.js_config*", "use_cache", "*_token_id", "*dropout*", "*_pdrop", "initializer_range",
    "init_std", "gradient_checkpointing*", "use_return_dict", "return_dict", "output_attentions",
    "output_hidden_states", "torchscript", "id2label*", "label2id*", "num_labels", "_num_labels", "problem_type",
    "output_past",
    "task_specific_params*", "finetuning_task", "keys_to_ignore_at_inference", "attn_implementation",
    "_attn_implementation*", "_flash_attn_2_enabled", "use_flash_attn", "use_flash_attention",
    "chunk_size_feed_forward", "is_decoder", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "typical_p", "tf_legacy_loss", "use_bfloat16", "temperature",
    "top_k", "top_p", "repetition_penalty", "do_sample", "num_beams", "num_beam_groups", "num_return_sequences",
    "max_length", "min_length", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "diversity_penalty", "early_stopping", "bad_words_ids", "output_scores", "return_dict_in_generate", "prefix",
    "summary_*", "pretraining_tp",
    NULL};
/* clang-format on */

/* The same of GGUF files: names, texts, how they were made. */
static const char *const without_effect_gguf[] = {"general.*",  "tokenizer.*", "split.*",
                                                  "quantize.*", "imatrix.*",   NULL};

/* What would be another model. */
static const char *const must_be_false[] = {"is_encoder_decoder", "add_cross_attention", "tie_encoder_decoder",
                                            "cross_attention_hidden_size", NULL};

bool keys_match(const char *pattern, const char *name)
{
  while (*pattern && *pattern != '*')
    if (*pattern++ != *name++) return false;
  if (*pattern == '\0') return *name == '\0';
  for (;; name++) {
    if (keys_match(pattern + 1, name)) return true;
    if (*name == '\0') return false;
  }
}

static status add(family_keys *keys, const char *path, const json_node *node, alibi_error *error)
{
  status result = memory_grow(&keys->entries, &keys->capacity, keys->count + 1, sizeof *keys->entries,
                              "the keys of a configuration", error);
  if (result != ALIBI_OK) return result;
  char *own = malloc(strlen(path) + 1);
  if (!own) return fail(error, ALIBI_FAILED, "not enough memory for the keys of a configuration");
  keys->entries[keys->count++] = (key_entry){.path = strcpy(own, path), .node = node};
  return ALIBI_OK;
}

enum {
  PATH_MOST = 512,     /* each key has its whole path */
  KEYS_MOST = 1 << 12, /* each is compared with all that is asked for; public models have some hundred */
  TEXT_MOST = 256      /* of a value, for sentences that repeat it; those we know are names */
};

/* Objects of any size without effect: one key, whatever is in them. */
static bool is_whole(const char *path)
{
  static const char *const names[] = {"id2label", "label2id", "auto_map", "task_specific_params", NULL};
  for (size_t n = 0; names[n]; n++)
    if (strcmp(path, names[n]) == 0) return true;
  return false;
}

/* All values of an object whose own path is given; 64 levels at most (file/json.h). */
static status flatten(family_keys *keys, const char *path, const json_node *object, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0; i < node_count(object); i++) {
    const char *key;
    const json_node *node = node_member(object, i, &key);
    size_t size = strlen(path) + strlen(key) + 2;
    if (size > PATH_MOST || keys->count == KEYS_MOST)
      return fail(error, ALIBI_BAD_INPUT, "%s: key '%.40s': expected at most %d keys of at most %d bytes",
                  keys->what, key, KEYS_MOST, PATH_MOST);
    char *full = malloc(size);
    if (!full) return fail(error, ALIBI_FAILED, "not enough memory for the keys of a configuration");
    size_t before = strlen(path);
    memcpy(full, path, before);
    if (before > 0) full[before++] = '.';
    memcpy(full + before, key, strlen(key) + 1);
    bool inner = node_kind_of(node) == NODE_OBJECT && node_count(node) > 0 && !is_whole(full);
    result = inner ? flatten(keys, full, node, error) : add(keys, full, node, error);
    free(full);
    if (result != ALIBI_OK) break;
  }
  return result;
}

/* The path is that key or within it. */
static bool is_within(const char *path, const char *key)
{
  size_t size = strlen(key);
  return strncmp(path, key, size) == 0 && (path[size] == '\0' || path[size] == '.');
}

static status ignore(family_keys *keys, const char *const *names, alibi_error *error)
{
  for (size_t n = 0; names && names[n]; n++) {
    size_t found = 0, kept = 0;
    for (size_t i = 0; i < keys->count; i++) {
      if (!is_within(keys->entries[i].path, names[n])) {
        keys->entries[kept++] = keys->entries[i];
        continue;
      }
      found++;
      free(keys->entries[i].path);
    }
    keys->count = kept;
    if (found == 0)
      return fail(error, ALIBI_INVALID, "ignore_config: expected keys of %s, found '%s', which is none",
                  keys->what, names[n]);
    family_note(keys->notes, "key '%s': ignored, as asked", names[n]);
  }
  return ALIBI_OK;
}

status keys_new(const json_node *object, const char *what, const char *prefix, const char *const *ignored,
                family_notes *notes, family_keys **out, alibi_error *error)
{
  family_keys *keys = NULL;
  status result;
  *out = NULL;
  if (node_kind_of(object) != NODE_OBJECT)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected an object with the keys of a model, found none", what);
  TRY(memory_new(&keys, 1, sizeof *keys, "the keys of a configuration", error));
  keys->what = what;
  keys->prefix = prefix;
  keys->notes = notes;
  TRY(flatten(keys, "", object, error));
  TRY(ignore(keys, ignored, error));
  *out = keys;
  return ALIBI_OK;
done:
  keys_free(keys);
  return result;
}

void keys_free(family_keys *keys)
{
  if (!keys) return;
  for (size_t i = 0; i < keys->count; i++) free(keys->entries[i].path);
  free(keys->entries);
  memory_free(keys);
}

const char *keys_prefix(const family_keys *keys)
{
  return keys->prefix;
}

bool keys_failed(const family_keys *keys)
{
  return keys->first.status != ALIBI_OK;
}

void keys_fail(family_keys *keys, const char *format, ...)
{
  char text[sizeof keys->first.message];
  va_list arguments;
  if (keys_failed(keys)) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fail(&keys->first, ALIBI_BAD_INPUT, "%s: %s", keys->what, text);
}

enum { NAME_SIZE = 160 };

/* One of the spellings in a list, with the prefix; false at the end. */
static bool next_name(const family_keys *keys, const char **names, char name[NAME_SIZE])
{
  if (!**names) return false;
  size_t size = strcspn(*names, "|");
  snprintf(name, NAME_SIZE, "%s%.*s", keys->prefix, (int)size, *names);
  *names += size + ((*names)[size] == '|');
  return true;
}

static key_entry *find(const family_keys *keys, const char *name)
{
  for (size_t i = 0; i < keys->count; i++)
    if (strcmp(keys->entries[i].path, name) == 0) return &keys->entries[i];
  return NULL;
}

bool keys_have(const family_keys *keys, const char *names)
{
  char name[NAME_SIZE];
  while (next_name(keys, &names, name))
    for (size_t i = 0; i < keys->count; i++)
      if (is_within(keys->entries[i].path, name) && node_kind_of(keys->entries[i].node) != NODE_NULL) return true;
  return false;
}

bool keys_are_null(const family_keys *keys, const char *name)
{
  const key_entry *entry = find(keys, name);
  return entry && node_kind_of(entry->node) == NODE_NULL;
}

static bool same(const json_node *a, const json_node *b)
{
  char *first = node_to_text(a), *second = node_to_text(b);
  bool result = first && second && strcmp(first, second) == 0;
  free(first);
  free(second);
  return result;
}

/* The value of a key under any of its spellings, marked as asked for; NULL where it is absent or null. */
static const key_entry *ask(family_keys *keys, const char *names)
{
  char name[NAME_SIZE];
  key_entry *found = NULL;
  while (next_name(keys, &names, name)) {
    key_entry *entry = find(keys, name);
    if (!entry) continue;
    entry->asked = true;
    if (node_kind_of(entry->node) == NODE_NULL) continue;
    if (found && !same(found->node, entry->node))
      keys_fail(keys, "keys '%s' and '%s': expected one value, since they mean the same, found two", found->path,
                entry->path);
    if (!found) found = entry;
  }
  return found;
}

/* The name for a sentence about a key that is absent. */
static void absent(family_keys *keys, const char *names, const char *expected)
{
  char name[NAME_SIZE];
  bool object = keys_have(keys, names);
  next_name(keys, &names, name);
  keys_fail(keys, "key '%s': expected %s, found %s", name, expected, object ? "an object" : "none");
}

static void wrong(family_keys *keys, const key_entry *entry, const char *expected)
{
  char *text = node_to_text(entry->node);
  keys_fail(keys, "key '%s': expected %s, found %.80s", entry->path, expected, text ? text : "something else");
  free(text);
}

int64_t keys_integer(family_keys *keys, const char *names, int64_t least, int64_t otherwise)
{
  const int64_t MOST = (int64_t)1 << 40;
  char expected[64];
  const key_entry *entry = ask(keys, names);
  snprintf(expected, sizeof expected, "an integer of at least %lld", (long long)least);
  if (!entry) {
    if (otherwise == KEYS_REQUIRED) absent(keys, names, expected);
    return otherwise == KEYS_REQUIRED ? least : otherwise;
  }
  double value = node_number(entry->node, NAN);
  if (value > (double)MOST)
    snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)least, (long long)MOST);
  if (!(value >= (double)least && value <= (double)MOST && floor(value) == value)) {
    wrong(keys, entry, expected);
    return otherwise == KEYS_REQUIRED ? least : otherwise;
  }
  return (int64_t)value;
}

int64_t keys_size(family_keys *keys, const char *names, int64_t otherwise)
{
  return keys_integer(keys, names, 1, otherwise);
}

double keys_real(family_keys *keys, const char *names, double otherwise)
{
  const key_entry *entry = ask(keys, names);
  if (!entry) return otherwise;
  double value = node_number(entry->node, NAN);
  if (node_kind_of(entry->node) == NODE_TEXT && number_read(node_text(entry->node, ""), &value))
    family_note(keys->notes, "key '%s': a text, read as the number %g", entry->path, value);
  if (isfinite(value)) return value;
  wrong(keys, entry, "a number");
  return otherwise;
}

bool keys_boolean(family_keys *keys, const char *names, bool otherwise)
{
  const key_entry *entry = ask(keys, names);
  if (!entry) return otherwise;
  if (node_kind_of(entry->node) == NODE_BOOLEAN) return node_boolean(entry->node, otherwise);
  wrong(keys, entry, "true or false");
  return otherwise;
}

const char *keys_text(family_keys *keys, const char *names, const char *otherwise)
{
  const key_entry *entry = ask(keys, names);
  if (!entry) return otherwise;
  const char *text = node_text(entry->node, NULL);
  if (text && strlen(text) <= TEXT_MOST) return text;
  wrong(keys, entry, text ? "a shorter text" : "a text");
  return otherwise;
}

bool keys_is_text(const family_keys *keys, const char *names, const char *text)
{
  char name[NAME_SIZE];
  while (next_name(keys, &names, name)) {
    const key_entry *entry = find(keys, name);
    if (entry && strcmp(node_text(entry->node, ""), text) == 0) return true;
  }
  return false;
}

const json_node *keys_array(family_keys *keys, const char *names)
{
  const key_entry *entry = ask(keys, names);
  if (!entry || node_kind_of(entry->node) == NODE_ARRAY) return entry ? entry->node : NULL;
  wrong(keys, entry, "a list");
  return NULL;
}

void keys_expect_boolean(family_keys *keys, const char *names, bool value)
{
  if (keys_boolean(keys, names, value) == value) return;
  wrong(keys, ask(keys, names), value ? "true, all that is known to run" : "false, all that is known to run");
}

void keys_expect_text(family_keys *keys, const char *names, const char *value)
{
  char expected[NAME_SIZE];
  if (strcmp(keys_text(keys, names, value), value) == 0) return;
  snprintf(expected, sizeof expected, "\"%s\", all that is known to run", value);
  wrong(keys, ask(keys, names), expected);
}

void keys_expect_integer(family_keys *keys, const char *names, int64_t value)
{
  char expected[NAME_SIZE];
  if (keys_integer(keys, names, -1, value) == value || keys_failed(keys)) return;
  snprintf(expected, sizeof expected, "%lld, all that is known to run", (long long)value);
  wrong(keys, ask(keys, names), expected);
}

void keys_no_effect(family_keys *keys, const char *const *names)
{
  char name[NAME_SIZE];
  for (size_t n = 0; names && names[n]; n++) {
    snprintf(name, sizeof name, "%s%s", keys->prefix, names[n]);
    for (size_t i = 0; i < keys->count; i++) {
      key_entry *entry = &keys->entries[i];
      if (entry->asked || !keys_match(name, entry->path)) continue;
      entry->asked = entry->idle = true;
    }
  }
}

static void check_false(family_keys *keys)
{
  char name[NAME_SIZE];
  for (size_t n = 0; must_be_false[n]; n++) {
    snprintf(name, sizeof name, "%s%s", keys->prefix, must_be_false[n]);
    key_entry *entry = find(keys, name);
    if (!entry || node_kind_of(entry->node) == NODE_NULL) continue;
    entry->asked = true;
    if (node_kind_of(entry->node) != NODE_BOOLEAN || node_boolean(entry->node, true)) wrong(keys, entry, "false");
  }
}

void keys_saved_within(family_keys *keys, const char *within)
{
  static const char *const of_the_whole[] = {"tie_word_embeddings", "pruned_heads*", NULL};
  const char *prefix = keys->prefix;
  keys->prefix = within;
  check_false(keys);
  keys_no_effect(keys, without_effect);
  keys_no_effect(keys, of_the_whole);
  keys->prefix = prefix;
}

/* null is how a configuration says that something is not used. */
static bool is_nothing(const json_node *node)
{
  return node_kind_of(node) == NODE_NULL || (node_kind_of(node) == NODE_OBJECT && node_count(node) == 0);
}

/* One line for all, in the order of the configuration; without memory none. */
static void note_idle(const family_keys *keys)
{
  size_t size = 1, used = 0;
  for (size_t i = 0; i < keys->count; i++) size += strlen(keys->entries[i].path) + 2;
  char *list = malloc(size);
  for (size_t i = 0; list && i < keys->count; i++)
    if (keys->entries[i].idle && strncmp(keys->entries[i].path, "tokenizer.", 10) != 0) /* those another reads */
      used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "", keys->entries[i].path);
  if (used > 0) family_note(keys->notes, "keys without effect: %s", list);
  free(list);
}

status keys_finish(family_keys *keys, alibi_error *error)
{
  const char *prefix = keys->prefix;
  keys->prefix = "";
  check_false(keys);
  keys_no_effect(keys, *prefix ? without_effect_gguf : without_effect);
  keys->prefix = prefix;
  for (size_t i = 0; i < keys->count && !keys_failed(keys); i++) {
    key_entry *entry = &keys->entries[i];
    if (entry->asked) continue;
    if (is_nothing(entry->node)) entry->idle = true;
    else
      keys_fail(keys,
                "key '%s': expected a key that is understood, since one that is not may change numbers (it can be "
                "ignored: --ignore-config %s)",
                entry->path, entry->path);
  }
  if (keys_failed(keys)) return fail(error, keys->first.status, "%s", keys->first.message);
  note_idle(keys);
  return ALIBI_OK;
}
