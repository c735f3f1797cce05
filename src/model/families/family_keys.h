/* model/families/family_keys.h - a reader over the keys of a configuration that remembers which ones were asked
 * for, so that what nobody asked for is an error that names it.
 *
 * Keys of objects within objects are read by their path, "attn_config.alibi".  A name may be several with '|'
 * between them, spellings of one key: those that are there have to agree.  null counts as absent.  The first thing
 * that is wrong is remembered, and everything read after it is its default; keys_finish tells. */
#ifndef MODEL_FAMILIES_FAMILY_KEYS_H
#define MODEL_FAMILIES_FAMILY_KEYS_H

#include "file/json.h"
#include "model/families/family_notes.h"

typedef struct family_keys family_keys;

/* what: the path for sentences.  prefix: "" or what stands before the names of the keys that are read ("llama.").
 * ignored: keys to be taken for absent (with all within them), NULL-terminated, or NULL; one that is not there is
 * ALIBI_INVALID.  The object is borrowed. */
status keys_new(const json_node *object, const char *what, const char *prefix, const char *const *ignored,
                family_notes *notes, family_keys **keys, alibi_error *error);
void keys_free(family_keys *keys);

/* Is there a value, or an object with one?  Does not count as reading. */
bool keys_have(const family_keys *keys, const char *names);

/* Is it there, and null?  Does not count as reading. */
bool keys_are_null(const family_keys *keys, const char *name);

#define KEYS_REQUIRED INT64_MIN /* as the otherwise of an integer: there has to be one */
/* From least to 2^40. */
int64_t keys_integer(family_keys *keys, const char *names, int64_t least, int64_t otherwise);
/* A size of a model: at least 1. */
int64_t keys_size(family_keys *keys, const char *names, int64_t otherwise);
double keys_real(family_keys *keys, const char *names, double otherwise); /* also a text that is a number */
bool keys_boolean(family_keys *keys, const char *names, bool otherwise);
const char *keys_text(family_keys *keys, const char *names, const char *otherwise);
bool keys_is_text(const family_keys *keys, const char *names, const char *text); /* does not count as reading */
const json_node *keys_array(family_keys *keys, const char *names);               /* NULL: none */

/* The only value that we run; absent is fine. */
void keys_expect_boolean(family_keys *keys, const char *names, bool value);
void keys_expect_text(family_keys *keys, const char *names, const char *value);
void keys_expect_integer(family_keys *keys, const char *names, int64_t value);

/* Understood, and without effect on any number; '*' for any text.  NULL-terminated list. */
void keys_no_effect(family_keys *keys, const char *const *names);
/* The same of what transformers writes into every configuration, where one lies within another, "attn_config.". */
void keys_saved_within(family_keys *keys, const char *within);

/* "config.json: ..." */
void keys_fail(family_keys *keys, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool keys_failed(const family_keys *keys);
const char *keys_prefix(const family_keys *keys); /* for the name of a key in a sentence */

/* The first thing that was wrong, or else a key that nobody asked for. */
status keys_finish(family_keys *keys, alibi_error *error);

/* Does the name match the pattern, in which '*' is any text? */
bool keys_match(const char *pattern, const char *name);

#endif
