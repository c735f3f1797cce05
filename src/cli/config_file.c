/* Settings from a file.  A key goes the way of an option: its name is looked up in the tables of the command, its
 * value is set by the field; what was typed is known by then and stays. */
#include "cli/config_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "cli/options.h"

enum { KEY_SIZE = 128 };

static const char CONFIG[] = "config", TEXTS[] = "texts";

void command_add_config(command_line *line, const char **path)
{
  *path = NULL;
  command_add_text(line, CONFIG, "FILE", path,
                   "settings from a JSON file: the names of options with _ for -, and texts; what is typed wins");
}

static const char *config_path(const command_line *line)
{
  for (size_t i = 0; i < line->text_count; i++)
    if (line->texts[i].value && strcmp(line->texts[i].name, CONFIG) == 0) return *line->texts[i].value;
  return NULL;
}

/* "--rope-base" from "rope_base" (or "rope-base"); false where the key can be no name of an option. */
static bool option_of_key(const char *key, char option[KEY_SIZE])
{
  if (strlen(key) + 3 > KEY_SIZE || !*key) return false;
  field_option("", key, option, KEY_SIZE);
  return true;
}

static void key_of_option(const char *option, char key[KEY_SIZE])
{
  snprintf(key, KEY_SIZE, "%s", option + strspn(option, "-"));
  for (char *c = key; *c; c++)
    if (*c == '-') *c = '_';
}

static status unknown_key(const command_line *line, const char *path, const char *key, alibi_error *error)
{
  char option[KEY_SIZE], near[KEY_SIZE];
  nearest_name nearest = {.typed = option};
  found_option found;
  if (option_of_key(key, option)) {
    if (command_line_find(line, option, &found) && found.negated) {
      key_of_option(option + strlen("--no-"), near);
      return fail(error, ALIBI_BAD_INPUT, "%s: unknown key '%s'; did you mean '%s' with the value false?", path,
                  key, near);
    }
    command_line_nearest(line, false, &nearest);
    nearest_consider(&nearest, "--texts");
  }
  if (!nearest.best[0])
    return fail(error, ALIBI_BAD_INPUT, "%s: unknown key '%.100s'; keys are the names of options with _ for -",
                path, key);
  key_of_option(nearest.best, near);
  return fail(error, ALIBI_BAD_INPUT, "%s: unknown key '%.100s'; did you mean '%s'?", path, key, near);
}

/* Takes over a malloc'd text; NULL is memory that ran out. */
static status keep_text(command_line *line, char *text, const char **kept, alibi_error *error)
{
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory for the settings of a file");
  status result = memory_grow(&line->file_texts, &line->file_text_capacity, line->file_text_count + 1,
                              sizeof *line->file_texts, "the settings of a file", error);
  if (result != ALIBI_OK) {
    free(text);
    return result;
  }
  line->file_texts[line->file_text_count++] = text;
  *kept = text;
  return ALIBI_OK;
}

/* As few digits as read back the same. */
static void write_number(FILE *stream, double value)
{
  char text[NUMBER_SIZE];
  number_text(value, text);
  fputs(text, stream);
}

/* A text, a number, or an array of them as a list with commas; malloc'd, NULL where it is nothing like that (or
 * memory is out). */
static char *joined_text(const json_node *value)
{
  char *text = NULL;
  size_t size = 0;
  node_kind kind = node_kind_of(value);
  FILE *stream = open_memstream(&text, &size);
  bool good = stream && (kind != NODE_ARRAY || node_count(value) > 0);
  for (size_t i = 0; good && i < (kind == NODE_ARRAY ? node_count(value) : 1); i++) {
    const json_node *item = kind == NODE_ARRAY ? node_at(value, i) : value;
    node_kind is = node_kind_of(item);
    if (i) fputc(',', stream);
    if (is == NODE_TEXT) fputs(node_text(item, ""), stream);
    else if (is == NODE_INTEGER) fprintf(stream, "%lld", (long long)node_integer(item, 0));
    else if (is == NODE_REAL) write_number(stream, node_number(item, 0));
    else good = false;
  }
  if (stream && fclose(stream) != 0) good = false;
  if (good) return text;
  free(text);
  return NULL;
}

