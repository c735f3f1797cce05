/* file/event_file.h - scalars in a file that TensorBoard reads (events.out.tfevents...): frames of length, data
 * and two checksums (TFRecord), each holding one Event message of Protocol Buffers.  Scalars only. */
#ifndef FILE_EVENT_FILE_H
#define FILE_EVENT_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

typedef struct event_file {
  char *path;
  FILE *stream;
} event_file;

typedef struct event_scalar {
  const char *tag; /* "loss", "evaluation/512": what stands before the last '/' is a group */
  double value;    /* kept as a float; NaN is not written */
} event_scalar;

/* Makes DIRECTORY, and in it a file that is named after the time and so that a viewer reads it after older ones,
 * which stay. first: the first step that will follow; what other files of the directory tell of that step and
 * later ones is void from here on.  time: seconds since 1970, here and below. */
status event_file_begin(const char *directory, int64_t first, double time, event_file *file, alibi_error *error);

/* The scalars of a step, at most 64 with tags of at most 127 bytes, written and flushed at once.  After a failure
 * end the file: what follows half a frame is not read. */
status event_file_add(event_file *file, int64_t step, double time, const event_scalar *list, size_t count,
                      alibi_error *error);

/* Closes it; fine for a zeroed one. */
void event_file_end(event_file *file);

#endif
