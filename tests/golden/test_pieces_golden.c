/* SentencePiece models against the package `sentencepiece`: ids of the same texts, and what ids decode to.  The
 * files are those of scripts/make_pieces_golden.py: the ones beside this source, or in the folder that is the
 * argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alibi/tokenizer.h"
#include "text/sentencepiece.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;
static alibi_error error;
static size_t compared;

/* A field of a line of hexadecimal digits, "-" for none; *size bytes, for free(). */
static unsigned char *bytes_of(const char *hex, size_t *size)
{
  *size = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
  unsigned char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < *size; i++) {
    char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    bytes[i] = (unsigned char)strtoul(two, NULL, 16);
  }
  return bytes;
}

static size_t ids_of(char *list, uint32_t *ids)
{
  size_t count = 0;
  if (strcmp(list, "-") == 0) return 0;
  for (char *at = list; *at; at += *at == ',') ids[count++] = (uint32_t)strtoul(at, &at, 10);
  return count;
}

static void expect_ids(const char *where, const char *text, const char *list, const uint32_t *expected,
                       size_t expected_count, const uint32_t *found, size_t count)
{
  bool same = count == expected_count;
  for (size_t i = 0; same && i < count; i++) same = found[i] == expected[i];
  if (same) return;
  print_message("%s: text %s\n  expected %s\n  found   ", where, text, list);
  for (size_t i = 0; i < count; i++) print_message("%s%u", i ? "," : " ", (unsigned)found[i]);
  fail_msg("other ids than the library's");
}

static void check_case(const sentencepiece *s, const alibi_tokenizer *t, const char *where, char *line)
{
  char *text_field = strtok(line, " \n"), *ids_field = strtok(NULL, " \n"), *back_field = strtok(NULL, " \n");
  assert_non_null(back_field);
  size_t size, back_size, decoded_size, length = strlen(ids_field);
  unsigned char *text = bytes_of(text_field, &size), *back = bytes_of(back_field, &back_size);
  uint32_t *expected = malloc((length + 1) * sizeof *expected);
  assert_non_null(expected);
  size_t count = ids_of(ids_field, expected);

  token_list found = {0};
  if (sentencepiece_encode(s, text, size, &found, &error) != ALIBI_OK) fail_msg("%s: %s", where, error.message);
  expect_ids(where, text_field, ids_field, expected, count, found.ids, found.count);

  uint32_t *tokens;
  size_t token_count;
  if (alibi_tokenizer_encode(t, text, size, &tokens, &token_count, &error) != ALIBI_OK)
    fail_msg("%s: %s", where, error.message);
  expect_ids(where, text_field, ids_field, expected, count, tokens, token_count);
  alibi_tokens_free(tokens);

  char *decoded;
  if (alibi_tokenizer_decode(t, NULL, expected, count, &decoded, &decoded_size, &error) != ALIBI_OK)
    fail_msg("%s: %s", where, error.message);
  if (decoded_size != back_size || memcmp(decoded, back, back_size) != 0)
    fail_msg("%s: ids %s of %s decode to '%s', the library's to '%.*s'", where, ids_field, text_field, decoded,
             (int)back_size, (const char *)back);
  alibi_text_free(decoded);
  free(found.ids);
  free(expected);
  free(text);
  free(back);
  compared++;
}

static void check_model(const char *name)
{
  static char line[1 << 20];
  char model[1024], cases[1024], where[1100];
  snprintf(model, sizeof model, "%s/%s.model", folder, name);
  snprintf(cases, sizeof cases, "%s/%s.cases", folder, name);
  sentencepiece *s;
  alibi_tokenizer *t;
  if (sentencepiece_read(model, &s, &error) != ALIBI_OK) fail_msg("%s", error.message);
  if (alibi_tokenizer_open(model, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
  FILE *file = fopen(cases, "r");
  assert_non_null(file);
  for (int number = 1; fgets(line, sizeof line, file); number++) {
    snprintf(where, sizeof where, "%s:%d", cases, number);
    check_case(s, t, where, line);
  }
  fclose(file);
  alibi_tokenizer_free(t);
  sentencepiece_free(s);
}

static void ids_and_texts_are_those_of_the_library(void **unused)
{
  (void)unused;
  size_t models = 0;
  DIR *entries = opendir(folder);
  assert_non_null(entries);
  for (struct dirent *entry; (entry = readdir(entries));) {
    char *end = strstr(entry->d_name, ".model");
    if (!end || strcmp(end, ".model") != 0) continue;
    *end = '\0';
    check_model(entry->d_name);
    models++;
  }
  closedir(entries);
  print_message("%zu models, %zu texts\n", models, compared);
  assert_true(models >= 8 && compared >= 800);
}

int main(int count, char **arguments)
{
  static char beside[sizeof __FILE__ + sizeof "/pieces"] = __FILE__;
  char *slash = strrchr(beside, '/');
  strcpy(slash ? slash : beside, slash ? "/pieces" : "pieces");
  folder = count > 1 ? arguments[1] : beside;
  const struct CMUnitTest tests[] = {cmocka_unit_test(ids_and_texts_are_those_of_the_library)};
  alibi_error_init(&error);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
