/* An evaluation for programs: results.json (docs/evaluation.md lists its keys; a change of meaning raises the
 * schema's number, a new key does not) and results.csv.  Rows are flat lists, because that is what another tool
 * wants to filter; every row says whose it is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "report/drawing.h"
#include "report/evaluation_results.h"

static const double BITS = 1.4426950408889634074; /* 1 / ln 2 */

static double speed_of(const evaluated_row *r)
{
  return r->input_tokens > 0 && r->seconds > 0 ? (double)r->input_tokens / r->seconds : NAN;
}

static const char *document_name(const evaluation_results *results, const evaluated_row *r)
{
  return r->document < 0 ? NULL : results->texts[r->document].path;
}

/* Whose row it is. */
static json_node *identity_node(const evaluation_results *results, const evaluated_row *r)
{
  const evaluation_line *line = &results->lines[r->line];
  json_node *node = node_new_object();
  node_set_text(node, "model", results->models[line->model].name);
  node_set_text(node, "protocol", r->protocol);
  node_set_text(node, "extend", line->extend);
  node_set_integer(node, "length", r->length);
  node_set_text(node, "document", document_name(results, r));
  return node;
}

static void set_early(json_node *node, const evaluated_row *r)
{
  node_set_integer(node, "early", r->early);
  node_set_integer(node, "early_tokens", r->early_tokens);
  node_set_number(node, "early_nll", r->early_nll);
  node_set_number(node, "late_nll", r->late_nll);
  node_set_number(node, "late_standard_error", r->late_standard_error);
}

static void set_difference(json_node *node, const evaluated_row *r)
{
  const char *verdict = evaluation_verdict(r);
  if (!verdict) {
    node_set_null(node, "difference");
    return;
  }
  json_node *difference = node_new_object();
  node_set_number(difference, "nll", r->difference);
  node_set_number(difference, "standard_error", r->difference_standard_error);
  node_set_integer(difference, "tokens", r->paired_tokens);
  node_set_text(difference, "verdict", verdict);
  node_set(node, "difference", difference);
}

static json_node *row_node(const evaluation_results *results, const evaluated_row *r)
{
  json_node *node = identity_node(results, r);
  if (r->error) {
    node_set_text(node, "error", r->error);
    return node;
  }
  node_set_integer(node, strcmp(r->protocol, "fixed-target") == 0 ? "targets_per_window" : "stride", r->stride);
  node_set_number(node, "perplexity", r->perplexity);
  node_set_number(node, "standard_error", r->standard_error);
  node_set_number(node, "bits_per_byte", r->bits_per_byte);
  node_set_number(node, "bits_per_token", BITS * r->nll);
  node_set_number(node, "nll", r->nll);
  node_set_number(node, "nll_standard_error", r->nll_standard_error);
  node_set_integer(node, "tokens", r->tokens);
  node_set_integer(node, "bytes", r->bytes);
  node_set_integer(node, "longest_window", r->longest_window);
  node_set_integer(node, "documents", r->documents);
  if (results->by_word) {
    node_set_integer(node, "words", r->words);
    node_set_number(node, "word_perplexity", r->word_perplexity);
  }
  set_early(node, r);
  set_difference(node, r);
  node_set_number(node, "seconds", r->seconds);
  node_set_integer(node, "input_tokens", r->input_tokens);
  node_set_number(node, "tokens_per_second", speed_of(r));
  return node;
}

static json_node *gain_node(const evaluation_results *results, const evaluation_gain *g)
{
  json_node *node = identity_node(results, g->to);
  node_set_integer(node, "from_length", g->from->length);
  node_set_number(node, "nll", g->total);
  node_set_number(node, "fewer_early", g->fewer_early);
  node_set_number(node, "better_read", g->better_read);
  return node;
}

static json_node *positions_node(const evaluation_results *results, const evaluated_row *r)
{
  json_node *node = identity_node(results, r), *nll = node_new_array(), *band = node_new_array();
  node_set_integer(node, "windows", r->position_windows);
  for (int64_t i = 0; i < r->length; i++) {
    node_append_number(nll, r->position_nll[i]);
    node_append_number(band, r->position_band[i]);
  }
  node_set(node, "nll", nll);
  node_set(node, "band", band);
  return node;
}

static json_node *texts_node(const evaluation_results *results)
{
  json_node *texts = node_new_array();
  for (size_t i = 0; i < results->text_count; i++) {
    json_node *text = node_new_object();
    node_set_text(text, "path", results->texts[i].path);
    node_set_integer(text, "bytes", results->texts[i].bytes);
    node_set_integer(text, "invalid_utf8_bytes", results->texts[i].invalid_bytes);
    node_append(texts, text);
  }
  return texts;
}

static json_node *models_node(const evaluation_results *results)
{
  json_node *models = node_new_array();
  for (size_t i = 0; i < results->model_count; i++) {
    const evaluated_model *m = &results->models[i];
    json_node *model = node_new_object();
    node_set_text(model, "name", m->name);
    node_set_text(model, "path", m->path);
    node_set_text(model, "position", m->position);
    node_set_text(model, "extension", m->extension);
    node_set_integer(model, "train_length", m->train_length);
    node_set_integer(model, "parameters", m->parameters);
    node_set_text(model, "tokenizer", m->tokenizer);
    node_set_integer(model, "vocabulary", m->vocabulary);
    node_set_integer(model, "text_tokens", m->tokens);
    node_set_boolean(model, "same_tokens", m->same_tokens);
    node_append(models, model);
  }
  return models;
}

