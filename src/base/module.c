/* Loading a module.  The one idea: places are relative to the file that this code was itself loaded from, so that
 * a build folder, an installation, and an installation that was moved all find their own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system.h"

enum { PATH_SIZE = 4096 };

/* Where this code is: "/usr/bin", "/opt/alibi/lib". */
static void own_folder(char *folder, size_t size)
{
  static const char place;
  Dl_info info;
  char *file = dladdr(&place, &info) != 0 && info.dli_fname && strchr(info.dli_fname, '/')
                   ? realpath(info.dli_fname, NULL)
                   : NULL;
  if (file) snprintf(folder, size, "%s", file);
  else system_program_path(folder, size); /* started by a name without a folder */
  free(file);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
}

status module_load(const char *what, const char *variable, const char *name, const char *const *folders,
                   const char *symbol, void **found, alibi_error *error)
{
  char folder[PATH_SIZE], path[2 * PATH_SIZE];
  const char *given = getenv(variable);
  *found = NULL;
  if (given && given[0]) {
    snprintf(path, sizeof path, "%s", given);
  } else {
    own_folder(folder, sizeof folder);
    path[0] = '\0';
    for (; *folders; folders++) {
      snprintf(path, sizeof path, "%s/%s/%s", folder, *folders, name);
      if (access(path, R_OK) == 0) break;
    }
    if (!*folders) return fail(error, ALIBI_FAILED, "%s: expected %s beside %s, found none", what, name, folder);
  }
  /* GLOBAL: some libraries that a module brings load parts of their own, which look for their names. */
  void *module = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!module) return fail(error, ALIBI_FAILED, "%s: cannot load %s: %s", what, path, dlerror());
  *found = dlsym(module, symbol);
  if (!*found)
    return fail(error, ALIBI_FAILED, "%s: %s: expected a module with %s, found none", what, path, symbol);
  return ALIBI_OK;
}
