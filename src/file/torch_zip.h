/* file/torch_zip.h - the zip archive in which torch.save stores: where each entry's bytes lie in the file. Source:
 * PKWARE's APPNOTE (4.3, 4.5.3).  Only what torch writes: one disk, entries that are stored (not compressed, not
 * encrypted), zip64.  Every local header is checked against the directory, and no two entries overlap. */
#ifndef FILE_TORCH_ZIP_H
#define FILE_TORCH_ZIP_H

#include <stddef.h>

#include "base/error.h"

typedef struct zip_entry {
  const char *name;           /* NUL-terminated, printable */
  size_t header, begin, size; /* in the file: its local header, its first byte, its bytes */
} zip_entry;

typedef struct zip_directory {
  zip_entry *entries; /* in the order of their names */
  size_t count;
  char *names;
} zip_directory;

/* ALIBI_BAD_INPUT, with `path` in the sentence, where it is no such archive; zip is then empty.  Free in any case.
 */
status zip_directory_read(const char *path, const unsigned char *data, size_t size, zip_directory *zip,
                          alibi_error *error);
void zip_directory_free(zip_directory *zip);
const zip_entry *zip_directory_find(const zip_directory *zip, const char *name); /* NULL: none */

#endif
