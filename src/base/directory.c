/* Directories: reading, removing, replacing.  A rename is the one step that cannot be seen half done. */
#include "base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/system.h"

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

status directory_read(const char *path, directory_list *list, alibi_error *error)
{
  const struct dirent *entry;
  status result = ALIBI_OK;
  *list = (directory_list){0};
  DIR *directory = opendir(path);
  if (!directory) return fail_errno(error, ALIBI_BAD_INPUT, "%s: cannot read the directory", path);
  while (errno = 0, (entry = readdir(directory)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    TRY(memory_grow(&list->names, &list->capacity, list->count + 1, sizeof *list->names, "the names of files",
                    error));
    list->names[list->count] = strdup(entry->d_name);
    if (!list->names[list->count]) RAISE(error, ALIBI_FAILED, "not enough memory for the names of files");
    list->count++;
  }
  if (errno) result = fail_errno(error, ALIBI_BAD_INPUT, "%s: cannot read the directory", path);
  if (list->count > 1) qsort(list->names, list->count, sizeof *list->names, compare_names);
done:
  closedir(directory);
  if (result != ALIBI_OK) directory_list_free(list);
  return result;
}

void directory_list_free(directory_list *list)
{
  for (size_t i = 0; i < list->count; i++) free(list->names[i]);
  free(list->names);
  *list = (directory_list){0};
}

status directory_remove(const char *path, alibi_error *error)
{
  directory_list list = {0};
  char *file = NULL;
  status result = ALIBI_OK;
  if (!path_exists(path)) return ALIBI_OK;
  TRY(directory_read(path, &list, error));
  for (size_t i = 0; i < list.count; i++) {
    file = path_join(path, list.names[i]);
    if (!file) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
    if (unlink(file) != 0) {
      result = fail_errno(error, ALIBI_FAILED, "%s: cannot remove the file", file);
      goto done;
    }
    free(file);
    file = NULL;
  }
  if (rmdir(path) != 0) result = fail_errno(error, ALIBI_FAILED, "%s: cannot remove the directory", path);
done:
  free(file);
  directory_list_free(&list);
  return result;
}

static bool is_part(const char *name, const char *const *beginnings)
{
  static const char ending[] = ".part";
  size_t size = strlen(name);
  if (size < sizeof ending || strcmp(name + size - (sizeof ending - 1), ending) != 0) return false;
  for (; *beginnings; beginnings++)
    if (strncmp(name, *beginnings, strlen(*beginnings)) == 0) return true;
  return false;
}

status directory_remove_parts(const char *path, const char *const *beginnings, alibi_error *error)
{
  directory_list list;
  status result = directory_read(path, &list, error);
  for (size_t i = 0; i < list.count && result == ALIBI_OK; i++) {
    if (!is_part(list.names[i], beginnings)) continue;
    char *file = path_join(path, list.names[i]);
    if (!file) result = fail(error, ALIBI_FAILED, "not enough memory for a path");
    else if (unlink(file) != 0) result = fail_errno(error, ALIBI_FAILED, "%s: cannot remove the file", file);
    free(file);
  }
  directory_list_free(&list);
  return result;
}

static char *aside_of(const char *path)
{
  size_t size = strlen(path) + sizeof ".old";
  char *aside = malloc(size);
  if (aside) snprintf(aside, size, "%s.old", path);
  return aside;
}

status directory_drop(const char *path, alibi_error *error)
{
  status result;
  char *aside = aside_of(path);
  if (!aside) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_remove(aside, error));
  if (path_exists(path)) TRY(file_move(path, aside, error));
  TRY(directory_remove(aside, error));
done:
  free(aside);
  return result;
}

status directory_replace(const char *from, const char *to, alibi_error *error)
{
  status result;
  char *aside = aside_of(to);
  if (!aside) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  bool there = path_exists(to);
  TRY(directory_remove(aside, error));
  if (there) TRY(file_move(to, aside, error));
  result = file_move(from, to, error);
  if (result != ALIBI_OK) {
    if (there) rename(aside, to);
    goto done;
  }
  if (!path_sync_name(to)) {
    result = fail_errno(error, ALIBI_FAILED, "%s: cannot be written to disk", to);
    goto done;
  }
  if (there) TRY(directory_remove(aside, error));
done:
  free(aside);
  return result;
}
