/* Runs the files of a folder through a fuzz target, and damaged copies of each: the test of a target where there
 * is no fuzzer.  The damage is drawn from a fixed start, so that a failure comes again.
 * usage: corpus_TARGET FOLDER [ROUNDS]        ROUNDS: damaged copies of each file (100) */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "fuzz_target.h"

static uint64_t state = 1;

static uint64_t draw(uint64_t below)
{
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

/* A few bytes changed, and sometimes the end cut off; the block is of exactly its size, so that a sanitizer sees a
 * read behind it. */
static void run_damaged(const unsigned char *data, size_t size)
{
  size_t kept = draw(4) == 0 ? draw(size + 1) : size;
  unsigned char *copy = malloc(kept ? kept : 1);
  if (!copy) exit(2);
  memcpy(copy, data, kept);
  for (uint64_t changes = draw(4) + 1; kept > 0 && changes > 0; changes--) {
    size_t at = draw(kept), width = (size_t)1 << draw(4);
    static const unsigned char ends[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    if (draw(2) == 0) copy[at] ^= (unsigned char)(1u << draw(8));
    else memset(copy + at, ends[draw(sizeof ends)], width < kept - at ? width : kept - at);
  }
  LLVMFuzzerTestOneInput(copy, kept);
  free(copy);
}

static bool run_file(const char *path, long rounds)
{
  enum { MOST = 1 << 20 };
  static unsigned char content[MOST];
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  size_t size = fread(content, 1, MOST, file);
  fclose(file);
  unsigned char *exact = malloc(size ? size : 1);
  if (!exact) return false;
  memcpy(exact, content, size);
  LLVMFuzzerTestOneInput(exact, size);
  for (long i = 0; i < rounds; i++) run_damaged(exact, size);
  free(exact);
  return true;
}

int main(int count, char **arguments)
{
  directory_list list;
  alibi_error error;
  alibi_error_init(&error);
  if (count < 2 || directory_read(arguments[1], &list, &error) != ALIBI_OK) return 2;
  bool good = true;
  size_t files = 0;
  for (size_t i = 0; i < list.count; i++) {
    char *path = path_join(arguments[1], list.names[i]);
    if (!path) return 2;
    if (!path_is_directory(path)) {
      good = run_file(path, count > 2 ? atol(arguments[2]) : 100) && good;
      files++;
    }
    free(path);
  }
  directory_list_free(&list);
  printf("%zu files\n", files);
  return !good || files == 0;
}
