/* JSON: jansson reads, this file keeps the tree and writes it.  The one idea: the tree is our own because callers
 * walk large objects by index (a vocabulary has 100,000 keys), and because jansson prints 0.1 as
 * 0.10000000000000001 where 17 digits are asked for; finding a key in a large object is jansson's hash table. */
#include "file/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"

enum {
  MAX_DEPTH = 64,
  MAX_VALUES = 1 << 22, /* the largest tokenizers have 2 million */
  INDEX_FROM = 8 /* objects with more members get an index; below, comparing is as fast */
};

struct json_node {
  node_kind kind;
  bool failed; /* memory ran out below or at this node */
  char *key;   /* where the parent is an object */
  union {
    bool boolean;
    int64_t integer;
    double real;
    char *text;
    struct {
      json_node **child;
      size_t count, capacity;
      json_t *index; /* key -> place; NULL while the object is small */
    } list;
  } value;
};

static const char *kind_name(node_kind kind)
{
  switch (kind) {
  case NODE_NULL: return "null";
  case NODE_BOOLEAN: return "a boolean";
  case NODE_INTEGER: return "an integer";
  case NODE_REAL: return "a number";
  case NODE_TEXT: return "a text";
  case NODE_ARRAY: return "an array";
  case NODE_OBJECT: return "an object";
  }
  return "nothing";
}

static bool is_list(const json_node *node)
{
  return node && (node->kind == NODE_ARRAY || node->kind == NODE_OBJECT);
}

/* ---- the tree ---- */

static json_node *node_new(node_kind kind)
{
  json_node *node = calloc(1, sizeof *node);
  if (node) node->kind = kind;
  return node;
}

json_node *node_new_object(void)
{
  return node_new(NODE_OBJECT);
}

json_node *node_new_array(void)
{
  return node_new(NODE_ARRAY);
}

void node_free(json_node *root)
{
  if (!root) return;
  if (is_list(root)) {
    for (size_t i = 0; i < root->value.list.count; i++) node_free(root->value.list.child[i]);
    free(root->value.list.child);
    json_decref(root->value.list.index);
  } else if (root->kind == NODE_TEXT) {
    free(root->value.text);
  }
  free(root->key);
  free(root);
}

/* Bytes of the valid UTF-8 sequence at `text`, 0 where there is none (also for surrogates and overlong forms). */
static size_t utf8_length(const unsigned char *text)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (text[0] < 0x80) return 1;
  size_t length = (text[0] & 0xE0) == 0xC0 ? 2 : (text[0] & 0xF0) == 0xE0 ? 3 : (text[0] & 0xF8) == 0xF0 ? 4 : 0;
  uint32_t point = text[0] & (0x7Fu >> length);
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xC0) != 0x80) return 0;
    point = point << 6 | (text[i] & 0x3Fu);
  }
  if (length == 0 || point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return 0;
  return length;
}

/* A copy in which bytes that are no UTF-8 (a file name may hold any) became U+FFFD. */
static char *copy_text(const char *text)
{
  static const char replacement[] = "\xEF\xBF\xBD";
  const char *good = text;
  for (size_t length; *good && (length = utf8_length((const unsigned char *)good)) > 0;) good += length;
  if (!*good) return strdup(text);
  char *copy = malloc(size_add(size_mul(strlen(text), 3), 1));
  if (!copy) return NULL;
  char *to = copy;
  for (const char *from = text; *from;) {
    size_t length = utf8_length((const unsigned char *)from);
    memcpy(to, length ? from : replacement, length ? length : 3);
    to += length ? length : 3;
    from += length ? length : 1;
  }
  *to = '\0';
  char *fitted = realloc(copy, (size_t)(to - copy) + 1);
  return fitted ? fitted : copy;
}

static json_node *new_text(const char *text)
{
  if (!text) return node_new(NODE_NULL);
  json_node *node = node_new(NODE_TEXT);
  if (node && !(node->value.text = copy_text(text))) node->failed = true;
  return node;
}

static json_node *new_number(double value)
{
  json_node *node = node_new(isfinite(value) ? NODE_REAL : NODE_NULL);
  if (node && isfinite(value)) node->value.real = value;
  return node;
}

