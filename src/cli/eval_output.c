/* The end of an evaluation.  Whatever the verdict is, the numbers are handed over first. */
#include "cli/eval_output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "report/drawing.h"

/* ---- what was asked for ---- */

static status add_setting(evaluation_results *results, const char *name, draft *value, alibi_error *error)
{
  size_t capacity = results->setting_count;
  char *text = draft_take(value), *copy = strdup(name);
  status result = memory_grow(&results->settings, &capacity, results->setting_count + 1, sizeof *results->settings,
                              "the settings", error);
  if (result == ALIBI_OK && (!text || !copy))
    result = fail(error, ALIBI_FAILED, "not enough memory for the settings");
  if (result == ALIBI_OK) {
    results->settings[results->setting_count++] = (result_setting){copy, text};
    return result;
  }
  free(text);
  free(copy);
  return result;
}

static status add_number(evaluation_results *results, const char *name, int64_t value, const char *otherwise,
                         alibi_error *error)
{
  draft d = {0};
  if (value > 0) draft_add(&d, "%" PRId64, value);
  else draft_add(&d, "%s", otherwise);
  return add_setting(results, name, &d, error);
}

static status add_lists(eval_subject *s, alibi_error *error)
{
  draft protocols = {0}, lengths = {0}, extend = {0};
  status result;
  for (int p = 0; p < ALIBI_PROTOCOL_COUNT; p++)
    if (s->request->protocols[p]) draft_add(&protocols, "%s%s", protocols.used ? "," : "", alibi_protocol_name(p));
  for (size_t i = 0; i < s->length_count; i++) draft_add(&lengths, "%s%" PRId64, i ? "," : "", s->lengths[i]);
  for (size_t i = 0; i < s->request->variant_count; i++)
    draft_add(&extend, "%s%s", i ? " " : "", s->request->variants[i]);
  TRY(add_setting(&s->results, "protocols", &protocols, error));
  TRY(add_setting(&s->results, "lengths", &lengths, error));
  TRY(add_setting(&s->results, "extend", &extend, error));
done:
  free(protocols.data);
  free(lengths.data);
  free(extend.data);
  return result;
}

status eval_output_describe(eval_subject *s, const alibi_context *context, alibi_error *error)
{
  const eval_options *o = &s->request->options;
  evaluation_results *results = &s->results;
  char processor[256];
  draft machine = {0}, beginning = {0};
  status result;
  results->by_document = o->documents;
  results->by_word = o->words;
  results->stride = o->stride;
  results->max_targets = o->max_targets;
  results->begins = s->request->beginning >= 0;
  results->beginning = s->request->beginning;
  TRY(add_lists(s, error));
  TRY(add_number(results, "stride", o->stride, "a quarter of the length", error));
  TRY(add_number(results, "max_targets", o->max_targets, "all", error));
  TRY(add_number(results, "early", o->early, "64, or a quarter of the trained length where that is less", error));
  draft_add(&beginning, "%s", s->request->beginning_text);
  TRY(add_setting(results, "beginning", &beginning, error));
  system_processor_name(processor, sizeof processor);
  draft_add(&machine, "%s, %d thread%s, %s kernels, alibi %s", processor, alibi_context_threads(context),
            alibi_context_threads(context) == 1 ? "" : "s", alibi_context_isa(context), alibi_version());
  results->machine = draft_take(&machine);
  if (!results->machine) RAISE(error, ALIBI_FAILED, "not enough memory for the report");
done:
  return result;
}

/* ---- every token ---- */

static status add_tokens(const eval_subject *s, const evaluated_row *row, size_t id, token_table *table,
                         alibi_error *error)
{
  const eval_model *m = &s->models[s->results.lines[row->line].model];
  int64_t count = alibi_evaluation_target_count(m->evaluation, id);
  status result = ALIBI_OK;
  for (int64_t i = 0; i < count; i++) {
    alibi_target target = {.size = sizeof target};
    token_entry entry;
    TRY(alibi_evaluation_target(m->evaluation, id, i, &target, error));
    entry = (token_entry){.place = target.token - (int64_t)m->documents[target.document],
                          .id = m->tokens[target.token],
                          .log_probability = -target.nll,
                          .context = target.context};
    entry.text = alibi_tokenizer_bytes(m->tokenizer, entry.id, &entry.size);
    TRY(token_table_add(table, &s->results, row, s->results.texts[s->texts[target.document]].path, &entry, error));
  }
done:
  return result;
}

