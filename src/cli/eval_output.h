/* cli/eval_output.h - what `alibi eval` hands back: tokens, the report, the table or JSON, the verdict for a CI.
 */
#ifndef CLI_EVAL_OUTPUT_H
#define CLI_EVAL_OUTPUT_H

#include "cli/eval_rows.h"
#include "report/evaluation_tokens.h"

/* Settings and machine into the results. */
status eval_output_describe(eval_subject *subject, const alibi_context *context, alibi_error *error);

/* Every scored token of every row. */
status eval_output_tokens(const eval_subject *subject, const eval_rows *rows, token_table *table,
                          alibi_error *error);

/* The table or JSON on standard output; the report in --out. */
status eval_output_print(const eval_subject *subject, alibi_error *error);
status eval_output_reports(const eval_subject *subject, alibi_error *error);

/* Was anything measured, and nothing above --fail-above? */
status eval_output_judge(const eval_subject *subject, const eval_rows *rows, alibi_error *error);

#endif
