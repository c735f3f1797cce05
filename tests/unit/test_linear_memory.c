/* Memory of linear operations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "op/op.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

/* Panels that many rows need are enough for fewer, which may be cut into deeper slabs. */
static void fewer_rows_need_no_more_panels(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  for (size_t rows = 1; rows < 1700; rows += 3) {
    size_t most = op_linear_panel_floats(context, rows, 32, 32);
    for (size_t fewer = 1; fewer < rows; fewer += 5)
      assert_true(op_linear_panel_floats(context, fewer, 32, 32) <= most);
  }
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(fewer_rows_need_no_more_panels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
