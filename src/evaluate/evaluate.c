/* One evaluation of one row. */
#include "alibi/evaluate.h"

#include "base/error.h"

alibi_status alibi_evaluate(alibi_model *model, const uint32_t *tokens, size_t count, const uint32_t *token_bytes,
                            const alibi_evaluate_options *options, alibi_evaluate_result *out, alibi_error *error)
{
  alibi_evaluation *evaluation = NULL;
  size_t row;
  status result;
  TRY(alibi_evaluation_new(model, tokens, count, NULL, 0, &evaluation, error));
  TRY(alibi_evaluation_add(evaluation, options, &row, error));
  TRY(alibi_evaluation_run(evaluation, NULL, NULL, NULL, error));
  TRY(alibi_evaluation_result(evaluation, row, -1, token_bytes, out, error));
done:
  alibi_evaluation_free(evaluation);
  return result;
}
