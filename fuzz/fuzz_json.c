/* The reader of JSON under a fuzzer: what it reads it can write, and reads as the same again. */
#include "file/json.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

static volatile size_t sum;

static void walk(const json_node *node)
{
  for (size_t i = 0; i < node_count(node); i++) {
    const char *key = NULL;
    const json_node *child = node_member(node, i, &key);
    if (key && node_get(node, key) != child) abort();
    walk(node_at(node, i));
  }
  sum += strlen(node_text(node, "")) + (size_t)(node_number(node, 0) > 0) + (size_t)node_boolean(node, false);
  if (node_integer(node, 1) != node_integer(node, 2) && node_kind_of(node) == NODE_INTEGER) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  json_node *root = NULL, *again = NULL;
  alibi_error error;
  alibi_error_init(&error);
  fuzz_give(data, size);
  status result = node_read_file(FUZZ_PATH, &root, &error);
  if (result != ALIBI_OK) {
    fuzz_check_error(result, &error);
    return 0;
  }
  walk(root);
  char *text = node_to_text(root);
  if (!text || node_parse(text, strlen(text), FUZZ_PATH, &again, &error) != ALIBI_OK) abort();
  char *twice = node_to_text(again);
  if (!twice || strcmp(text, twice) != 0) abort();
  free(text);
  free(twice);
  node_free(again);
  node_free(root);
  return 0;
}
