/* file/decompress.h - one way of compression, behind a byte stream (file/compressed.c).  Each of them is one file,
 * which alone knows its library. */
#ifndef FILE_DECOMPRESS_H
#define FILE_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct decompressor {
  const char *name; /* "gzip" */
  void *(*begin)(void);
  /* Moves bytes from *input to *output, advancing both and lowering what is left.  *ended: the data is complete up
   * to here.  NULL, or why it is damaged. */
  const char *(*run)(void *state, const unsigned char **input, size_t *input_left, unsigned char **output,
                     size_t *output_left, bool *ended);
  void (*end)(void *state);
} decompressor;

extern const decompressor decompressor_gzip, decompressor_zstd;

#endif
