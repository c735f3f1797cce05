/* zstd, and the only file that knows its library. */
#include <stddef.h>

#include <zstd.h>

#include "file/decompress.h"

static void *zstd_begin(void)
{
  return ZSTD_createDStream();
}

static const char *zstd_run(void *state, const unsigned char **input, size_t *input_left, unsigned char **output,
                            size_t *output_left, bool *ended)
{
  ZSTD_inBuffer in = {*input, *input_left, 0};
  ZSTD_outBuffer out = {*output, *output_left, 0};
  size_t code = ZSTD_decompressStream(state, &out, &in);
  *input += in.pos;
  *input_left -= in.pos;
  *output += out.pos;
  *output_left -= out.pos;
  if (ZSTD_isError(code)) return ZSTD_getErrorName(code);
  *ended = code == 0 && *input_left == 0; /* 0: a frame is complete */
  return NULL;
}

static void zstd_end(void *state)
{
  ZSTD_freeDStream(state);
}

const decompressor decompressor_zstd = {"zstd", zstd_begin, zstd_run, zstd_end};