static const char *kind_of(const json_node *value)
{
  switch (node_kind_of(value)) {
  case NODE_NULL: return "null";
  case NODE_BOOLEAN: return "true or false";
  case NODE_INTEGER:
  case NODE_REAL: return "a number";
  case NODE_TEXT: return *node_text(value, "") ? "a text" : "an empty text";
  case NODE_ARRAY: return node_count(value) ? "a list" : "an empty list";
  case NODE_OBJECT: break;
  }
  return "an object";
}

static bool is_number(const json_node *value)
{
  return node_kind_of(value) == NODE_INTEGER || node_kind_of(value) == NODE_REAL;
}

/* called: "run.json: steps". */
static status set_field(const found_option *found, const char *called, const json_node *value, alibi_error *error)
{
  const field *f = found->field;
  switch (f->kind) {
  case FIELD_INTEGER:
  case FIELD_REAL:
    if (!is_number(value))
      return fail(error, ALIBI_BAD_INPUT, "%s: expected a number, found %s", called, kind_of(value));
    return field_set_number(f, found->values, called, node_number(value, 0), error);
  case FIELD_BOOLEAN:
    if (node_kind_of(value) != NODE_BOOLEAN)
      return fail(error, ALIBI_BAD_INPUT, "%s: expected true or false, found %s", called, kind_of(value));
    return field_set_number(f, found->values, called, node_boolean(value, false), error);
  case FIELD_CHOICE:
  case FIELD_TEXT: break;
  }
  char *text = joined_text(value);
  if (!text || !*text) {
    free(text);
    return fail(error, ALIBI_BAD_INPUT, "%s: expected a text, found %s", called, kind_of(value));
  }
  status result = field_set_text(f, found->values, called, text, error);
  free(text);
  return result;
}

