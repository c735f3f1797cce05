/* Fingerprints, and the only file that knows xxHash.  XXH3 runs at the speed of memory, so that checking a file
 * costs what reading it costs. */
#include "base/fingerprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

#include "base/system.h"

/* A fingerprint is the library's state under our name. */

uint64_t fingerprint_of(const void *data, size_t size)
{
  return XXH3_64bits(data, size);
}

status fingerprint_begin(fingerprint **f, alibi_error *error)
{
  XXH3_state_t *state = XXH3_createState(); /* aligned, which malloc would not be */
  *f = (fingerprint *)state;
  if (!state) return fail(error, ALIBI_FAILED, "not enough memory for a fingerprint");
  XXH3_64bits_reset(state);
  return ALIBI_OK;
}

void fingerprint_add(fingerprint *f, const void *data, size_t size)
{
  if (size > 0) XXH3_64bits_update((XXH3_state_t *)f, data, size);
}

uint64_t fingerprint_value(const fingerprint *f)
{
  return XXH3_64bits_digest((const XXH3_state_t *)f);
}

void fingerprint_free(fingerprint *f)
{
  if (f) XXH3_freeState((XXH3_state_t *)f);
}

status fingerprint_of_file(const char *path, uint64_t *value, alibi_error *error)
{
  mapped_file file;
  status result = mapped_file_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  *value = fingerprint_of(file.data, file.size);
  mapped_file_close(&file);
  return ALIBI_OK;
}

void fingerprint_to_text(uint64_t value, char text[FINGERPRINT_TEXT_SIZE])
{
  snprintf(text, FINGERPRINT_TEXT_SIZE, "%016" PRIx64, value);
}

bool fingerprint_from_text(const char *text, uint64_t *value)
{
  static const char digits[] = "0123456789abcdef";
  *value = 0;
  if (!text || strlen(text) != FINGERPRINT_TEXT_SIZE - 1) return false;
  for (; *text; text++) {
    const char *digit = strchr(digits, *text);
    if (!digit) return false;
    *value = *value << 4 | (uint64_t)(digit - digits);
  }
  return true;
}
