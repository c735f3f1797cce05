/* What is said about the losses of a row: means and errors, targets one by one, differences between rows, and
 * losses by place in the window. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "evaluate/evaluation.h"
#include "evaluate/statistics.h"

static status require_run(const alibi_evaluation *e, size_t row, alibi_error *error)
{
  if (row >= e->row_count)
    return fail(error, ALIBI_INVALID, "row %zu: expected one of the %zu that were added", row, e->row_count);
  if (e->rows[row].why) return fail(error, ALIBI_FAILED, "%s", e->rows[row].why);
  if (!e->rows[row].losses) return fail(error, ALIBI_INVALID, "row %zu: expected one that was run", row);
  return ALIBI_OK;
}

/* Targets of a row, of all documents or of one. */
typedef struct target_range {
  size_t from, to, first_document, documents;
} target_range;

/* Why nothing of a document is scored: it is too short, or enough was scored elsewhere. */
static status say_left_out(const alibi_evaluation *e, const evaluation_row *r, size_t d, alibi_error *error)
{
  size_t needed = protocol_tokens_needed(&r->options);
  if (e->documents[d].tokens < needed)
    return fail(error, ALIBI_INVALID, "document %zu: nothing of it is scored: it has %zu tokens, %zu are needed",
                d, e->documents[d].tokens, needed);
  return fail(error, ALIBI_INVALID,
              "document %zu: nothing of it is scored: the others have the %lld of max_targets", d,
              (long long)r->options.max_targets);
}

static status range_of(const alibi_evaluation *e, size_t row, int64_t document, target_range *range,
                       alibi_error *error)
{
  status result = require_run(e, row, error);
  if (result != ALIBI_OK) return result;
  const evaluation_row *r = &e->rows[row];
  *range = (target_range){0, r->plan.targets, 0, e->document_count};
  if (document == -1) return ALIBI_OK;
  if (document < 0 || (uint64_t)document >= e->document_count)
    return fail(error, ALIBI_INVALID, "document %lld: expected one of %zu", (long long)document,
                e->document_count);
  size_t d = (size_t)document;
  *range = (target_range){d ? r->ends[d - 1] : 0, r->ends[d], d, 1};
  if (range->from < range->to) return ALIBI_OK;
  return say_left_out(e, r, d, error);
}

/* Ends of documents within a range: those of the row, from its first target on. */
static status estimate(const evaluation_row *row, const target_range *range, const float *less,
                       const unsigned char *left, mean_estimate *estimated, alibi_error *error)
{
  size_t *ends;
  status result = memory_new(&ends, range->documents, sizeof *ends, "the ends of documents", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < range->documents; i++) ends[i] = row->ends[range->first_document + i] - range->from;
  *estimated = statistics_estimate(&(loss_list){.values = row->losses + range->from,
                                                .less = less,
                                                .left = left,
                                                .ends = ends,
                                                .documents = range->documents});
  memory_free(ends);
  return ALIBI_OK;
}

typedef void visit(void *user, size_t target, const plan_window *window, size_t output);

/* Targets from .. to - 1, in their order. */
static void visit_targets(const evaluation_row *row, size_t from, size_t to, visit *call, void *user)
{
  if (from >= to) return;
  for (size_t w = evaluation_window(row, from), i = from; i < to; w++)
    for (; i < to && i < row->first_target[w + 1]; i++)
      call(user, i, &row->plan.windows[w], i - row->first_target[w]);
}

typedef struct survey {
  const alibi_evaluation *evaluation;
  const uint32_t *token_bytes;
  size_t from, few;
  int64_t bytes;
  unsigned char *early, *late; /* of the range */
} survey;

static void look(void *user, size_t target, const plan_window *window, size_t output)
{
  survey *s = user;
  if (s->token_bytes) s->bytes += s->token_bytes[s->evaluation->tokens[plan_target(window, output)]];
  bool early = plan_context(window, output) < s->few;
  s->early[target - s->from] = early;
  s->late[target - s->from] = !early;
}

