/* file/json.h - JSON values, read strictly and written stably.  The only room that knows jansson.
 * Reading refuses duplicate keys, more than 64 levels of nesting, more than 4 million values, and files that are
 * not UTF-8; every message names the file.  Writing keeps the order in which keys were set, and gives each number
 * the fewest digits that read back as the same double; a text that is not UTF-8 gets U+FFFD for the bytes that are
 * none. */
#ifndef FILE_JSON_H
#define FILE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/field.h"

typedef struct json_node json_node; /* reference-free tree: a child belongs to its parent */

typedef enum node_kind {
  NODE_NULL,
  NODE_BOOLEAN,
  NODE_INTEGER,
  NODE_REAL,
  NODE_TEXT,
  NODE_ARRAY,
  NODE_OBJECT
} node_kind;

/* Reading.  Free the root with node_free. */
status node_read_file(const char *path, json_node **root, alibi_error *error);
status node_parse(const char *text, size_t size, const char *what, json_node **root, alibi_error *error);
void node_free(json_node *root);

node_kind node_kind_of(const json_node *node);
const json_node *node_get(const json_node *object, const char *key); /* NULL when absent or no object */
size_t node_count(const json_node *node);                            /* array or object; else 0 */
const json_node *node_at(const json_node *array, size_t index);
/* Walks an object: i from 0 to node_count-1, in file order. */
const json_node *node_member(const json_node *object, size_t i, const char **key);
double node_number(const json_node *node, double otherwise); /* INTEGER or REAL */
int64_t node_integer(const json_node *node, int64_t otherwise);
bool node_boolean(const json_node *node, bool otherwise);
const char *node_text(const json_node *node, const char *otherwise); /* UTF-8, NUL-terminated */

/* Building.  A setter takes over the child it is given; memory that runs out makes the tree remember it and
 * node_write_* report it, so builders need no checks.  NaN and infinities are written as null. */
json_node *node_new_object(void);
json_node *node_new_array(void);
void node_set(json_node *object, const char *key, json_node *child);
void node_set_text(json_node *object, const char *key, const char *text); /* NULL text: null */
void node_set_number(json_node *object, const char *key, double value);
void node_set_integer(json_node *object, const char *key, int64_t value);
void node_set_boolean(json_node *object, const char *key, bool value);
void node_set_null(json_node *object, const char *key);
void node_append(json_node *array, json_node *child);
void node_append_text(json_node *array, const char *text);
void node_append_number(json_node *array, double value);
void node_append_integer(json_node *array, int64_t value);
void node_append_boolean(json_node *array, bool value);

/* Atomic; 2-space indent, an array of numbers on one line. */
status node_write_file(const json_node *root, const char *path, alibi_error *error);
char *node_to_text(const json_node *root);                                           /* compact; free() it */
json_node *node_copy(const json_node *root); /* NULL when memory is out; node_set remembers that */

/* A table of fields to and from an object: node_set_fields adds every field; node_get_fields sets the fields
 * found and reports a key that is no field as an error that names it, unless it is in the NULL-terminated
 * list `others`. */
void node_set_fields(json_node *object, field_table table, const void *values);
status node_get_fields(const json_node *object, field_table table, void *values, const char *what,
                       const char *const *others, alibi_error *error);

#endif