static json_node *new_integer(int64_t value)
{
  json_node *node = node_new(NODE_INTEGER);
  if (node) node->value.integer = value;
  return node;
}

static json_node *new_boolean(bool value)
{
  json_node *node = node_new(NODE_BOOLEAN);
  if (node) node->value.boolean = value;
  return node;
}

static bool index_add(json_node *object, const char *key, size_t place)
{
  return json_object_set_new(object->value.list.index, key, json_integer((json_int_t)place)) == 0;
}

static bool index_build(json_node *object)
{
  object->value.list.index = json_object();
  bool complete = object->value.list.index != NULL;
  for (size_t i = 0; complete && i < object->value.list.count; i++)
    complete = index_add(object, object->value.list.child[i]->key, i);
  return complete;
}

/* SIZE_MAX where the key is absent. */
static size_t find_key(const json_node *object, const char *key)
{
  if (object->value.list.index) {
    const json_t *place = json_object_get(object->value.list.index, key);
    return place ? (size_t)json_integer_value(place) : SIZE_MAX;
  }
  for (size_t i = 0; i < object->value.list.count; i++)
    if (strcmp(object->value.list.child[i]->key, key) == 0) return i;
  return SIZE_MAX;
}

static void add_child(json_node *list, json_node *child)
{
  if (!child || memory_grow(&list->value.list.child, &list->value.list.capacity, list->value.list.count + 1,
                            sizeof child, "JSON", NULL) != ALIBI_OK) {
    list->failed = true;
    node_free(child);
    return;
  }
  list->value.list.child[list->value.list.count++] = child;
}

void node_append(json_node *array, json_node *child)
{
  if (node_kind_of(array) == NODE_ARRAY) add_child(array, child);
  else node_free(child);
}

void node_set(json_node *object, const char *key, json_node *child)
{
  if (child) child->key = copy_text(key);
  if (node_kind_of(object) != NODE_OBJECT || !child || !child->key) {
    if (node_kind_of(object) == NODE_OBJECT) object->failed = true;
    node_free(child);
    return;
  }
  size_t place = find_key(object, child->key);
  if (place != SIZE_MAX) {
    node_free(object->value.list.child[place]);
    object->value.list.child[place] = child;
    return;
  }
  size_t before = object->value.list.count;
  add_child(object, child);
  if (object->value.list.count == before) return;
  bool complete = true;
  if (object->value.list.index) complete = index_add(object, child->key, before);
  else if (before >= INDEX_FROM) complete = index_build(object);
  if (complete) return;
  json_decref(object->value.list.index); /* finding by comparing stays right */
  object->value.list.index = NULL;
  object->failed = true;
}

void node_set_text(json_node *object, const char *key, const char *text)
{
  node_set(object, key, new_text(text));
}

void node_set_number(json_node *object, const char *key, double value)
{
  node_set(object, key, new_number(value));
}

void node_set_integer(json_node *object, const char *key, int64_t value)
{
  node_set(object, key, new_integer(value));
}

void node_set_boolean(json_node *object, const char *key, bool value)
{
  node_set(object, key, new_boolean(value));
}

void node_set_null(json_node *object, const char *key)
{
  node_set(object, key, node_new(NODE_NULL));
}

void node_append_text(json_node *array, const char *text)
{
  node_append(array, new_text(text));
}

void node_append_number(json_node *array, double value)
{
  node_append(array, new_number(value));
}

void node_append_integer(json_node *array, int64_t value)
{
  node_append(array, new_integer(value));
}

void node_append_boolean(json_node *array, bool value)
{
  node_append(array, new_boolean(value));
}

node_kind node_kind_of(const json_node *node)
{
  return node ? node->kind : NODE_NULL;
}

const json_node *node_get(const json_node *object, const char *key)
{
  if (node_kind_of(object) != NODE_OBJECT) return NULL;
  size_t place = find_key(object, key);
  return place == SIZE_MAX ? NULL : object->value.list.child[place];
}

size_t node_count(const json_node *node)
{
  return is_list(node) ? node->value.list.count : 0;
}

const json_node *node_at(const json_node *array, size_t index)
{
  return index < node_count(array) ? array->value.list.child[index] : NULL;
}