/* The row's own share of the passes; nothing of a single document. */
static void describe(const evaluation_row *row, mean_estimate nll, int64_t bytes, alibi_evaluate_result *out)
{
  *out = (alibi_evaluate_result){
      .size = sizeof *out,
      .window = row->options.window,
      .stride = row->options.stride,
      .tokens = (int64_t)nll.count,
      .bytes = bytes,
      .nll = nll.mean,
      .nll_standard_error = nll.standard_error,
      .perplexity = exp(nll.mean),
      .standard_error = exp(nll.mean) * nll.standard_error,
      .bits_per_byte = statistics_bits_per_byte(nll.mean * (double)nll.count, (size_t)bytes),
      .early = row->options.early,
  };
}

static int64_t longest_window(const evaluation_row *row, const target_range *range)
{
  size_t longest = 0;
  for (size_t w = evaluation_window(row, range->from); w < row->plan.count && row->first_target[w] < range->to;
       w++)
    if (row->plan.windows[w].inputs > longest) longest = row->plan.windows[w].inputs;
  return (int64_t)longest;
}

static int64_t scored_documents(const evaluation_row *row, const target_range *range)
{
  int64_t count = 0;
  size_t end = range->from;
  for (size_t i = 0; i < range->documents; end = row->ends[range->first_document + i++])
    count += row->ends[range->first_document + i] > end;
  return count;
}

status alibi_evaluation_result(const alibi_evaluation *e, size_t row, int64_t document,
                               const uint32_t *token_bytes, alibi_evaluate_result *out, alibi_error *error)
{
  target_range range;
  unsigned char *marks = NULL;
  mean_estimate all, early, late;
  status result;
  TRY(range_of(e, row, document, &range, error));
  const evaluation_row *r = &e->rows[row];
  size_t count = range.to - range.from;
  TRY(memory_new(&marks, size_mul(2, count), 1, "the marks of early tokens", error));
  survey s = {.evaluation = e,
              .token_bytes = token_bytes,
              .from = range.from,
              .few = (size_t)r->options.early,
              .early = marks,
              .late = marks + count};
  visit_targets(r, range.from, range.to, look, &s);
  TRY(estimate(r, &range, NULL, NULL, &all, error));
  TRY(estimate(r, &range, NULL, s.late, &early, error));
  TRY(estimate(r, &range, NULL, s.early, &late, error));
  describe(r, all, s.bytes, out);
  out->early_tokens = (int64_t)early.count;
  out->early_nll = early.mean;
  out->late_nll = late.mean;
  out->late_standard_error = late.standard_error;
  out->longest_window = longest_window(r, &range);
  out->documents = scored_documents(r, &range);
  out->documents_left_out = (int64_t)range.documents - out->documents;
  if (document == -1) {
    out->seconds = r->seconds;
    out->input_tokens = (int64_t)r->own_inputs;
  }
done:
  memory_free(marks);
  return result;
}

/* ---- targets ---- */

int64_t alibi_evaluation_target_count(const alibi_evaluation *e, size_t row)
{
  return row < e->row_count ? (int64_t)e->rows[row].plan.targets : 0;
}

static size_t document_of(const evaluation_row *row, size_t documents, size_t target)
{
  size_t low = 0, high = documents - 1; /* the first that ends behind the target */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (row->ends[middle] > target) high = middle;
    else low = middle + 1;
  }
  return low;
}

status alibi_evaluation_target(const alibi_evaluation *e, size_t row, int64_t i, alibi_target *target,
                               alibi_error *error)
{
  status result = require_run(e, row, error);
  if (result != ALIBI_OK) return result;
  const evaluation_row *r = &e->rows[row];
  if (i < 0 || (uint64_t)i >= r->plan.targets)
    return fail(error, ALIBI_INVALID, "target %lld: expected one of %zu", (long long)i, r->plan.targets);
  size_t w = evaluation_window(r, (size_t)i), output = (size_t)i - r->first_target[w];
  *target = (alibi_target){.size = sizeof *target,
                           .token = (int64_t)plan_target(&r->plan.windows[w], output),
                           .document = (int64_t)document_of(r, e->document_count, (size_t)i),
                           .context = (int64_t)plan_context(&r->plan.windows[w], output),
                           .nll = r->losses[i]};
  return ALIBI_OK;
}