json_node *evaluation_node(const evaluation_results *results)
{
  json_node *root = node_new_object(), *settings = node_new_object();
  json_node *rows = node_new_array(), *gains = node_new_array(), *positions = node_new_array();
  char *answer = evaluation_answer(results);
  node_set_integer(root, "schema", EVALUATION_SCHEMA);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "command", results->command);
  node_set_text(root, "machine", results->machine);
  node_set_number(root, "seconds", results->seconds);
  node_set_text(root, "answer", answer);
  for (size_t i = 0; i < results->setting_count; i++)
    node_set_text(settings, results->settings[i].name, results->settings[i].value);
  node_set(root, "settings", settings);
  node_set(root, "texts", texts_node(results));
  node_set(root, "models", models_node(results));
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    evaluation_gain gain;
    node_append(rows, row_node(results, r));
    if (evaluation_gain_of(results, r, &gain)) node_append(gains, gain_node(results, &gain));
    if (r->position_nll) node_append(positions, positions_node(results, r));
  }
  node_set(root, "rows", rows);
  node_set(root, "gains", gains);
  node_set(root, "positions", positions);
  free(answer);
  return root;
}

status evaluation_write_json(const evaluation_results *results, const char *directory, alibi_error *error)
{
  json_node *root = evaluation_node(results);
  status result = node_write_in(root, directory, "results.json", error);
  node_free(root);
  return result;
}

/* ---- CSV ---- */

static void add_integer(draft *d, int64_t value)
{
  draft_add(d, ",%" PRId64, value);
}

static void add_numbers(draft *d, const evaluation_results *results, const evaluated_row *r)
{
  const double first[] = {r->perplexity, r->standard_error, r->bits_per_byte, r->nll, r->nll_standard_error};
  const double split[] = {r->early_nll, r->late_nll, r->late_standard_error};
  const char *verdict = evaluation_verdict(r);
  for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) draft_add_csv_number(d, first[i]);
  add_integer(d, r->stride);
  add_integer(d, r->tokens);
  add_integer(d, r->bytes);
  add_integer(d, r->longest_window);
  add_integer(d, r->documents);
  if (results->by_word) add_integer(d, r->words);
  else draft_add(d, ",");
  draft_add_csv_number(d, results->by_word ? r->word_perplexity : NAN);
  add_integer(d, r->early);
  add_integer(d, r->early_tokens);
  for (size_t i = 0; i < sizeof split / sizeof split[0]; i++) draft_add_csv_number(d, split[i]);
  draft_add_csv_number(d, verdict ? r->difference : NAN);
  draft_add_csv_number(d, verdict ? r->difference_standard_error : NAN);
  draft_add(d, ",%s", verdict ? verdict : "");
  draft_add_csv_number(d, r->seconds);
  add_integer(d, r->input_tokens);
  draft_add(d, ",");
}

static const char csv_head[] =
    "model,protocol,extend,length,document,position,train_length,tokenizer,text_tokens,max_targets,beginning,"
    "perplexity,standard_error,bits_per_byte,nll,nll_standard_error,stride,"
    "tokens,bytes,longest_window,documents,words,word_perplexity,early,early_tokens,early_nll,late_nll,late_"
    "standard_error,difference,"
    "difference_standard_error,verdict,seconds,input_tokens,error\n";

/* Whose row it is, and by which settings; the comma before what follows is not there yet. */
static void add_identity(draft *d, const evaluation_results *results, const evaluated_row *r)
{
  const evaluation_line *line = &results->lines[r->line];
  const evaluated_model *m = &results->models[line->model];
  const char *document = document_name(results, r);
  draft_add_csv_text(d, m->name);
  draft_add(d, ",%s,", r->protocol);
  draft_add_csv_text(d, line->extend ? line->extend : "");
  add_integer(d, r->length);
  draft_add(d, ",");
  draft_add_csv_text(d, document ? document : "");
  draft_add(d, ",%s", m->position);
  add_integer(d, m->train_length);
  draft_add(d, ",%s", m->tokenizer);
  add_integer(d, m->tokens);
  add_integer(d, results->max_targets);
  if (results->begins) add_integer(d, results->beginning);
  else draft_add(d, ",");
}

status evaluation_write_csv(const evaluation_results *results, const char *directory, alibi_error *error)
{
  draft d = {0};
  size_t empty = 0;
  for (const char *c = strstr(csv_head, ",perplexity"); *c; c++) empty += *c == ',';
  draft_add(&d, "%s", csv_head);
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    add_identity(&d, results, r);
    if (!r->error) add_numbers(&d, results, r);
    else {
      for (size_t c = 0; c < empty; c++) draft_add(&d, ",");
      draft_add_csv_text(&d, r->error);
    }
    draft_add(&d, "\n");
  }
  return draft_write(&d, directory, "results.csv", error);
}