const json_node *node_member(const json_node *object, size_t i, const char **key)
{
  const json_node *child = node_kind_of(object) == NODE_OBJECT ? node_at(object, i) : NULL;
  if (key) *key = child ? child->key : NULL;
  return child;
}

double node_number(const json_node *node, double otherwise)
{
  if (node_kind_of(node) == NODE_INTEGER) return (double)node->value.integer;
  return node_kind_of(node) == NODE_REAL ? node->value.real : otherwise;
}

/* Whole and small enough that every neighbouring integer is a double too. */
static bool exact_integer(double value)
{
  return fabs(value) <= 0x1p53 && value == floor(value);
}

int64_t node_integer(const json_node *node, int64_t otherwise)
{
  if (node_kind_of(node) == NODE_INTEGER) return node->value.integer;
  if (node_kind_of(node) == NODE_REAL && exact_integer(node->value.real)) return (int64_t)node->value.real;
  return otherwise;
}

bool node_boolean(const json_node *node, bool otherwise)
{
  return node_kind_of(node) == NODE_BOOLEAN ? node->value.boolean : otherwise;
}

const char *node_text(const json_node *node, const char *otherwise)
{
  return node_kind_of(node) == NODE_TEXT && node->value.text ? node->value.text : otherwise;
}

/* ---- reading ---- */

typedef struct reader {
  const char *what;
  bool reals_only; /* integers came as reals, see node_parse */
  alibi_error *error;
} reader;

static status convert(const reader *r, json_t *value, int depth, json_node **node);

static status convert_list(const reader *r, json_t *value, int depth, json_node *list)
{
  status result = ALIBI_OK;
  json_node *child = NULL;
  if (depth >= MAX_DEPTH)
    RAISE(r->error, ALIBI_BAD_INPUT, "%s: expected at most %d levels of JSON, found more", r->what, MAX_DEPTH);
  if (list->kind == NODE_ARRAY) {
    for (size_t i = 0; i < json_array_size(value); i++) {
      TRY(convert(r, json_array_get(value, i), depth + 1, &child));
      node_append(list, child);
    }
  } else {
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
      TRY(convert(r, member, depth + 1, &child));
      node_set(list, key, child);
    }
  }
done:
  return result;
}

static status convert(const reader *r, json_t *value, int depth, json_node **node)
{
  status result = ALIBI_OK;
  json_node *made = NULL;
  switch (json_typeof(value)) {
  case JSON_NULL: made = node_new(NODE_NULL); break;
  case JSON_TRUE:
  case JSON_FALSE: made = new_boolean(json_is_true(value)); break;
  case JSON_INTEGER: made = new_integer(json_integer_value(value)); break;
  case JSON_STRING: made = new_text(json_string_value(value)); break;
  case JSON_ARRAY: made = node_new_array(); break;
  case JSON_OBJECT: made = node_new_object(); break;
  case JSON_REAL: {
    double real = json_real_value(value);
    made = r->reals_only && exact_integer(real) ? new_integer((int64_t)real) : new_number(real);
    break;
  }
  }
  if (is_list(made)) TRY(convert_list(r, value, depth, made));
  if (!made || made->failed) RAISE(r->error, ALIBI_FAILED, "%s: not enough memory to read it", r->what);
done:
  if (result != ALIBI_OK) {
    node_free(made);
    made = NULL;
  }
  *node = made;
  return result;
}

/* A tree takes a hundred times the memory of a text such as [[],[],[]: what is too large is refused before. */
static status check_values(const char *text, size_t size, const char *what, alibi_error *error)
{
  size_t values = 1;
  bool quoted = false;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '"') quoted = !quoted;
    else if (quoted) i += text[i] == '\\';
    else values += text[i] == ',' || text[i] == '[' || text[i] == '{';
  }
  if (values <= MAX_VALUES) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: expected at most %d values of JSON, found %zu", what, MAX_VALUES,
              values);
}