status eval_output_tokens(const eval_subject *s, const eval_rows *rows, token_table *table, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t pooled = 0;
  for (size_t i = 0; i < s->results.row_count; i++) {
    if (s->results.rows[i].document >= 0) continue;
    size_t id = rows->ids[pooled++];
    if (id != SIZE_MAX) TRY(add_tokens(s, &s->results.rows[i], id, table, error));
  }
  TRY(token_table_commit(table, error));
done:
  return result;
}

/* ---- the report, the table ---- */

status eval_output_reports(const eval_subject *s, alibi_error *error)
{
  const char *out = s->request->out;
  study_results curves = {0};
  bool drawn;
  status result;
  TRY(evaluation_curves(&s->results, &curves, error));
  TRY(evaluation_write_json(&s->results, out, error));
  TRY(evaluation_write_csv(&s->results, out, error));
  TRY(results_write_pictures(&curves, out, &drawn, error));
  TRY(evaluation_write_html(&s->results, &curves, out, error));
  if (!s->request->options.json)
    printf("\nThe report: %s/report.html (also results.json, results.csv, curves.svg, curves.png)\n", out);
done:
  study_results_free(&curves);
  return result;
}

status eval_output_print(const eval_subject *s, alibi_error *error)
{
  json_node *root = s->request->options.json ? evaluation_node(&s->results) : NULL;
  char *text = root ? node_to_text(root) : evaluation_table(&s->results);
  node_free(root);
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory for the results");
  progress_clear();
  printf("%s%s", text, s->request->options.json ? "\n" : "");
  free(text);
  return ALIBI_OK;
}

/* ---- the verdict ---- */

static status judge_rows(const eval_subject *s, alibi_error *error)
{
  const evaluation_results *results = &s->results;
  const evaluated_row *worst = NULL;
  double limit = s->request->options.fail_above;
  char value[40], most[40];
  for (size_t i = 0; limit > 0 && i < results->row_count; i++) {
    const evaluated_row *row = &results->rows[i];
    if (row->error || row->perplexity <= limit) continue; /* one that is no number is above */
    if (!worst || !(row->perplexity <= worst->perplexity)) worst = row;
  }
  if (!worst) return ALIBI_OK;
  number_exact(limit, most, sizeof most);
  snprintf(value, sizeof value, "%.6g", worst->perplexity);
  return fail(error, ALIBI_FAILED,
              "--fail-above: expected perplexities of at most %s, found %s: %s, %s at %" PRId64 " tokens%s%s",
              most, value, results->lines[worst->line].label, worst->protocol, worst->length,
              worst->document < 0 ? "" : ", ", worst->document < 0 ? "" : results->texts[worst->document].path);
}

/* No text fills a window of any length. */
static status say_no_room(const eval_subject *s, alibi_error *error)
{
  size_t longest = 0;
  const char *text = s->results.texts[s->texts[0]].path;
  for (size_t m = 0; m < s->results.model_count; m++)
    if (s->models[m].longest > longest) longest = s->models[m].longest;
  size_t most = longest - (s->request->beginning < 0);
  if (s->document_count == 1)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: no length could be evaluated: %zu tokens of text have room for --length %zu at most", text,
                longest, most);
  return fail(
      error, ALIBI_BAD_INPUT,
      "no length could be evaluated: the longest of %zu texts has %zu tokens, room for --length %zu at most",
      s->document_count, longest, most);
}

status eval_output_judge(const eval_subject *s, const eval_rows *rows, alibi_error *error)
{
  const evaluation_results *results = &s->results;
  for (size_t i = 0; i < results->row_count; i++)
    if (!results->rows[i].error) return judge_rows(s, error);
  if (!rows->room) return say_no_room(s, error);
  const evaluated_row *last = &results->rows[results->row_count - 1];
  if (results->row_count == 1) return fail(error, ALIBI_FAILED, "no length could be evaluated: %s", last->error);
  return fail(error, ALIBI_FAILED, "no length could be evaluated; the last, %s, %s at %" PRId64 " tokens: %s",
              results->lines[last->line].label, last->protocol, last->length, last->error);
}
