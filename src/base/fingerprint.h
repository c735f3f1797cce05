/* base/fingerprint.h - 64 bits that tell whether bytes are the same as before: XXH3.  Against damage, not against
 * malice. */
#ifndef BASE_FINGERPRINT_H
#define BASE_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

uint64_t fingerprint_of(const void *data, size_t size);

/* The same of bytes that come in pieces: begin -> add ... -> value (at any time) -> free. */
typedef struct fingerprint fingerprint;
status fingerprint_begin(fingerprint **f, alibi_error *error);
void fingerprint_add(fingerprint *f, const void *data, size_t size);
uint64_t fingerprint_value(const fingerprint *f);
void fingerprint_free(fingerprint *f);

/* Of a whole file. */
status fingerprint_of_file(const char *path, uint64_t *value, alibi_error *error);

/* As files spell it: 16 hexadecimal digits. */
enum { FINGERPRINT_TEXT_SIZE = 17 };
void fingerprint_to_text(uint64_t value, char text[FINGERPRINT_TEXT_SIZE]);
bool fingerprint_from_text(const char *text, uint64_t *value); /* NULL is none */

#endif