status node_parse(const char *text, size_t size, const char *what, json_node **root, alibi_error *error)
{
  *root = NULL;
  if (size == 0) return fail(error, ALIBI_BAD_INPUT, "%s: expected JSON, found nothing", what);
  status counted = check_values(text, size, what, error);
  if (counted != ALIBI_OK) return counted;
  const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
  json_error_t why;
  reader r = {what, false, error};
  json_t *value = json_loadb(text, size, flags, &why);
  if (!value && json_error_code(&why) == json_error_numeric_overflow) {
    /* Files in the wild say 1000000000000000019884624838656 for "no limit". */
    r.reals_only = true;
    value = json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, &why);
  }
  if (!value && why.text[0] == '\0') /* jansson says nothing where an allocation failed */
    return fail(error, ALIBI_FAILED, "%s: not enough memory to read it", what);
  if (!value)
    return fail(error, ALIBI_BAD_INPUT, "%s: not valid JSON: line %d, column %d: %s", what, why.line, why.column,
                why.text);
  status result = convert(&r, value, 0, root);
  json_decref(value);
  return result;
}

status node_read_file(const char *path, json_node **root, alibi_error *error)
{
  mapped_file file;
  *root = NULL;
  status result = mapped_file_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  result = node_parse((const char *)file.data, file.size, path, root, error);
  mapped_file_close(&file);
  return result;
}

/* ---- writing ---- */

typedef struct writer {
  char *text;
  size_t size, capacity;
  bool indent, failed;
} writer;

static void put_bytes(writer *w, const char *bytes, size_t count)
{
  if (w->failed || memory_grow(&w->text, &w->capacity, size_add(w->size, count), 1, "JSON", NULL) != ALIBI_OK) {
    w->failed = true;
    return;
  }
  memcpy(w->text + w->size, bytes, count);
  w->size += count;
}

static void put(writer *w, const char *text)
{
  put_bytes(w, text, strlen(text));
}

static void put_line(writer *w, int depth)
{
  if (!w->indent) return;
  put(w, "\n");
  for (int i = 0; i < depth; i++) put(w, "  ");
}

static void put_quoted(writer *w, const char *text)
{
  put(w, "\"");
  while (*text) {
    size_t plain = 0;
    while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\') plain++;
    put_bytes(w, text, plain);
    text += plain;
    if (!*text) break;
    char escape[8];
    switch (*text) {
    case '"': put(w, "\\\""); break;
    case '\\': put(w, "\\\\"); break;
    case '\n': put(w, "\\n"); break;
    case '\t': put(w, "\\t"); break;
    case '\r': put(w, "\\r"); break;
    default: snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)*text); put(w, escape);
    }
    text++;
  }
  put(w, "\"");
}

/* The fewest digits that read back as the same double; always with a point or an exponent, so that it stays
 * a real. */
static void put_real(writer *w, double value)
{
  char text[NUMBER_SIZE];
  number_text(value, text);
  put(w, text);
  if (!strpbrk(text, ".e")) put(w, ".0");
}

static bool numbers_only(const json_node *array)
{
  for (size_t i = 0; i < node_count(array); i++) {
    node_kind kind = node_kind_of(node_at(array, i));
    if (kind != NODE_INTEGER && kind != NODE_REAL && kind != NODE_NULL) return false;
  }
  return true;
}

static void put_node(writer *w, const json_node *node, int depth)
{
  char number[32];
  if (!node || node->failed) {
    w->failed = true;
    return;
  }
  switch (node->kind) {
  case NODE_NULL: put(w, "null"); return;
  case NODE_BOOLEAN: put(w, node->value.boolean ? "true" : "false"); return;
  case NODE_INTEGER:
    snprintf(number, sizeof number, "%lld", (long long)node->value.integer);
    put(w, number);
    return;
  case NODE_REAL: put_real(w, node->value.real); return;
  case NODE_TEXT: put_quoted(w, node->value.text); return;
  case NODE_ARRAY:
  case NODE_OBJECT: break;
  }
  bool object = node->kind == NODE_OBJECT, one_line = !object && numbers_only(node);
  put(w, object ? "{" : "[");
  for (size_t i = 0; i < node_count(node); i++) {
    const json_node *child = node_at(node, i);
    if (i > 0) put(w, one_line && w->indent ? ", " : ",");
    if (!one_line) put_line(w, depth + 1);
    if (object) {
      put_quoted(w, child->key);
      put(w, w->indent ? ": " : ":");
    }
    put_node(w, child, depth + 1);
  }
  if (!one_line && node_count(node) > 0) put_line(w, depth);
  put(w, object ? "}" : "]");
}

