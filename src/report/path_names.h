/* report/path_names.h - short names for things that the user named by paths. */
#ifndef REPORT_PATH_NAMES_H
#define REPORT_PATH_NAMES_H

#include <stddef.h>

/* The last part of paths[index] where no other path has it and it says something ("." does not); else the path as
 * it is.  tail: "/log.jsonl", an end of paths that does not count; NULL: none.  malloc'd, NULL where memory is
 * out. */
char *path_name(const char *const *paths, size_t count, size_t index, const char *tail);

#endif
