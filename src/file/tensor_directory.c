/* Which file of a directory has the weights.  The one idea: somebody who gave a directory without them gets to
 * know what is there in their place, and what can be done with it. */
#include "file/tensor_directory.h"

#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/system.h"

static bool ends_with(const char *text, const char *end)
{
  size_t size = strlen(text), tail = strlen(end);
  return size >= tail && strcmp(text + size - tail, end) == 0;
}

static bool is_listed(const directory_list *list, const char *name)
{
  for (size_t i = 0; i < list->count; i++)
    if (strcmp(list->names[i], name) == 0) return true;
  return false;
}

/* Two names of one split model, NAME-00001-of-00003.gguf: they differ in the first number alone. */
static bool same_split(const char *a, const char *b)
{
  static const char number[] = "00001", end[] = "-of-00003.gguf";
  size_t size = strlen(a), tail = sizeof end - 1, digits = sizeof number - 1;
  if (size != strlen(b) || size < tail + digits) return false;
  const char *last = a + size - tail;
  return memcmp(last, end, 4) == 0 && strcmp(last, b + size - tail) == 0 &&
         memcmp(a, b, size - tail - digits) == 0;
}

/* *name NULL: no .gguf file. */
static status find_gguf(const char *directory, const directory_list *list, const char **name, alibi_error *error)
{
  *name = NULL;
  for (size_t i = 0; i < list->count; i++) {
    if (!ends_with(list->names[i], ".gguf")) continue;
    if (*name && !same_split(*name, list->names[i]))
      return fail(error, ALIBI_BAD_INPUT, "%s: expected one model, found %s and %s: name the file", directory,
                  *name, list->names[i]);
    if (!*name) *name = list->names[i];
  }
  return ALIBI_OK;
}

/* Weights under a name that is looked for nowhere. */
static status say_what_is_there(const char *directory, const directory_list *list, alibi_error *error)
{
  static const char expected[] =
      "expected model.safetensors, its index and shards, a .gguf file or pytorch_model.bin "
      "in the directory, found";
  static const char *const readable[] = {".safetensors", ".bin", ".pt", ".pth"};
  static const char *const foreign[] = {".h5", ".msgpack", ".onnx", ".ckpt", ".npz", ".tflite", ".ot"};
  const char *other = NULL;
  for (size_t i = 0; i < list->count; i++)
    if (strncmp(list->names[i], "adapter_model.", 14) == 0)
      return fail(error, ALIBI_BAD_INPUT,
                  "%s: %s the adapter %s alone: merge it into the model that it was made for, and open that",
                  directory, expected, list->names[i]);
  for (size_t i = 0; i < list->count; i++) {
    const char *name = list->names[i];
    for (size_t k = 0; k < sizeof readable / sizeof *readable; k++)
      if (ends_with(name, readable[k]) && strcmp(name, "training_args.bin") != 0 &&
          strncmp(name, "optimizer.", 10) != 0)
        return fail(error, ALIBI_BAD_INPUT, "%s: %s %s: if these are its weights, name the file", directory,
                    expected, name);
    for (size_t k = 0; k < sizeof foreign / sizeof *foreign && !other; k++)
      if (ends_with(name, foreign[k])) other = name;
  }
  if (other)
    return fail(error, ALIBI_BAD_INPUT, "%s: %s %s, whose format is not read", directory, expected, other);
  return fail(error, ALIBI_BAD_INPUT, "%s: %s none", directory, expected);
}

/* *path NULL: it is not there. */
static status take(const char *directory, const directory_list *list, const char *name, char **path,
                   alibi_error *error)
{
  status result = ALIBI_OK;
  *path = path_join(directory, name);
  if (!*path) return fail(error, ALIBI_FAILED, "%s: not enough memory to open it", directory);
  if (path_exists(*path)) return ALIBI_OK;
  if (is_listed(list, name))
    result =
        fail(error, ALIBI_BAD_INPUT,
             "%s: expected the model's weights, found a link to a file that is not there (was it removed from a "
             "cache?)",
             *path);
  free(*path);
  *path = NULL;
  return result;
}

status tensor_directory_find(const char *directory, char **path, alibi_error *error)
{
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json", NULL,
                                      "pytorch_model.bin", "pytorch_model.bin.index.json"};
  directory_list list = {0};
  alibi_error why = {0};
  status result = ALIBI_OK, read = directory_read(directory, &list, &why); /* which may be forbidden */
  *path = NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !*path; i++) {
    const char *name = names[i];
    if (!name) TRY(find_gguf(directory, &list, &name, error));
    if (name) TRY(take(directory, &list, name, path, error));
  }
  if (!*path && read != ALIBI_OK) RAISE(error, read, "%s", why.message);
  if (!*path) TRY(say_what_is_there(directory, &list, error));
done:
  directory_list_free(&list);
  return result;
}