status node_write_file(const json_node *root, const char *path, alibi_error *error)
{
  writer w = {.indent = true};
  put_node(&w, root, 0);
  put(&w, "\n");
  status result = w.failed ? fail(error, ALIBI_FAILED, "%s: not enough memory to write it", path)
                           : file_write_atomic(path, w.text, w.size, error);
  free(w.text);
  return result;
}

char *node_to_text(const json_node *root)
{
  writer w = {.indent = false};
  put_node(&w, root, 0);
  put_bytes(&w, "", 1);
  if (!w.failed) return w.text;
  free(w.text);
  return NULL;
}

json_node *node_copy(const json_node *root)
{
  char *text = node_to_text(root);
  json_node *copy = NULL;
  if (text && node_parse(text, strlen(text), "a copy", &copy, NULL) != ALIBI_OK) copy = NULL;
  free(text);
  return copy;
}

/* ---- tables of fields ---- */

void node_set_fields(json_node *object, field_table table, const void *values)
{
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    const void *at = (const char *)values + f->offset;
    switch (f->kind) {
    case FIELD_INTEGER: node_set_integer(object, f->name, *(const int64_t *)at); break;
    case FIELD_REAL: node_set_number(object, f->name, *(const double *)at); break;
    case FIELD_BOOLEAN: node_set_boolean(object, f->name, *(const bool *)at); break;
    case FIELD_CHOICE: node_set_text(object, f->name, f->choices[*(const int *)at]); break;
    case FIELD_TEXT: node_set_text(object, f->name, at); break;
    }
  }
}

static status wrong_kind(const char *option, const char *expected, const json_node *found, alibi_error *error)
{
  const char *kind = kind_name(node_kind_of(found));
  return fail(error, ALIBI_BAD_INPUT, "%s: expected %s, found %s", option, expected, kind);
}

static status get_field(const field *f, const json_node *node, void *values, const char *option,
                        alibi_error *error)
{
  node_kind kind = node_kind_of(node);
  bool number = kind == NODE_INTEGER || kind == NODE_REAL;
  status result = ALIBI_OK;
  switch (f->kind) {
  case FIELD_INTEGER:
    if (!number) return wrong_kind(option, "an integer", node, error);
    result = field_set_number(f, values, option, node_number(node, 0), error);
    /* Exact also above 2^53, where the double that was checked is rounded. */
    if (result == ALIBI_OK && kind == NODE_INTEGER) *(int64_t *)((char *)values + f->offset) = node->value.integer;
    break;
  case FIELD_REAL:
    if (!number) return wrong_kind(option, "a number", node, error);
    result = field_set_number(f, values, option, node_number(node, 0), error);
    break;
  case FIELD_BOOLEAN:
    if (kind != NODE_BOOLEAN) return wrong_kind(option, "true or false", node, error);
    result = field_set_text(f, values, option, node->value.boolean ? "true" : "false", error);
    break;
  case FIELD_CHOICE:
  case FIELD_TEXT:
    if (kind != NODE_TEXT) return wrong_kind(option, "a text", node, error);
    result = field_set_text(f, values, option, node->value.text, error);
    break;
  }
  if (result == ALIBI_OK) return ALIBI_OK;
  if (error) error->status = ALIBI_BAD_INPUT; /* to the table an argument was wrong; here it is a file */
  return ALIBI_BAD_INPUT;
}

static bool listed(const char *const *names, const char *name)
{
  for (; names && *names; names++)
    if (strcmp(*names, name) == 0) return true;
  return false;
}

status node_get_fields(const json_node *object, field_table table, void *values, const char *what,
                       const char *const *others, alibi_error *error)
{
  if (node_kind_of(object) != NODE_OBJECT) return wrong_kind(what, "an object", object, error);
  for (size_t i = 0; i < node_count(object); i++) {
    const char *key;
    const json_node *node = node_member(object, i, &key);
    if (listed(others, key)) continue;
    const field *f = field_find(table, key);
    if (!f) return fail(error, ALIBI_BAD_INPUT, "%s: unknown key '%s'", what, key);
    char option[512];
    snprintf(option, sizeof option, "%s: %s", what, key);
    status result = get_field(f, node, values, option, error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}
