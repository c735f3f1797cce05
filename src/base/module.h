/* base/module.h - code that is loaded only when it is needed, from a file of its own. */
#ifndef BASE_MODULE_H
#define BASE_MODULE_H

#include "base/error.h"

/* Loads the file `name` and finds `symbol` in it.  The environment's `variable`, where it is set, is the file's
 * path; else it is looked for in the NULL-terminated list of folders, relative to the folder of the program or
 * library that this code is in.  What is loaded stays.  Where there is none, or it cannot be loaded: ALIBI_FAILED,
 * "<what>: ...". */
status module_load(const char *what, const char *variable, const char *name, const char *const *folders,
                   const char *symbol, void **found, alibi_error *error);

#endif
