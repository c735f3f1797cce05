/* base/directory.h - directories as wholes: what lies in one, removing one, putting one in place.  directory_make
 * is in base/system.h. */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

#include <stddef.h>

#include "base/error.h"

/* Names of what lies in the directory, without "." and "..", in the order of their bytes. */
typedef struct directory_list {
  char **names;
  size_t count, capacity;
} directory_list;

/* ALIBI_BAD_INPUT where the directory cannot be read.  An empty list can be freed too. */
status directory_read(const char *path, directory_list *list, alibi_error *error);
void directory_list_free(directory_list *list);

/* Removes a directory and the files in it; a directory within is not entered, and then makes it fail.  None there:
 * fine. */
status directory_remove(const char *path, alibi_error *error);
/* The same in one step for who looks: it becomes `path`.old first, and a machine that stops may leave that. */
status directory_drop(const char *path, alibi_error *error);

/* Removes what writers that were killed have left of files whose names begin so (NULL-terminated): replace_begin's
 * temporaries, NAME.part.  For who holds the directory's lock. */
status directory_remove_parts(const char *path, const char *const *beginnings, alibi_error *error);

/* Puts a directory, whose files are on disk, where another may be, which is removed then: `to` is the new one, on
 * disk, or the old one still.  A machine that stops in between may leave the old one as `to`.old. */
status directory_replace(const char *from, const char *to, alibi_error *error);

#endif
