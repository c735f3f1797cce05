/* Ids and texts as Hugging Face's library gives them, for tokenizer.json files of every kind (trained by the
 * script that wrote them, scripts/make_tokenizer_json_golden.py, which also compares 10,000 random texts where
 * that library is installed). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "file/json.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;
static json_node *vectors;

static int setup(void **state)
{
  if (node_read_file(TOKENIZER_CASES "/vectors.json", &vectors, &error) != ALIBI_OK) return -1;
  return scratch_setup(state);
}

static int teardown(void **state)
{
  node_free(vectors);
  return scratch_teardown(state);
}

/* The tokenizer.json of an entry: its parts, and one of the models that several share. */
static alibi_tokenizer *open_entry(const json_node *entry)
{
  const char *path = scratch_path("tokenizer.json");
  json_node *root = node_copy(node_get(entry, "parts"));
  const json_node *model =
      node_at(node_get(vectors, "models"), (size_t)node_integer(node_get(entry, "model"), -1));
  alibi_tokenizer *t;
  assert_non_null(model);
  node_set(root, "model", node_copy(model));
  assert_int_equal(node_write_file(root, path, &error), ALIBI_OK);
  node_free(root);
  if (alibi_tokenizer_open(path, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return t;
}

static void expect_ids(const alibi_tokenizer *t, const json_node *item, const char *name)
{
  const char *text = node_text(node_get(item, "text"), NULL);
  const json_node *expected = node_get(item, "ids");
  alibi_encode_options options;
  uint32_t *ids;
  size_t count;
  assert_non_null(text);
  alibi_encode_options_init(&options);
  options.add_special = node_boolean(node_get(item, "special"), false);
  options.control = node_boolean(node_get(item, "control"), false);
  assert_int_equal(alibi_tokenizer_encode_with(t, &options, text, strlen(text), &ids, &count, &error), ALIBI_OK);
  if (count != node_count(expected))
    fail_msg("%s: '%s': %zu ids, not %zu", name, text, count, node_count(expected));
  for (size_t i = 0; i < count; i++)
    if (ids[i] != node_integer(node_at(expected, i), -1))
      fail_msg("%s: '%s': id %zu is %u, not %lld", name, text, i, (unsigned)ids[i],
               (long long)node_integer(node_at(expected, i), -1));
  alibi_tokens_free(ids);
}

/* As a whole, and as a stream of whole characters. */
static void expect_text(const alibi_tokenizer *t, const json_node *item)
{
  const char *expected = node_text(node_get(item, "decoded"), NULL), *part;
  const json_node *ids = node_get(item, "ids");
  uint32_t tokens[4096];
  size_t count = node_count(ids), size, used = 0;
  char *whole, *streamed = calloc(1, strlen(expected) + 1024);
  alibi_decoder *d;
  assert_non_null(streamed);
  assert_true(count <= sizeof tokens / sizeof *tokens);
  for (size_t i = 0; i < count; i++) tokens[i] = (uint32_t)node_integer(node_at(ids, i), -1);
  assert_int_equal(alibi_tokenizer_decode(t, NULL, tokens, count, &whole, &size, &error), ALIBI_OK);
  assert_string_equal(whole, expected);
  assert_int_equal(alibi_decoder_new(t, NULL, &d, &error), ALIBI_OK);
  for (size_t i = 0; i <= count; i++) {
    if (i < count) assert_int_equal(alibi_decoder_add(d, tokens[i], &part, &size, &error), ALIBI_OK);
    else assert_int_equal(alibi_decoder_end(d, &part, &size, &error), ALIBI_OK);
    assert_true(size == 0 || ((unsigned char)part[0] & 0xc0) != 0x80); /* no character begins in its middle */
    assert_true(used + size <= strlen(expected));
    memcpy(streamed + used, part, size);
    used += size;
  }
  assert_string_equal(streamed, expected);
  alibi_decoder_free(d);
  alibi_text_free(whole);
  free(streamed);
}

static void ids_and_texts_are_those_of_the_other_library(void **unused)
{
  (void)unused;
  const json_node *tokenizers = node_get(vectors, "tokenizers");
  size_t texts = 0;
  for (size_t i = 0; i < node_count(tokenizers); i++) {
    const json_node *entry = node_at(tokenizers, i), *items = node_get(entry, "texts");
    const char *name = node_text(node_get(entry, "name"), "");
    alibi_tokenizer *t = open_entry(entry);
    for (size_t k = 0; k < node_count(items); k++, texts++) {
      expect_ids(t, node_at(items, k), name);
      expect_text(t, node_at(items, k));
    }
    alibi_tokenizer_free(t);
  }
  assert_true(texts >= 400);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ids_and_texts_are_those_of_the_other_library)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
