/* evaluate/losses_file.h - losses that an evaluation has so far, in a file from which it goes on.
 *
 * Little-endian throughout:
 *    0  "ALIBILOS"
 *    8  u32 version, 1
 *   12  u32 parts
 *   16  u64 fingerprint of what is evaluated
 *   24  for each part: u64 windows done, u64 targets done, f64 seconds that they took
 *       for each part: its losses, f32
 *       u64 fingerprint of all before */
#ifndef EVALUATE_LOSSES_FILE_H
#define EVALUATE_LOSSES_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct losses_part {
  size_t windows, targets; /* done */
  double seconds;
  float *losses; /* [targets] and room for all there will be */
  size_t all_windows, all_targets;
} losses_part;

/* Replaces the file whole. */
status losses_file_write(const char *path, uint64_t what, const losses_part *parts, size_t count,
                         alibi_error *error);

/* Into the parts; ALIBI_BAD_INPUT, and nothing changed, where the file is damaged or of another evaluation. */
status losses_file_read(const char *path, uint64_t what, losses_part *parts, size_t count, alibi_error *error);

#endif
