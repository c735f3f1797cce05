/* Opening a model under a fuzzer: config.json through the families to a model whose weights lie where they are.
 *
 * An input is one of
 *   CONFIG 0 HEADER           config.json, and the header of model.safetensors; the data are made, all zeros
 *   CONFIG 0 INDEX 0 HEADER   the same with an index; the header is that of the shard "a"
 *   0 N N N GGUF...           a GGUF file, followed by so many zeros (three bytes, the lowest first)
 * so that a few hundred bytes are a whole model. */
#include <stdlib.h>
#include <string.h>

#include "alibi/model.h"
#include "file/json.h"
#include "fuzz_target.h"
#include "model/config.h"

enum { DATA_MOST = 1 << 19, PREFIX = 8 };

static alibi_context *context;

/* Where the data of a header ends, as it says itself; 0 where it says nothing that can be. */
static size_t data_size(const char *header, size_t size)
{
  json_node *root = NULL;
  int64_t most = 0;
  if (node_parse(header, size, FUZZ_PATH, &root, NULL) != ALIBI_OK) return 0;
  for (size_t i = 0; i < node_count(root); i++) {
    const char *name;
    const json_node *tensor = node_member(root, i, &name);
    int64_t end = node_integer(node_at(node_get(tensor, "data_offsets"), 1), 0);
    if (end > most && end <= DATA_MOST) most = end;
  }
  node_free(root);
  return (size_t)most;
}

static unsigned char *make_safetensors(const uint8_t *header, size_t size, size_t *made_size)
{
  *made_size = PREFIX + size + data_size((const char *)header, size);
  unsigned char *made = calloc(*made_size, 1);
  if (!made) exit(2);
  for (int i = 0; i < PREFIX; i++) made[i] = (unsigned char)((uint64_t)size >> (8 * i));
  if (size) memcpy(made + PREFIX, header, size);
  return made;
}

/* What was opened must stand by what it says, and be written as what it can be read from. */
static void check_model(const alibi_model *model)
{
  alibi_error error;
  alibi_model_config again;
  alibi_error_init(&error);
  const alibi_model_config *config = alibi_model_get_config(model);
  if (alibi_model_config_check(config, &error) != ALIBI_OK) abort();
  json_node *node = model_config_node(config);
  if (model_config_read(node, FUZZ_PATH, &again, &error) != ALIBI_OK) abort();
  node_free(node);
}

static void open_model(const char *path)
{
  alibi_error error;
  alibi_model *model = NULL;
  alibi_error_init(&error);
  status result = alibi_model_open(context, path, &model, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  else check_model(model);
  alibi_model_free(model);
}

static void open_gguf(const uint8_t *data, size_t size)
{
  if (size < 3) return;
  size_t zeros = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % DATA_MOST;
  unsigned char *made = calloc(size - 3 + zeros + 1, 1);
  if (!made) exit(2);
  memcpy(made, data + 3, size - 3);
  fuzz_give(made, size - 3 + zeros);
  open_model(FUZZ_PATH);
  free(made);
}

static void open_folder(const uint8_t *data, size_t config_size, size_t size)
{
  const uint8_t *header = data + config_size, *end = data + size;
  if (header < end) header++;
  const uint8_t *second = header < end ? memchr(header, 0, (size_t)(end - header)) : NULL;
  fuzz_give_none();
  fuzz_give_file(FUZZ_FOLDER "/config.json", data, config_size);
  if (second) {
    fuzz_give_file(FUZZ_FOLDER "/model.safetensors.index.json", header, (size_t)(second - header));
    header = second + 1;
  }
  size_t made_size;
  unsigned char *made = make_safetensors(header, (size_t)(end - header), &made_size);
  fuzz_give_file(second ? FUZZ_FOLDER "/a" : FUZZ_FOLDER "/model.safetensors", made, made_size);
  open_model(FUZZ_FOLDER);
  free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  alibi_context_options one;
  alibi_context_options_init(&one);
  one.threads = 1;
  if (!context && alibi_context_new(&one, &context, NULL) != ALIBI_OK) exit(2);
  const uint8_t *end = size ? memchr(data, 0, size) : NULL;
  size_t config_size = end ? (size_t)(end - data) : size;
  if (size > 0 && config_size == 0) open_gguf(data + 1, size - 1);
  else open_folder(data, config_size, size);
  return 0;
}
