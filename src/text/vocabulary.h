/* text/vocabulary.h - spellings by id and ids by spelling, as the token models keep them. */
#ifndef TEXT_VOCABULARY_H
#define TEXT_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "text/piece_map.h"
#include "text/piece_trie.h"

#define VOCABULARY_NONE UINT32_MAX

typedef struct vocabulary_word {
  size_t at, size; /* in the bytes; at SIZE_MAX: no token of this id */
} vocabulary_word;

typedef struct vocabulary { /* start from {0} */
  vocabulary_word *words;
  char *bytes; /* a NUL after every word */
  size_t used, capacity;
  uint32_t count; /* ids are below */
  piece_map index;
} vocabulary;

void vocabulary_free(vocabulary *v);
status vocabulary_new(vocabulary *v, size_t count, alibi_error *error); /* all ids are holes */
status vocabulary_set(vocabulary *v, uint32_t id, const void *text, size_t size, alibi_error *error);

/* After the last word.  Where a spelling comes twice the larger id has it. */
status vocabulary_index(vocabulary *v, alibi_error *error);
int64_t vocabulary_find(const vocabulary *v, const void *text, size_t size); /* -1: not there */

/* NULL: no such id; else also NUL-terminated. */
const unsigned char *vocabulary_spelling(const vocabulary *v, uint32_t id, size_t *size);

/* A search tree of all words but the empty one. */
status vocabulary_trie(const vocabulary *v, piece_trie *trie, alibi_error *error);

/* The ids of <0x00> .. <0xFF>, VOCABULARY_NONE where one is missing; how many are there. */
size_t vocabulary_bytes(const vocabulary *v, uint32_t ids[256]);
/* The byte that a spelling <0xXX> stands for, -1 where it is none. */
int vocabulary_byte(const void *text, size_t size);

/* A spelling for a sentence: cut where it is long, control characters as '?'. */
enum { VOCABULARY_SHOWN = 48 };
const char *vocabulary_shown(const void *text, size_t size, char shown[VOCABULARY_SHOWN]);

/* ---- the "model" object of a tokenizer.json ---- */

/* Refuses a key that is not in the NULL-terminated list: what is not understood may change the ids. */
status model_check_keys(const json_node *model, const char *const *known, const char *path, alibi_error *error);
status model_boolean(const json_node *model, const char *key, bool otherwise, const char *path, bool *value,
                     alibi_error *error);
/* A text; NULL where the key is absent or null and `otherwise` is NULL. */
status model_text(const json_node *model, const char *key, const char *otherwise, const char *path,
                  const char **value, alibi_error *error);
/* {"word": id, ...}: every id once; holes are fine as long as the ids do not lie far apart.  Indexed. */
status model_vocabulary(const json_node *model, const char *path, vocabulary *v, alibi_error *error);
json_node *model_vocabulary_node(const vocabulary *v); /* in the order of the ids */

#endif
