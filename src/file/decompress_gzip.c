/* gzip through zlib, and the only file that knows it.  After a member may come another one, or zeros that pad the
 * file. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include <zlib.h>

#include "file/decompress.h"

enum { GZIP_ONLY = 16 };

typedef struct gzip_state {
  z_stream z;
  bool between; /* members */
} gzip_state;

static void *gzip_begin(void)
{
  gzip_state *s = calloc(1, sizeof *s);
  if (s && inflateInit2(&s->z, GZIP_ONLY + MAX_WBITS) == Z_OK) return s;
  free(s);
  return NULL;
}

static const char *gzip_run(void *state, const unsigned char **input, size_t *input_left, unsigned char **output,
                            size_t *output_left, bool *ended)
{
  gzip_state *s = state;
  *ended = false;
  if (s->between) {
    while (*input_left > 0 && **input == 0) ++*input, --*input_left;
    *ended = *input_left == 0;
    if (*ended) return NULL;
    if (inflateReset(&s->z) != Z_OK) return "the library cannot go on";
    s->between = false;
  }
  size_t in = *input_left < INT_MAX ? *input_left : INT_MAX, out = *output_left < INT_MAX ? *output_left : INT_MAX;
  s->z.next_in = (unsigned char *)(uintptr_t)*input; /* zlib writes nothing there */
  s->z.avail_in = (unsigned)in;
  s->z.next_out = *output;
  s->z.avail_out = (unsigned)out;
  int code = inflate(&s->z, Z_NO_FLUSH);
  *input += in - s->z.avail_in;
  *input_left -= in - s->z.avail_in;
  *output += out - s->z.avail_out;
  *output_left -= out - s->z.avail_out;
  if (code == Z_STREAM_END) s->between = true;
  if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return NULL;
  if (code == Z_MEM_ERROR) return "the library is out of memory";
  return s->z.msg ? s->z.msg : "the library gives no reason";
}

static void gzip_end(void *state)
{
  gzip_state *s = state;
  inflateEnd(&s->z);
  free(s);
}

const decompressor decompressor_gzip = {"gzip", gzip_begin, gzip_run, gzip_end};
