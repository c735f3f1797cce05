/* Releasing the results of an evaluation, finding a row in them, and what follows from the rows without a model:
 * whether a difference is sure, where the gain of a nonoverlapping curve comes from, the one sentence on top of
 * the report. */
#include "report/evaluation_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"

static const double SURE = 2; /* standard errors */

void evaluation_results_free(evaluation_results *results)
{
  if (!results) return;
  for (size_t i = 0; i < results->setting_count; i++) {
    free(results->settings[i].name);
    free(results->settings[i].value);
  }
  for (size_t i = 0; i < results->text_count; i++) free(results->texts[i].path);
  for (size_t i = 0; i < results->model_count; i++) {
    evaluated_model *m = &results->models[i];
    free(m->name);
    free(m->path);
    free(m->position);
    free(m->extension);
    free(m->tokenizer);
  }
  for (size_t i = 0; i < results->line_count; i++) {
    free(results->lines[i].extend);
    free(results->lines[i].label);
  }
  for (size_t i = 0; i < results->row_count; i++) {
    free(results->rows[i].error);
    free(results->rows[i].position_nll);
    free(results->rows[i].position_band);
  }
  free(results->settings);
  free(results->texts);
  free(results->models);
  free(results->lines);
  free(results->rows);
  free(results->command);
  free(results->machine);
  *results = (evaluation_results){0};
}

const evaluated_row *evaluation_find(const evaluation_results *results, size_t line, const char *protocol,
                                     int64_t length, int64_t document)
{
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (r->line == line && r->length == length && r->document == document && strcmp(r->protocol, protocol) == 0)
      return r;
  }
  return NULL;
}

size_t evaluation_protocols(const evaluation_results *results, const char **names, size_t most)
{
  size_t count = 0;
  for (size_t i = 0; i < results->row_count; i++) {
    const char *protocol = results->rows[i].protocol;
    bool seen = count > 0 && strcmp(names[count - 1], protocol) == 0;
    for (size_t j = 0; j < count && !seen; j++) seen = strcmp(names[j], protocol) == 0;
    if (!seen && count < most) names[count++] = protocol;
  }
  return count;
}

const char *evaluation_verdict(const evaluated_row *row)
{
  if (row->error || row->paired_tokens == 0) return NULL;
  if (row->difference == 0 && !(row->difference_standard_error > 0)) return "equal";
  if (!(fabs(row->difference) > SURE * row->difference_standard_error)) return "unclear";
  return row->difference < 0 ? "better" : "worse";
}

void evaluation_percent(const evaluated_row *row, double *percent, double *error)
{
  double ratio = exp(row->difference);
  *percent = 100 * (ratio - 1);
  *error = 100 * ratio * row->difference_standard_error;
}

double evaluation_change(double nats)
{
  double percent = 100 * expm1(nats);
  return fabs(percent) < 0.005 ? 0 : percent; /* no "-0.00" */
}

/* ---- the early token curse ---- */

static bool splits(const evaluated_row *r)
{
  return !r->error && r->document < 0 && r->tokens > 0 && strcmp(r->protocol, "nonoverlapping") == 0;
}

static const evaluated_row *gain_start(const evaluation_results *results, const evaluated_row *to)
{
  const evaluated_row *start = NULL;
  int64_t trained = results->models[results->lines[to->line].model].train_length;
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (r->line != to->line || !splits(r)) continue;
    if (r->length == trained) return r;
    if (!start || r->length < start->length) start = r;
  }
  return start;
}

/* Of a kind of token that one of two lengths does not have: the other's, so that its loss does not change. */
static double either(double a, double b)
{
  return isfinite(a) ? a : b;
}

bool evaluation_gain_of(const evaluation_results *results, const evaluated_row *to, evaluation_gain *gain)
{
  const evaluated_row *from = splits(to) ? gain_start(results, to) : NULL;
  if (!from || from->length >= to->length) return false;
  double early_from = either(from->early_nll, to->early_nll), late_from = either(from->late_nll, to->late_nll);
  double early_to = either(to->early_nll, from->early_nll), late_to = either(to->late_nll, from->late_nll);
  double share_from = (double)from->early_tokens / (double)from->tokens;
  double share_to = (double)to->early_tokens / (double)to->tokens;
  double fewer = (share_from - share_to) * (early_from - late_from);
  double better = share_to * (early_from - early_to) + (1 - share_to) * (late_from - late_to);
  if (!isfinite(fewer) || !isfinite(better)) return false;
  *gain = (evaluation_gain){from, to, from->nll - to->nll, fewer, better};
  return true;
}

/* ---- the answer ---- */

static const char *const fairest[] = {"fixed-target", "sliding", "streaming", "nonoverlapping"};

