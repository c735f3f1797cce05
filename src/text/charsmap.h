/* text/charsmap.h - the precompiled map of characters of SentencePiece: a trie (a double array, as Darts writes
 * it) from strings to places in a list of NUL-terminated replacements.  Everything in it is checked when it is
 * used. */
#ifndef TEXT_CHARSMAP_H
#define TEXT_CHARSMAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/text_buffer.h"

typedef struct charsmap charsmap; /* immutable */

/* The bytes are copied; size 0 is an empty map.  `what` begins the sentence of the error. */
status charsmap_new(const unsigned char *bytes, size_t size, const char *what, charsmap **made,
                    alibi_error *error);
status charsmap_new_base64(const char *text, const char *what, charsmap **made, alibi_error *error);
void charsmap_free(charsmap *map);

/* The replacement of the shortest (longest: the longest) string of the map that `text` begins with: *matched its
 * bytes; NULL where there is none. */
const unsigned char *charsmap_find(const charsmap *map, const unsigned char *text, size_t size, bool longest,
                                   size_t *matched, size_t *length);

#endif
