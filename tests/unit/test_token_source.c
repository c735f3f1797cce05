/* Sources of tokens: reading across parts, documents, what a source refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/token_source.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

/* Three parts of 5, 1 and 4 tokens, narrow, wide, narrow: token i is 7 i. */
static const uint16_t first[] = {0, 7, 14, 21, 28}, last[] = {42, 49, 56, 63};
static const uint32_t middle[] = {35};
static const uint64_t first_documents[] = {0, 2, 3}, middle_documents[] = {0}, last_documents[] = {0, 3};
static token_part parts[] = {{first, 5, false, first_documents, 3},
                             {middle, 1, true, middle_documents, 1},
                             {last, 4, false, last_documents, 2}};
static size_t starts[] = {0, 5, 6, 10};
static const token_source three = {
    .parts = parts, .starts = starts, .part_count = 3, .count = 10, .document_count = 6, .largest = 63};

static void reads_across_parts(void **unused)
{
  (void)unused;
  for (size_t from = 0; from <= three.count; from++)
    for (size_t count = 0; count <= three.count - from; count++) {
      uint32_t ids[11];
      memset(ids, 0xee, sizeof ids);
      token_source_read(&three, from, count, ids);
      for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], 7 * (from + i));
      assert_int_equal(ids[count], 0xeeeeeeeeu);
    }
}

static void finds_the_next_document(void **unused)
{
  (void)unused;
  static const size_t expected[] = {2, 2, 3, 5, 5, 6, 9, 9, 9, 10, 10, 10};
  for (size_t from = 0; from < sizeof expected / sizeof expected[0]; from++)
    assert_int_equal(token_source_next_document(&three, from), expected[from]);
}

static void takes_ids_in_memory(void **unused)
{
  (void)unused;
  static const uint32_t ids[] = {3, 1, 400000, 1, 5};
  static const uint64_t documents[] = {0, 1, 4};
  token_source with, without, other;
  assert_int_equal(token_source_of_ids("ids", ids, 5, documents, 3, &with, &error), ALIBI_OK);
  assert_int_equal(token_source_of_ids("ids", ids, 5, NULL, 0, &without, &error), ALIBI_OK);
  assert_int_equal(token_source_of_ids("ids", ids, 4, NULL, 0, &other, &error), ALIBI_OK);
  assert_int_equal(with.largest, 400000);
  assert_true(token_source_has_documents(&with));
  assert_false(token_source_has_documents(&without));
  assert_int_equal(token_source_next_document(&with, 1), 4);
  assert_int_equal(token_source_next_document(&with, 4), 5);
  assert_int_equal(token_source_next_document(&without, 0), 5);
  assert_true(with.fingerprint != without.fingerprint && without.fingerprint != other.fingerprint);
  uint64_t kept = with.fingerprint;
  token_source_close(&with);
  assert_int_equal(token_source_of_ids("again", ids, 5, documents, 3, &with, &error), ALIBI_OK);
  assert_true(with.fingerprint == kept);
  assert_int_equal(token_source_check(&with, 400001, 0, &error), ALIBI_OK);
  assert_int_equal(token_source_check(&with, 400000, 0, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "again: expected ids below the vocabulary of 400000, found 400000");
  token_source_close(&with);
  token_source_close(&without);
  token_source_close(&other);
}

static void refuses_documents_out_of_order(void **unused)
{
  (void)unused;
  static const uint32_t ids[] = {1, 2, 3};
  static const uint64_t wrong[][2] = {{1, 2}, {0, 0}, {0, 3}};
  token_source source;
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(token_source_of_ids("ids", ids, 3, wrong[i], 2, &source, &error), ALIBI_INVALID);
  scratch_says(error.message, "document 2: expected a start after token 0 and before token 3, found 3");
  assert_int_equal(token_source_of_ids("ids", ids, 0, NULL, 0, &source, &error), ALIBI_INVALID);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_across_parts), cmocka_unit_test(finds_the_next_document),
      cmocka_unit_test(takes_ids_in_memory), cmocka_unit_test(refuses_documents_out_of_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
