/* file/compressed.h - bytes of a file in order, plain or out of gzip or zstd, without holding all of them. */
#ifndef FILE_COMPRESSED_H
#define FILE_COMPRESSED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/system.h"

typedef enum compression { COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_ZSTD } compression;

/* As the first bytes say. */
compression compression_of(const void *data, size_t size);

typedef struct byte_stream byte_stream;

/* Of the bytes of a file, which are borrowed; path is for sentences and borrowed too. */
status byte_stream_open(const char *path, compression kind, const void *data, size_t size, byte_stream **stream,
                        alibi_error *error);
/* *got: how many bytes came, less than `room` only at the end.  Several gzip members or zstd frames one after the
 * other are one stream.  ALIBI_BAD_INPUT where the data is damaged or ends too early. */
status byte_stream_read(byte_stream *stream, void *bytes, size_t room, size_t *got, alibi_error *error);
/* Bytes of the file that are used up. */
size_t byte_stream_position(const byte_stream *stream);
void byte_stream_close(byte_stream *stream);

/* All of it; *data from malloc.  ALIBI_BAD_INPUT, or ALIBI_FAILED where memory is out. */
status byte_stream_read_all(byte_stream *stream, unsigned char **data, size_t *size, alibi_error *error);

#endif