/* A list, or one text. */
static status set_texts(command_line *line, const found_option *found, const char *called, const json_node *value,
                        alibi_error *error)
{
  size_t count = node_kind_of(value) == NODE_ARRAY ? node_count(value) : 1;
  for (size_t i = 0; i < count; i++) {
    const json_node *item = node_kind_of(value) == NODE_ARRAY ? node_at(value, i) : value;
    const char *text = node_text(item, ""), *kept = NULL;
    if (!*text)
      return fail(error, ALIBI_BAD_INPUT, "%s: expected %s, a text or a list, found %s", called,
                  found->text->placeholder, kind_of(item));
    status result = keep_text(line, strdup(text), &kept, error);
    if (result == ALIBI_OK) result = text_values_add(found->text->values, kept, error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

static status set_value(command_line *line, const found_option *found, const char *called, const json_node *value,
                        alibi_error *error)
{
  if (found->field) return set_field(found, called, value, error);
  if (found->text->values) return set_texts(line, found, called, value, error);
  char *text = joined_text(value);
  if (!text || !*text) {
    free(text);
    return fail(error, ALIBI_BAD_INPUT, "%s: expected %s, a text or a list, found %s", called,
                found->text->placeholder, kind_of(value));
  }
  return keep_text(line, text, found->text->value, error);
}

static status set_operands(command_line *line, const char *path, const json_node *value, alibi_error *error)
{
  size_t count = node_count(value);
  if (node_kind_of(value) != NODE_ARRAY || count == 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: %s: expected a list of files", path, TEXTS);
  if (line->operand_count > 0) return ALIBI_OK;
  const char **operands = realloc(line->operands, count * sizeof *operands);
  if (!operands) return fail(error, ALIBI_FAILED, "not enough memory for %zu texts", count);
  line->operands = operands;
  for (size_t i = 0; i < count; i++) {
    const char *text = node_text(node_at(value, i), NULL);
    if (!text || !*text) return fail(error, ALIBI_BAD_INPUT, "%s: %s: expected a list of files", path, TEXTS);
    status result = keep_text(line, strdup(text), &operands[i], error);
    if (result != ALIBI_OK) return result;
    line->operand_count = i + 1;
  }
  return ALIBI_OK;
}

/* Options given so far, before the key: those that were typed, and the keys above it. */
static status take_key(command_line *line, size_t typed, const char *path, const char *key, const json_node *value,
                       alibi_error *error)
{
  char option[KEY_SIZE], called[1024];
  found_option found;
  if (!option_of_key(key, option) || !command_line_find(line, option, &found) || found.negated)
    return unknown_key(line, path, key, error);
  if (found.text && strcmp(found.given_name, CONFIG) == 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: config: expected none, since a file of settings names no other",
                path);
  snprintf(called, sizeof called, "%s: %s", path, key);
  command_line before = *line;
  before.given_count = typed;
  if (command_line_given(&before, found.values, found.given_name)) return ALIBI_OK;
  if (command_line_given(line, found.values, found.given_name))
    return fail(error, ALIBI_BAD_INPUT, "%s: given more than once", called);
  status result = command_line_note(line, &found, option, error);
  if (result != ALIBI_OK) return result;
  result = set_value(line, &found, called, value, error);
  return result == ALIBI_INVALID ? ALIBI_BAD_INPUT : result; /* the sentence is about a file */
}

status config_file_read(command_line *line, const command *c, alibi_error *error)
{
  const char *path = config_path(line);
  json_node *root = NULL;
  size_t typed = line->given_count;
  status result = ALIBI_OK;
  if (!path) return ALIBI_OK;
  TRY(node_read_file(path, &root, error));
  if (node_kind_of(root) != NODE_OBJECT)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected an object with the names of options as its keys, found %s", path,
          kind_of(root));
  for (size_t i = 0; i < node_count(root); i++) {
    const char *key;
    const json_node *value = node_member(root, i, &key);
    if (c->operands && strcmp(key, TEXTS) == 0) TRY(set_operands(line, path, value, error));
    else TRY(take_key(line, typed, path, key, value, error));
  }
done:
  node_free(root);
  return result;
}

/* ---- agreeing with a record ---- */

static bool is_listed(const char *const *names, const char *name)
{
  for (; *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

/* The value of one option as config_file_node writes it; *text malloc'd, NULL where it writes none. */
static char *value_text(const json_node *value)
{
  return value ? node_kind_of(value) == NODE_BOOLEAN ? strdup(node_boolean(value, false) ? "true" : "false")
                                                     : joined_text(value)
               : NULL;
}

static status agree(const char *option, const json_node *record, const json_node *typed, const char *what,
                    alibi_error *error)
{
  const char *key;
  const json_node *value = node_member(typed, 0, &key);
  char *expected = value_text(node_get(record, key)), *found = value_text(value);
  status result = ALIBI_OK;
  if (!expected)
    result = fail(error, ALIBI_INVALID, "%s: expected none, as in %s, found %.200s", option, what,
                  found ? found : "one");
  else if (!found || strcmp(expected, found) != 0)
    result = fail(error, ALIBI_INVALID, "%s: expected %.200s, as in %s, found %.200s", option, expected, what,
                  found ? found : "nothing");
  free(found);
  free(expected);
  return result;
}

static void write_field(json_node *node, const char *key, const field *f, const void *values);
static void write_text(json_node *node, const char *key, const text_option *t);

static status agree_options(const command_line *line, const json_node *record, const char *what,
                            const char *const *free_names, alibi_error *error)
{
  char option[KEY_SIZE], key[KEY_SIZE];
  status result = ALIBI_OK;
  for (size_t g = 0; result == ALIBI_OK && g < line->group_count; g++)
    for (size_t i = 0; result == ALIBI_OK && i < line->groups[g].table.count; i++) {
      const option_group *group = &line->groups[g];
      const field *f = &group->table.fields[i];
      if (is_listed(free_names, f->name) || !command_line_given(line, group->values, f->name)) continue;
      json_node *typed = node_new_object();
      field_option(group->prefix, f->name, option, sizeof option);
      key_of_option(option, key);
      write_field(typed, key, f, group->values);
      result = agree(option, record, typed, what, error);
      node_free(typed);
    }
  for (size_t i = 0; result == ALIBI_OK && i < line->text_count; i++) {
    const text_option *t = &line->texts[i];
    const void *values = t->values ? (const void *)t->values : (const void *)t->value;
    if (strcmp(t->name, CONFIG) == 0 || is_listed(free_names, t->name) ||
        !command_line_given(line, values, t->name))
      continue;
    json_node *typed = node_new_object();
    field_option("", t->name, option, sizeof option);
    key_of_option(option, key);
    write_text(typed, key, t);
    result = agree(option, record, typed, what, error);
    node_free(typed);
  }
  return result;
}

static status agree_operands(const command_line *line, const json_node *record, const char *what,
                             alibi_error *error)
{
  const json_node *list = node_get(record, TEXTS);
  bool same = line->operand_count == node_count(list);
  for (size_t i = 0; same && i < line->operand_count; i++)
    same = strcmp(line->operands[i], node_text(node_at(list, i), "")) == 0;
  if (same || line->operand_count == 0) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "texts: expected %s%.200s%s, as in %s, found %.200s%s",
              node_count(list) > 1 ? "those from " : "", node_text(node_at(list, 0), "none"),
              node_count(list) > 1 ? " on" : "", what, line->operands[0],
              line->operand_count > 1 ? " and others" : "");
}

status config_file_agree(command_line *line, const json_node *record, const char *what,
                         const char *const *free_names, alibi_error *error)
{
  size_t typed = line->given_count;
  status result;
  TRY(agree_options(line, record, what, free_names, error));
  TRY(agree_operands(line, record, what, error));
  for (size_t i = 0; i < node_count(record); i++) {
    const char *key;
    const json_node *value = node_member(record, i, &key);
    if (strcmp(key, TEXTS) == 0) TRY(set_operands(line, what, value, error));
    else TRY(take_key(line, typed, what, key, value, error));
  }
done:
  return result;
}

/* ---- writing ---- */

static void write_field(json_node *node, const char *key, const field *f, const void *values)
{
  char text[1024];
  double number = field_get_number(f, values);
  switch (f->kind) {
  case FIELD_INTEGER: node_set_integer(node, key, (int64_t)number); break;
  case FIELD_REAL: node_set_number(node, key, number); break;
  case FIELD_BOOLEAN: node_set_boolean(node, key, number != 0); break;
  case FIELD_CHOICE:
  case FIELD_TEXT:
    field_get_text(f, values, text, sizeof text);
    if (*text) node_set_text(node, key, text);
    break;
  }
}

static void write_text(json_node *node, const char *key, const text_option *t)
{
  if (!t->values) {
    node_set_text(node, key, *t->value);
    return;
  }
  json_node *list = node_new_array();
  for (size_t i = 0; i < t->values->count; i++) node_append_text(list, t->values->items[i]);
  node_set(node, key, list);
}

json_node *config_file_node(const command_line *line, bool (*wanted)(const void *values, const char *name))
{
  json_node *node = node_new_object();
  char option[KEY_SIZE], key[KEY_SIZE];
  for (size_t i = 0; i < line->text_count; i++) {
    const text_option *t = &line->texts[i];
    const void *values = t->values ? (const void *)t->values : (const void *)t->value;
    bool empty = t->values ? t->values->count == 0 : !*t->value;
    if (empty || strcmp(t->name, CONFIG) == 0 || !wanted(values, t->name)) continue;
    field_option("", t->name, option, sizeof option);
    key_of_option(option, key);
    write_text(node, key, t);
  }
  for (size_t g = 0; g < line->group_count; g++)
    for (size_t i = 0; i < line->groups[g].table.count; i++) {
      const option_group *group = &line->groups[g];
      const field *f = &group->table.fields[i];
      if (!wanted(group->values, f->name)) continue;
      field_option(group->prefix, f->name, option, sizeof option);
      key_of_option(option, key);
      write_field(node, key, f, group->values);
    }
  if (line->operand_count) {
    json_node *texts = node_new_array();
    for (size_t i = 0; i < line->operand_count; i++) node_append_text(texts, line->operands[i]);
    node_set(node, TEXTS, texts);
  }
  return node;
}