/* ---- differences ---- */

static bool same_texts(const alibi_evaluation *a, const alibi_evaluation *b)
{
  if (a->count != b->count || a->document_count != b->document_count) return false;
  if (a == b) return true;
  return memcmp(a->tokens, b->tokens, a->count * sizeof *a->tokens) == 0 &&
         memcmp(a->documents, b->documents, a->document_count * sizeof *a->documents) == 0;
}

static bool same_targets(const evaluation_row *a, const evaluation_row *b)
{
  const plan *p = &a->plan, *q = &b->plan;
  if (p->targets != q->targets) return false;
  for (size_t i = 0, u = 0, v = 0; i < p->targets;) { /* u and v: the windows of target i */
    size_t in_a = i - a->first_target[u], in_b = i - b->first_target[v];
    size_t left_a = p->windows[u].count - in_a, left_b = q->windows[v].count - in_b;
    if (plan_target(&p->windows[u], in_a) != plan_target(&q->windows[v], in_b)) return false;
    i += left_a < left_b ? left_a : left_b;
    if (left_a <= left_b) u++;
    if (left_b <= left_a) v++;
  }
  return true;
}

status alibi_evaluation_compare(const alibi_evaluation *a, size_t row_a, const alibi_evaluation *b, size_t row_b,
                                alibi_difference *difference, alibi_error *error)
{
  target_range all;
  mean_estimate estimated;
  status result;
  TRY(require_run(a, row_a, error));
  TRY(range_of(b, row_b, -1, &all, error));
  if (!same_texts(a, b))
    RAISE(error, ALIBI_INVALID, "compared: expected rows of one text as the same tokens, found two texts");
  if (!same_targets(&a->rows[row_a], &b->rows[row_b]))
    RAISE(error, ALIBI_INVALID,
          "compared: expected rows that score the same tokens, found %zu of %s and %zu of %s, not the same",
          a->rows[row_a].plan.targets, alibi_protocol_name(a->rows[row_a].options.protocol),
          b->rows[row_b].plan.targets, alibi_protocol_name(b->rows[row_b].options.protocol));
  TRY(estimate(&b->rows[row_b], &all, a->rows[row_a].losses, NULL, &estimated, error));
  *difference = (alibi_difference){.size = sizeof *difference,
                                   .tokens = (int64_t)estimated.count,
                                   .nll = estimated.mean,
                                   .standard_error = estimated.standard_error};
done:
  return result;
}

/* ---- by place ---- */

status alibi_evaluation_positions(const alibi_evaluation *e, size_t row, double *nll, double *band,
                                  int64_t *windows, alibi_error *error)
{
  smooth_mean s = {0};
  status result;
  TRY(require_run(e, row, error));
  const evaluation_row *r = &e->rows[row];
  size_t window = (size_t)r->options.window, begins = r->options.beginning >= 0 ? 1 : 0;
  if (r->options.protocol != ALIBI_NONOVERLAPPING)
    RAISE(error, ALIBI_INVALID, "losses by place: expected a row of nonoverlapping windows, found one of %s",
          alibi_protocol_name(r->options.protocol));
  TRY(memory_new(&s.sums, window + 1, sizeof *s.sums, "losses by place", error));
  if (begins) nll[0] = band[0] = NAN; /* what a beginning token predicts is not scored */
  s.columns = window - begins;
  s.mean = nll + begins;
  s.squares = band + begins;
  memset(s.mean, 0, s.columns * sizeof *s.mean);
  memset(s.squares, 0, s.columns * sizeof *s.squares);
  for (size_t w = 0; w < r->plan.count; w++) {
    if (r->plan.windows[w].inputs == window) smooth_mean_add(&s, r->losses + r->first_target[w]);
  }
  smooth_mean_band(&s, s.squares);
  if (windows) *windows = (int64_t)s.rows;
done:
  memory_free(s.sums);
  return result;
}
