/* scratch.h - a folder of its own for a test: made, filled, removed.  Include after cmocka.h. */
#ifndef UNIT_SCRATCH_H
#define UNIT_SCRATCH_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch_folder[64];

static inline void scratch_make(void)
{
  strcpy(scratch_folder, "/tmp/alibi-test-XXXXXX");
  assert_non_null(mkdtemp(scratch_folder));
}

/* A path inside the folder; the last eight stay valid. */
static inline const char *scratch_path(const char *name)
{
  static char paths[8][512];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", scratch_folder, name);
  return path;
}

static inline size_t scratch_entries(void)
{
  size_t count = 0;
  DIR *folder = opendir(scratch_folder);
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));)
    count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(folder);
  return count;
}

static inline void scratch_remove_tree(const char *path)
{
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    struct stat about;
    size_t size = strlen(path) + strlen(entry->d_name) + 2;
    char *inside = malloc(size);
    assert_non_null(inside);
    snprintf(inside, size, "%s/%s", path, entry->d_name);
    if (lstat(inside, &about) == 0 && S_ISDIR(about.st_mode)) scratch_remove_tree(inside);
    else unlink(inside);
    free(inside);
  }
  closedir(folder);
  rmdir(path);
}

static inline void scratch_remove(void)
{
  scratch_remove_tree(scratch_folder);
}

/* As cmocka's setup and teardown of a test that needs nothing else. */
static inline int scratch_setup(void **state)
{
  (void)state;
  scratch_make();
  return 0;
}

static inline int scratch_teardown(void **state)
{
  (void)state;
  scratch_remove();
  return 0;
}

static inline void scratch_write(const char *path, const void *data, size_t size)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* The content as a text; free() it. */
static inline char *scratch_read(const char *path)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, file) < (1 << 20) - 1);
  fclose(file);
  return text;
}

static inline void scratch_expect(const char *path, const char *content)
{
  char *found = scratch_read(path);
  assert_string_equal(found, content);
  free(found);
}

/* The sentence must say this. */
static inline void scratch_says(const char *sentence, const char *part)
{
  if (!strstr(sentence, part)) fail_msg("expected a sentence with \"%s\", found \"%s\"", part, sentence);
}

#endif
