/* text/normalizer.h - what a tokenizer does to a text before it cuts it: a list of steps, each from text to text.
 */
#ifndef TEXT_NORMALIZER_H
#define TEXT_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "file/json.h"
#include "text/text_buffer.h"

typedef struct normalizer normalizer; /* immutable, threads may share it */

/* node: the "normalizer" of a tokenizer.json, or null.  path names the file in errors. */
status normalizer_new(const json_node *node, const char *path, normalizer **made, alibi_error *error);
void normalizer_free(normalizer *n);
bool normalizer_is_empty(const normalizer *n);
bool normalizer_spells_bytes(const normalizer *n); /* has it a ByteLevel step? */

/* What a call keeps from one text to the next; start from {0}. */
typedef struct normalizer_memory {
  text_buffer text[2];
  struct regex_match **matches; /* [steps] */
} normalizer_memory;

void normalizer_memory_free(const normalizer *n, normalizer_memory *memory);

/* *text of *size bytes (valid UTF-8, not empty) becomes the normalized text, which lies in the memory until its
 * next use (or is the text itself where there is no step).  *lead, in and out: how many bytes at its front stand
 * for the first character of the whole text (0: it lies further on), which is what "first" means to Metaspace. */
status normalizer_run(const normalizer *n, normalizer_memory *memory, const unsigned char **text, size_t *size,
                      size_t *lead, alibi_error *error);

#endif
