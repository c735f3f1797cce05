/* Stored weights against the gguf package and numpy (scripts/make_weight_golden.py): what is read is the same
 * number, what is written the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "kernel/kernel.h"
#include "kernel/weight_plain.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "golden/weight_figures.h"

enum { NUMBERS = 4096 };

static void stored_weights_are_read(void **unused)
{
  (void)unused;
  static float found[NUMBERS];
  for (size_t g = 0; g < sizeof golden_widened / sizeof golden_widened[0]; g++)
    for (size_t i = 0; i < kernel_table_count(); i++) {
      const golden_weights *w = golden_widened + g;
      const kernel_table *k = kernel_table_at(i);
      if (!k) continue;
      assert_true(w->count <= NUMBERS);
      k->widen(w->type, w->count, w->stored, found);
      for (size_t e = 0; e < w->count; e++)
        if (found[e] != w->numbers[e])
          fail_msg("%s, %s: number %zu: expected %.9g, found %.9g", weight_type_name(w->type), k->name, e,
                   (double)w->numbers[e], (double)found[e]);
    }
}

static void weights_are_written(void **unused)
{
  (void)unused;
  for (size_t g = 0; g < sizeof golden_narrowed / sizeof golden_narrowed[0]; g++) {
    const golden_weights *w = golden_narrowed + g;
    size_t bytes = w->count / weight_block_elements(w->type) * weight_block_bytes(w->type);
    unsigned char found[NUMBERS];
    assert_true(bytes <= NUMBERS);
    weight_narrow(w->type, w->count, w->numbers, found);
    for (size_t i = 0; i < bytes; i++)
      if (found[i] != w->stored[i])
        fail_msg("%s: byte %zu of %zu: expected %d, found %d", weight_type_name(w->type), i, bytes, w->stored[i],
                 found[i]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(stored_weights_are_read),
                                     cmocka_unit_test(weights_are_written)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
