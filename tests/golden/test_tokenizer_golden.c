/* Ids as Hugging Face's tokenizers library gives them, for the tokenizer.json that training writes here.  Cutting,
 * merging and the file format are checked against code that someone else wrote; the training text is our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alibi/tokenizer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "golden/tokenizer_golden.h"

static alibi_tokenizer *trained;
static alibi_error error;

static int setup(void **unused)
{
  (void)unused;
  const char *text = golden_text;
  size_t size = strlen(golden_text);
  return alibi_tokenizer_train(&text, &size, 1, golden_vocabulary, &trained, &error) == ALIBI_OK ? 0 : -1;
}

static int teardown(void **unused)
{
  (void)unused;
  alibi_tokenizer_free(trained);
  return 0;
}

static void ids_are_those_of_the_other_library(void **unused)
{
  (void)unused;
  assert_int_equal(alibi_tokenizer_vocabulary(trained), golden_vocabulary);
  for (size_t i = 0; i < sizeof golden_sentences / sizeof golden_sentences[0]; i++) {
    const golden_sentence *sentence = &golden_sentences[i];
    uint32_t *ids;
    size_t count;
    assert_int_equal(alibi_tokenizer_encode(trained, sentence->text, sentence->size, &ids, &count, &error),
                     ALIBI_OK);
    assert_int_equal(count, sentence->count);
    assert_memory_equal(ids, sentence->ids, count * sizeof *ids);
    alibi_tokens_free(ids);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ids_are_those_of_the_other_library)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
