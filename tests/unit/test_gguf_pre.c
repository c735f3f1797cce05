/* What the names of pre-tokenizers in GGUF files do to a text: the pieces that tokenizers 0.23.3 cuts with the
 * same patterns (random texts: scripts/make_tokenizer_json_golden.py names). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/gguf_vocabulary.h"
#include "text/pipeline_parts.h"
#include "text/pre_tokenizer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include <string.h>

typedef struct pieces {
  char text[512]; /* with | between them */
  size_t size;
} pieces;

static status take(void *user, const unsigned char *piece, size_t size, bool raw, alibi_error *error)
{
  pieces *p = user;
  (void)raw, (void)error;
  assert_true(p->size + size + 1 < sizeof p->text);
  if (p->size > 0) p->text[p->size++] = '|';
  memcpy(p->text + p->size, piece, size);
  p->size += size;
  return ALIBI_OK;
}

static void expect_pieces(const char *name, const char *text, const char *expected)
{
  alibi_error error;
  const gguf_pre *pre = gguf_pre_named(name, strlen(name));
  pre_tokenizer *cut;
  pre_tokenizer_memory *memory;
  pieces found = {0};
  json_node *steps, *node = part_sequence("pretokenizers", &steps);
  alibi_error_init(&error);
  assert_non_null(pre);
  for (size_t i = 0; i < GGUF_SPLITS && pre->split[i]; i++) node_append(steps, part_split(pre->split[i]));
  if (pre_tokenizer_new(node, name, &cut, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(pre_tokenizer_begin(cut, take, &found, &memory, &error), ALIBI_OK);
  assert_int_equal(pre_tokenizer_run(memory, (const unsigned char *)text, strlen(text), 0, &error), ALIBI_OK);
  assert_string_equal(found.text, expected);
  pre_tokenizer_end(memory);
  pre_tokenizer_free(cut);
  node_free(node);
}

static void names_cut_as_the_library(void **state)
{
  static const char text[] =
      "XMLHttp request's DON'T \u4f60\u597d\u3042 12345, x+=1;\r\n\r\n  f(ab\u0301c)\n/\u00e9 \u00a0end ";
  static const struct {
    const char *name, *pieces;
  } cases[] = {
      {"gpt-4o", "XMLHttp| request's| DON'T| \u4f60\u597d\u3042| |123|45|,| x|+=|1|;\r\n\r\n| | "
                 "f|(ab\u0301c|)\n/|\u00e9| |\u00a0end| "},
      {"tekken", "XMLHttp| request|'s| DON|'T| \u4f60\u597d\u3042| |1|2|3|4|5|,| x|+=|1|;\r\n\r\n| | "
                 "f|(ab\u0301c|)\n/|\u00e9| |\u00a0end| "},
      {"deepseek-v3", "XMLHttp| request|'s| DON|'T| |\u4f60\u597d\u3042| |123|45|,| x|+=|1|;\r\n\r\n| | "
                      "f|(ab|\u0301c|)\n|/|\u00e9| |\u00a0end| "},
      {"deepseek-coder", "XMLHttp| request|'|s| DON|'|T| |\u4f60\u597d\u3042| |1|2|3|4|5|,| x|+=|1|;|\r|\n|\r|\n| "
                         "| f|(|ab|\u0301|c|)|\n|/|\u00e9| |\u00a0end| "},
      {"bailingmoe", "XMLHttp| request|'s| DON|'T| \u4f60\u597d\u3042| |1|2|3|4|5|,| x|+=|1|;\r\n\r\n| | "
                     "f|(ab|\u0301c|)\n|/\u00e9| |\u00a0end| "},
      {"seed-coder", "XMLHttp| request|'s| DON|'T| \u4f60\u597d\u3042| |1|2|3|4|5|,| x|+=|1|;|\r\n\r\n| | "
                     "f|(ab|\u0301c|)|\n|/\u00e9| |\u00a0end| "},
      {"glm4", "XMLHttp| request|'s| DON|'T| \u4f60\u597d\u3042| |123|45|,| x|+=|1|;\r\n\r\n| | "
               "f|(ab|\u0301c|)\n|/\u00e9| |\u00a0end| "},
      {"grok-2", "XMLHttp| request|'s| DON|'T| \u4f60\u597d\u3042| |1|2|3|4|5|,| x|+=|1|;\r\n\r\n| | "
                 "f|(ab|\u0301c|)\n|/\u00e9| |\u00a0end| "},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) expect_pieces(cases[i].name, text, cases[i].pieces);
}

static void aliases_are_one_row(void **state)
{
  static const char *const same[][2] = {
      {"gpt-4o", "llama4"}, {"gpt-4o", "minimax-m2"}, {"deepseek-v3", "joyai-llm"}, {"glm4", "chatglm-bpe"}};
  (void)state;
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    assert_ptr_equal(gguf_pre_named(same[i][0], strlen(same[i][0])),
                     gguf_pre_named(same[i][1], strlen(same[i][1])));
  assert_null(gguf_pre_named("deepseek-llm", 12)); /* its letters are a list of an old Unicode: refused */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_cut_as_the_library),
      cmocka_unit_test(aliases_are_one_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
