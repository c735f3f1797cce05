/* text/json_part.h - an object of a tokenizer.json, read with suspicion: a key that is not known is refused, and
 * so is a value of another type than expected.  Every sentence begins "file: where". */
#ifndef TEXT_JSON_PART_H
#define TEXT_JSON_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"

typedef struct json_part {
  const json_node *node;
  const char *path; /* of the file */
  char where[96];   /* "pre_tokenizer", "normalizer 2" */
} json_part;

bool json_part_is_null(const json_node *node);

/* ALIBI_BAD_INPUT and the sentence: "file: where: ...". */
status json_part_wrong(const json_part *part, alibi_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* No other keys than these (NULL-terminated; "type" is always one). */
status json_part_keys(const json_part *part, const char *const *known, alibi_error *error);

/* A value that must be there unless `otherwise` points to one for where it is not (or null). */
status json_part_boolean(const json_part *part, const char *key, const bool *otherwise, bool *value,
                         alibi_error *error);
status json_part_integer(const json_part *part, const char *key, const int64_t *otherwise, int64_t least,
                         int64_t most, int64_t *value, alibi_error *error);
status json_part_text(const json_part *part, const char *key, const char *const *otherwise, const char **value,
                      alibi_error *error);
/* A text of one character. */
status json_part_character(const json_part *part, const char *key, const char *const *otherwise,
                           const char **value, alibi_error *error);
/* One of the NULL-terminated words; *value its index. */
status json_part_word(const json_part *part, const char *key, const char *const *words, const int *otherwise,
                      int *value, alibi_error *error);

/* {"String": s} or {"Regex": r}. */
status json_part_pattern(const json_part *part, const char *key, bool *is_regex, const char **pattern,
                         alibi_error *error);

/* Calls `read` for a part (an object), or for every part of a Sequence of them (key `list`), nested or not; for
 * null not at all. */
typedef status (*json_part_reader)(const json_part *part, const char *type, void *user, alibi_error *error);
status json_part_each(const json_node *node, const char *path, const char *name, const char *list,
                      json_part_reader read, void *user, alibi_error *error);

#endif