/* Models that read other tokens than the first compare by bits a byte alone. */
static bool reads_apart(const evaluation_results *results)
{
  for (size_t i = 0; i < results->model_count; i++)
    if (!results->models[i].same_tokens) return true;
  return false;
}

/* Of the lines that are not `but` the lowest. */
static const evaluated_row *lowest_at(const evaluation_results *results, const char *protocol, int64_t length,
                                      const evaluated_row *but, size_t *measured)
{
  const evaluated_row *lowest = NULL;
  bool apart = reads_apart(results);
  *measured = 0;
  for (size_t i = 0; i < results->line_count; i++) {
    const evaluated_row *r = evaluation_find(results, i, protocol, length, -1);
    if (!r || r == but || r->error || !isfinite(r->nll)) continue;
    ++*measured;
    if (!lowest || (apart ? r->bits_per_byte < lowest->bits_per_byte : r->nll < lowest->nll)) lowest = r;
  }
  return lowest;
}

static int64_t longest_measured(const evaluation_results *results, const char *protocol)
{
  int64_t longest = 0;
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (!r->error && isfinite(r->nll) && r->length > longest && strcmp(r->protocol, protocol) == 0)
      longest = r->length;
  }
  return longest;
}

static void add_label(draft *d, const evaluation_results *results, const evaluated_row *r)
{
  draft_add_clean(d, results->lines[r->line].label);
}

/* Pairs are made with the first line: it is compared with the lowest, or where it is that with the next.  Which
 * row has the difference; NULL: none has. */
static const evaluated_row *paired_with(const evaluation_results *results, const evaluated_row *lowest)
{
  const evaluated_row *first = evaluation_find(results, 0, lowest->protocol, lowest->length, -1);
  size_t measured;
  const evaluated_row *second = lowest_at(results, lowest->protocol, lowest->length, lowest, &measured);
  const evaluated_row *other = lowest->line == 0 ? second : first;
  const evaluated_row *paired = lowest->line == 0 ? other : lowest;
  return other && !other->error && evaluation_verdict(paired) ? paired : NULL;
}

static bool is_equal(const evaluated_row *paired)
{
  return paired && strcmp(evaluation_verdict(paired), "equal") == 0;
}

static void add_comparison(draft *d, const evaluation_results *results, const evaluated_row *lowest,
                           const evaluated_row *paired)
{
  const evaluated_row *first = evaluation_find(results, 0, lowest->protocol, lowest->length, -1);
  double percent, error;
  if (!paired) return;
  evaluation_percent(paired, &percent, &error);
  draft_add(d, "; ");
  add_label(d, results, paired);
  if (is_equal(paired)) {
    draft_add(d, " is equal to ");
    add_label(d, results, first);
    return;
  }
  draft_add(d, " is %.2f %% %s ", fabs(percent), percent > 0 ? "above" : "below");
  add_label(d, results, paired == lowest ? first : lowest);
  if (isfinite(error)) draft_add(d, " (+- %.2f %%, over the same tokens)", error);
  if (strcmp(evaluation_verdict(paired), "unclear") == 0) draft_add(d, ", which is no sure difference");
}

static void add_figure(draft *d, const evaluation_results *results, const evaluated_row *r, bool lowest)
{
  char number[40], error[40];
  if (reads_apart(results)) {
    draft_add(d,
              " needs %s%.4f bits a byte; the models read different tokens, so that their perplexities do not "
              "compare",
              lowest ? "the fewest, " : "", r->bits_per_byte);
    return;
  }
  number_short(r->perplexity, number, sizeof number);
  number_short(r->standard_error, error, sizeof error);
  draft_add(d, " has %sa perplexity of %s", lowest ? "the lowest, " : "", number);
  if (isfinite(r->standard_error)) draft_add(d, " +- %s", error);
}

char *evaluation_answer(const evaluation_results *results)
{
  draft d = {0};
  size_t measured;
  for (size_t p = 0; p < sizeof fairest / sizeof fairest[0]; p++) {
    int64_t length = longest_measured(results, fairest[p]);
    const evaluated_row *lowest = length ? lowest_at(results, fairest[p], length, NULL, &measured) : NULL;
    if (!lowest) continue;
    draft_add(&d, "Reading %lld tokens at once (%s), ", (long long)length, fairest[p]);
    const evaluated_row *paired = paired_with(results, lowest);
    add_label(&d, results, lowest);
    add_figure(&d, results, lowest, measured > (is_equal(paired) ? 2 : 1));
    add_comparison(&d, results, lowest, paired);
    draft_add(&d, ".");
    return draft_take(&d);
  }
  draft_add(&d, "Nothing was measured.");
  return draft_take(&d);
}
