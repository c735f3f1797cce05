/* The checks of the public operator: one sentence for each thing that can be wrong, and no kernel is reached
 * before all of them passed. */
#include "op/attention_check.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

#include "base/settings.h"
#include "kernel/attention_sight.h"

#define FAR ((int64_t)1 << 53) /* positions are exact in double */
#define MOST_ROWS ((int64_t)INT32_MAX * ATTENTION_BLOCK) /* blocks are counted in int32_t */
enum { MAX_HEAD_SIZE = 256 };

static status invalid_count(const char *what, int64_t found, alibi_error *error)
{
  return fail(error, ALIBI_INVALID, "%s: expected 0 or more, found %lld", what, (long long)found);
}

attention_rows_of attention_sequence(const alibi_attention *a, const int64_t *key_counts, int64_t n)
{
  attention_rows_of s = {0, a->queries, 0, a->keys};
  if (a->query_starts) {
    s.query = a->query_starts[n];
    s.queries = a->query_starts[n + 1] - s.query;
  }
  if (key_counts) {
    s.keys = key_counts[n];
  } else if (a->key_starts) {
    s.key = a->key_starts[n];
    s.keys = a->key_starts[n + 1] - s.key;
  }
  return s;
}

/* ---- shapes ---- */

static status check_shape(alibi_attention *a, alibi_error *error)
{
  if (a->queries < 0) return invalid_count("queries", a->queries, error);
  if (a->keys < 0) return invalid_count("keys", a->keys, error);
  if (a->heads < 1 || a->heads > ALIBI_MAX_HEADS)
    return fail(error, ALIBI_INVALID, "heads: expected 1 to %d, found %d", ALIBI_MAX_HEADS, a->heads);
  if (a->kv_heads == 0) a->kv_heads = a->heads;
  if (a->kv_heads < 0 || a->heads % a->kv_heads != 0)
    return fail(error, ALIBI_INVALID, "kv_heads: expected a divisor of the %d heads, found %d", a->heads,
                a->kv_heads);
  if (a->head_size < 1 || a->head_size > MAX_HEAD_SIZE)
    return fail(error, ALIBI_INVALID, "head_size: expected 1 to %d, found %d", MAX_HEAD_SIZE, a->head_size);
  int64_t most = a->queries > a->keys ? a->queries : a->keys, floats;
  if (most > MOST_ROWS || __builtin_mul_overflow(most, a->heads * 2, &floats) ||
      __builtin_mul_overflow(floats, a->head_size * (int64_t)sizeof(float), &floats))
    return fail(error, ALIBI_INVALID,
                "queries, keys: expected sizes whose product fits into memory, found %lld and %lld",
                (long long)a->queries, (long long)a->keys);
  return ALIBI_OK;
}

static status check_starts(const char *name, const int64_t *starts, int64_t sequences, int64_t total,
                           alibi_error *error)
{
  if (!starts)
    return fail(error, ALIBI_INVALID, "%s: expected the starts of %lld sequences, found NULL", name,
                (long long)sequences);
  if (starts[0] != 0)
    return fail(error, ALIBI_INVALID, "%s: expected 0 first, found %lld", name, (long long)starts[0]);
  for (int64_t n = 0; n < sequences; n++)
    if (starts[n + 1] < starts[n])
      return fail(error, ALIBI_INVALID, "%s[%lld]: expected at least %lld (the one before), found %lld", name,
                  (long long)n + 1, (long long)starts[n], (long long)starts[n + 1]);
  if (starts[sequences] != total)
    return fail(error, ALIBI_INVALID, "%s[%lld]: expected the total of %lld, found %lld", name,
                (long long)sequences, (long long)total, (long long)starts[sequences]);
  return ALIBI_OK;
}

static status check_sequences(alibi_attention *a, attention_task task, alibi_error *error)
{
  status result;
  if (a->sequences < 0 || a->sequences > MOST_ROWS)
    return fail(error, ALIBI_INVALID, "sequences: expected 0 to %lld, found %lld", (long long)MOST_ROWS,
                (long long)a->sequences);
  if (a->sequences == 0) {
    a->query_starts = a->key_starts = NULL;
    a->sequences = 1;
    return ALIBI_OK;
  }
  if (task != TASK_DECODE || a->sequences > 1 || a->query_starts)
    TRY(check_starts("query_starts", a->query_starts, a->sequences, a->queries, error));
  if (task != TASK_DECODE) TRY(check_starts("key_starts", a->key_starts, a->sequences, a->keys, error));
  return ALIBI_OK;
done:
  return result;
}

/* ---- positions ---- */

static status check_increasing(const char *name, const int64_t *positions, int64_t from, int64_t count,
                               alibi_error *error)
{
  for (int64_t i = from; i < from + count; i++) {
    if (positions[i] <= -FAR || positions[i] >= FAR)
      return fail(error, ALIBI_INVALID, "%s[%lld]: expected a position within 2^53, found %lld", name,
                  (long long)i, (long long)positions[i]);
    if (i > from && positions[i] <= positions[i - 1])
      return fail(error, ALIBI_INVALID, "%s[%lld]: expected more than %lld (positions increase), found %lld", name,
                  (long long)i, (long long)positions[i - 1], (long long)positions[i]);
  }
  return ALIBI_OK;
}

static status check_positions(const alibi_attention *a, alibi_error *error)
{
  status result;
  if (a->query_offset != ALIBI_BOTTOM_RIGHT && (a->query_offset <= -FAR || a->query_offset >= FAR))
    return fail(error, ALIBI_INVALID,
                "query_offset: expected a position within 2^53 or ALIBI_BOTTOM_RIGHT, found %lld",
                (long long)a->query_offset);
  if (!a->query_positions != !a->key_positions)
    return fail(error, ALIBI_INVALID, "%s: expected positions of queries and of keys, or neither, found NULL",
                a->query_positions ? "key_positions" : "query_positions");
  if (!a->query_positions) return ALIBI_OK;
  for (int64_t n = 0; n < a->sequences; n++) {
    attention_rows_of s = attention_sequence(a, NULL, n);
    TRY(check_increasing("query_positions", a->query_positions, s.query, s.queries, error));
    TRY(check_increasing("key_positions", a->key_positions, s.key, s.keys, error));
  }
  return ALIBI_OK;
done:
  return result;
}

/* ---- numbers ---- */

static status check_numbers(alibi_attention *a, alibi_error *error)
{
  if (a->causal != 0 && a->causal != 1)
    return fail(error, ALIBI_INVALID, "causal: expected 0 or 1, found %d", a->causal);
  if (a->window < 0 || a->window >= FAR)
    return fail(error, ALIBI_INVALID, "window: expected 0 (none) or the keys that are seen, found %lld",
                (long long)a->window);
  if (a->scale == 0) a->scale = 1 / sqrt((double)a->head_size);
  if (!isfinite((float)a->scale))
    return fail(error, ALIBI_INVALID, "scale: expected a finite number, found %g", a->scale);
  if (!(a->soft_cap >= 0) || !isfinite((float)a->soft_cap))
    return fail(error, ALIBI_INVALID, "soft_cap: expected 0 (none) or a finite number above, found %g",
                a->soft_cap);
  if (!(a->tolerance >= 0 && a->tolerance < 1))
    return fail(error, ALIBI_INVALID, "tolerance: expected 0 or more and below 1, found %g", a->tolerance);
  return ALIBI_OK;
}

static status check_finite(const char *name, const float *x, int64_t count, alibi_error *error)
{
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(x[i]))
      return fail(error, ALIBI_INVALID, "%s[%lld]: expected a finite number, found %g", name, (long long)i,
                  (double)x[i]);
  return ALIBI_OK;
}

/* Two of them are finite in fp32. */
static status check_offsets(const char *name, const double *x, int64_t count, alibi_error *error)
{
  for (int64_t i = 0; x && i < count; i++)
    if (!(fabs(x[i]) <= 1e38))
      return fail(error, ALIBI_INVALID, "%s[%lld]: expected a finite number within 1e38 of 0, found %g", name,
                  (long long)i, x[i]);
  return ALIBI_OK;
}

/* The kernels take slopes in fp32. */
static status check_given_slopes(const double *slopes, int heads, alibi_error *error)
{
  for (int h = 0; h < heads; h++)
    if (!isfinite((float)slopes[h]))
      return fail(error, ALIBI_INVALID, "slopes[%d]: expected a number that is finite in fp32, found %g", h,
                  slopes[h]);
  return ALIBI_OK;
}

static status check_slopes(alibi_attention *a, alibi_error *error)
{
  alibi_bias *b = &a->bias;
  if (b->slopes) return check_given_slopes(b->slopes, a->heads, error);
  if (b->total_heads == 0) b->total_heads = a->heads;
  if (b->max_bias == 0) b->max_bias = 8;
  if (b->total_heads < a->heads || b->total_heads > ALIBI_MAX_HEADS)
    return fail(error, ALIBI_INVALID, "total_heads: expected 0 or from the %d heads of this call to %d, found %d",
                a->heads, ALIBI_MAX_HEADS, b->total_heads);
  if (b->head_offset < 0 || b->head_offset > b->total_heads - a->heads)
    return fail(error, ALIBI_INVALID, "head_offset: expected 0 to %d (%d heads out of %d), found %d",
                b->total_heads - a->heads, a->heads, b->total_heads, b->head_offset);
  if (!(b->max_bias > 0 && b->max_bias <= 100))
    return fail(error, ALIBI_INVALID, "max_bias: expected above 0 and at most 100, found %g", b->max_bias);
  if (b->slope_rule != ALIBI_SLOPES_INTERLEAVED && b->slope_rule != ALIBI_SLOPES_GEOMETRIC)
    return fail(error, ALIBI_INVALID, "slope_rule: expected one of alibi_slope_rule, found %d",
                (int)b->slope_rule);
  return ALIBI_OK;
}

/* The distances that any query of a sequence sees must be in the table. */
static status check_distances(const alibi_attention *a, attention_rows_of s, int64_t first, alibi_error *error)
{
  attention_head h = {.queries = (size_t)s.queries, .keys = (size_t)s.keys, .first = (ptrdiff_t)first,
                      .query_positions = a->query_positions ? a->query_positions + s.query : NULL,
                      .key_positions = a->key_positions ? a->key_positions + s.key : NULL,
                      .both_sides = !a->causal, .window = (size_t)a->window};
  for (size_t r = 0; r < h.queries; r++) {
    attention_range seen = keys_seen(&h, r);
    if (seen.from >= seen.to) continue;
    int64_t p = query_position(&h, r);
    int64_t near = p - key_position(&h, seen.to - 1), far = p - key_position(&h, seen.from);
    if (near < a->bias.lowest || far >= a->bias.lowest + a->bias.distances)
      return fail(error, ALIBI_INVALID,
                  "distances: expected a table of all that queries see, found %lld to %lld in it and "
                  "%lld to %lld seen by query %lld",
                  (long long)a->bias.lowest, (long long)(a->bias.lowest + a->bias.distances - 1), (long long)near,
                  (long long)far, (long long)(s.query + (int64_t)r));
  }
  return ALIBI_OK;
}

static status check_table(const alibi_attention *a, const int64_t *key_counts, alibi_error *error)
{
  const alibi_bias *b = &a->bias;
  int64_t entries;
  status result;
  if (!b->added) return fail(error, ALIBI_INVALID, "added: expected a table of distances, found NULL");
  if (b->distances < 1 || b->distances >= FAR ||
      __builtin_mul_overflow(b->distances, (int64_t)a->heads * 8, &entries))
    return fail(error, ALIBI_INVALID, "distances: expected 1 or more, found %lld", (long long)b->distances);
  if (b->lowest <= -FAR || b->lowest >= FAR)
    return fail(error, ALIBI_INVALID, "lowest: expected a distance within 2^53, found %lld", (long long)b->lowest);
  TRY(check_finite("added", b->added, b->distances * a->heads, error));
  if (b->factor) TRY(check_finite("factor", b->factor, b->distances * a->heads, error));
  for (int64_t n = 0; n < a->sequences; n++) {
    attention_rows_of s = attention_sequence(a, key_counts, n);
    int64_t first = a->query_offset == ALIBI_BOTTOM_RIGHT ? s.keys - s.queries : a->query_offset;
    TRY(check_distances(a, s, first, error));
  }
  return ALIBI_OK;
done:
  return result;
}

static status check_bias(alibi_attention *a, attention_task task, const int64_t *key_counts, alibi_error *error)
{
  status result;
  switch (a->bias.kind) {
  case ALIBI_BIAS_NONE: return ALIBI_OK;
  case ALIBI_BIAS_SLOPE: return check_slopes(a, error);
  case ALIBI_BIAS_DISTANCE: return check_table(a, key_counts, error);
  case ALIBI_BIAS_KEY:
    if (task == TASK_DECODE) break;
    if (!a->bias.offsets && a->keys > 0)
      return fail(error, ALIBI_INVALID, "offsets: expected a number per key and head, found NULL");
    TRY(check_offsets("offsets", a->bias.offsets, a->keys * a->heads, error));
    return check_offsets("query_offsets", a->bias.query_offsets, a->queries * a->heads, error);
  case ALIBI_BIAS_ROWS:
    return a->bias.rows ? ALIBI_OK : fail(error, ALIBI_INVALID, "rows: expected a function, found NULL");
  default:
    return fail(error, ALIBI_INVALID, "bias.kind: expected one of alibi_bias_kind, found %d", (int)a->bias.kind);
  }
  return fail(error, ALIBI_INVALID, "bias.kind: expected NONE, SLOPE, DISTANCE or ROWS with a cache, found KEY");
done:
  return result;
}

/* ---- tensors ---- */

/* Rows of numbers somewhere in memory; row_bytes and head_bytes apart, `width` bytes each. */
typedef struct tensor {
  const char *name;
  uintptr_t start;
  uint64_t rows, heads, row_bytes, head_bytes, width;
  bool written;
} tensor;

static tensor tensor_of(const char *name, const void *data, int64_t rows, int heads, int64_t row_stride,
                        int64_t head_stride, int64_t width, bool written)
{
  return (tensor){name, (uintptr_t)data, (uint64_t)rows, (uint64_t)heads, (uint64_t)row_stride * 4,
                  (uint64_t)head_stride * 4, (uint64_t)width * 4, written};
}

static uint64_t extent(const tensor *t)
{
  return t->rows == 0 ? 0 : (t->rows - 1) * t->row_bytes + (t->heads - 1) * t->head_bytes + t->width;
}

static uint64_t row_width(const tensor *t)
{
  return (t->heads - 1) * t->head_bytes + t->width;
}

static void fill_strides(alibi_heads *x, int heads, int head_size)
{
  if (x->row_stride != 0 || x->head_stride != 0) return;
  x->row_stride = (int64_t)heads * head_size;
  x->head_stride = head_size;
}

static status check_tensor(const tensor *t, const alibi_heads *x, alibi_error *error)
{
  uint64_t rows, heads;
  if (t->rows > 0 && !x->data) return fail(error, ALIBI_INVALID, "%s: expected data, found NULL", t->name);
  if (x->row_stride < 0 || x->head_stride < 0)
    return fail(error, ALIBI_INVALID, "%s: expected strides of 0 or more, found %lld and %lld", t->name,
                (long long)x->row_stride, (long long)x->head_stride);
  if (x->row_stride > INT64_MAX / 8 || x->head_stride > INT64_MAX / 8 ||
      __builtin_mul_overflow(t->rows, t->row_bytes, &rows) ||
      __builtin_mul_overflow(t->heads, t->head_bytes, &heads) ||
      __builtin_add_overflow(rows, heads, &rows) || rows > PTRDIFF_MAX)
    return fail(error, ALIBI_INVALID, "%s: expected strides within memory, found %lld and %lld", t->name,
                (long long)x->row_stride, (long long)x->head_stride);
  if (!t->written || t->rows == 0) return ALIBI_OK;
  bool rows_apart = t->rows == 1 || t->row_bytes >= row_width(t);
  bool heads_apart = t->heads == 1 || t->head_bytes >= t->width;
  bool by_heads = (t->rows == 1 || t->row_bytes >= t->width) &&
                  (t->heads == 1 || t->head_bytes >= (t->rows - 1) * t->row_bytes + t->width);
  if (!(rows_apart && heads_apart) && !by_heads)
    return fail(error, ALIBI_INVALID,
                "%s: expected strides that keep its rows apart, found %lld (row) and %lld (head)", t->name,
                (long long)x->row_stride, (long long)x->head_stride);
  return ALIBI_OK;
}

/* Tensors woven into each other, such as q, k and v of one matrix, do not overlap: equal rows, in which each has
 * its own part. */
static bool overlap(const tensor *a, const tensor *b)
{
  uint64_t sizes[2] = {extent(a), extent(b)};
  if (sizes[0] == 0 || sizes[1] == 0) return false;
  if (a->start >= b->start + sizes[1] || b->start >= a->start + sizes[0]) return false;
  const tensor *low = a->start <= b->start ? a : b, *high = low == a ? b : a;
  uint64_t stride = low->row_bytes;
  if (low->rows == 1) stride = high->row_bytes;
  if (high->rows > 1 && high->row_bytes != stride) return true;
  if (stride == 0 || row_width(low) > stride || row_width(high) > stride) return true;
  uint64_t shift = (high->start - low->start) % stride;
  return shift < row_width(low) || shift + row_width(high) > stride;
}

static status check_overlaps(const tensor *tensors, size_t count, alibi_error *error)
{
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < i; j++)
      if ((tensors[i].written || tensors[j].written) && overlap(&tensors[i], &tensors[j]))
        return fail(error, ALIBI_INVALID, "%s: expected memory of its own, found it overlapping %s",
                    tensors[tensors[i].written ? i : j].name, tensors[tensors[i].written ? j : i].name);
  return ALIBI_OK;
}

enum { MOST_TENSORS = 24 };

typedef struct tensor_list {
  tensor tensors[MOST_TENSORS];
  size_t count;
} tensor_list;

static tensor *add_tensor(tensor_list *list, tensor t)
{
  assert(list->count < MOST_TENSORS); /* whatever a caller gives, there are no more: backward has 22 at most */
  list->tensors[list->count] = t;
  return &list->tensors[list->count++];
}

static status add_heads(tensor_list *list, const char *name, alibi_heads *x, int64_t rows, int heads,
                        int head_size, bool written, alibi_error *error)
{
  fill_strides(x, heads, head_size);
  tensor t = tensor_of(name, x->data, rows, heads, x->row_stride, x->head_stride, head_size, written);
  return check_tensor(add_tensor(list, t), x, error);
}

static status add_out(tensor_list *list, const char *name, alibi_heads_out *x, int64_t rows, int heads,
                      int head_size, bool written, alibi_error *error)
{
  alibi_heads same = {x->data, x->row_stride, x->head_stride};
  status result = add_heads(list, name, &same, rows, heads, head_size, written, error);
  *x = (alibi_heads_out){x->data, same.row_stride, same.head_stride};
  return result;
}

status attention_check_rows(const char *name, alibi_heads *x, int64_t rows, int heads, int head_size,
                            alibi_error *error)
{
  tensor_list list = {.count = 0};
  return add_heads(&list, name, x, rows, heads, head_size, false, error);
}

/* Rows without gaps; width in units of 4 bytes. */
static void add_plain(tensor_list *list, const char *name, const void *data, int64_t rows, int64_t width,
                      bool written)
{
  if (data) add_tensor(list, tensor_of(name, data, rows, 1, width, width, width, written));
}

/* What is read beside the tensors. */
static void add_operands(tensor_list *list, const alibi_attention *a)
{
  const alibi_bias *b = &a->bias;
  bool slopes = b->kind == ALIBI_BIAS_SLOPE, table = b->kind == ALIBI_BIAS_DISTANCE;
  bool offsets = b->kind == ALIBI_BIAS_KEY;
  add_plain(list, "slopes", slopes ? b->slopes : NULL, 1, 2 * (int64_t)a->heads, false);
  add_plain(list, "added", table ? b->added : NULL, a->heads, b->distances, false);
  add_plain(list, "factor", table ? b->factor : NULL, a->heads, b->distances, false);
  add_plain(list, "offsets", offsets ? b->offsets : NULL, a->keys, 2 * (int64_t)a->heads, false);
  add_plain(list, "query_offsets", offsets ? b->query_offsets : NULL, a->queries, 2 * (int64_t)a->heads, false);
  add_plain(list, "query_positions", a->query_positions, a->queries, 2, false);
  add_plain(list, "key_positions", a->key_positions, a->keys, 2, false);
  add_plain(list, "query_starts", a->query_starts, a->sequences + 1, 2, false);
  add_plain(list, "key_starts", a->key_starts, a->sequences + 1, 2, false);
}

static status add_report(tensor_list *list, alibi_attention_report *report, alibi_error *error)
{
  size_t size = 0;
  status result = ALIBI_OK;
  if (!report) return ALIBI_OK;
  TRY(settings_size(report, sizeof *report, "alibi_attention_report", &size, error));
  if (size > sizeof *report) size = sizeof *report;
  add_plain(list, "report", report, 1, (int64_t)(size / 4), true);
done:
  return result;
}

static status check_tensors(alibi_attention *a, attention_task task, alibi_attention_gradients *g,
                            attention_memory scratch, alibi_error *error)
{
  status result;
  tensor_list list = {.count = 0};
  bool forward = task != TASK_BACKWARD;
  int d = a->head_size, heads = a->heads, kv = a->kv_heads;
  TRY(add_heads(&list, "q", &a->q, a->queries, heads, d, false, error));
  if (task != TASK_DECODE) {
    TRY(add_heads(&list, "k", &a->k, a->keys, kv, d, false, error));
    TRY(add_heads(&list, "v", &a->v, a->keys, kv, d, false, error));
  }
  TRY(add_out(&list, "out", &a->out, a->queries, heads, d, forward, error));
  add_plain(&list, "lse", a->lse, a->queries, heads, forward);
  add_plain(&list, "visited", a->visited, a->queries, 2 * (int64_t)heads, forward);
  add_plain(&list, "scratch", scratch.data, 1, (int64_t)(scratch.bytes / 4), true);
  add_operands(&list, a);
  if (forward) TRY(add_report(&list, a->report, error));
  if (!forward) {
    if (!a->lse && a->queries > 0)
      RAISE(error, ALIBI_INVALID, "lse: expected what forward wrote, found NULL (backward needs it)");
    if (!a->visited && a->tolerance > 0 && a->queries > 0)
      RAISE(error, ALIBI_INVALID,
            "visited: expected what forward wrote, found NULL (backward needs it with a tolerance above 0)");
    TRY(add_heads(&list, "dout", &g->dout, a->queries, heads, d, false, error));
    TRY(add_out(&list, "dq", &g->dq, a->queries, heads, d, true, error));
    TRY(add_out(&list, "dk", &g->dk, a->keys, kv, d, true, error));
    TRY(add_out(&list, "dv", &g->dv, a->keys, kv, d, true, error));
    add_plain(&list, "gradient of slopes", g->slopes, 1, 2 * (int64_t)heads, true);
    add_plain(&list, "gradient of added", g->added, heads, a->bias.distances, true);
    add_plain(&list, "gradient of factor", g->factor, heads, a->bias.distances, true);
    add_plain(&list, "gradient of offsets", g->offsets, a->keys, heads, true);
  }
  return check_overlaps(list.tensors, list.count, error);
done:
  return result;
}

/* What forward wrote must be blocks of the row's own sequence: backward finds its work by them. */
static status check_visited(const alibi_attention *a, alibi_error *error)
{
  if (!(a->tolerance > 0)) return ALIBI_OK;
  for (int64_t n = 0; n < a->sequences; n++) {
    attention_rows_of s = attention_sequence(a, NULL, n);
    int64_t blocks = (s.keys + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
    for (int64_t i = s.query * a->heads; i < (s.query + s.queries) * a->heads; i++) {
      const int32_t *range = a->visited + 2 * i;
      if (range[0] < 0 || range[1] < range[0] || range[1] > blocks)
        return fail(error, ALIBI_INVALID,
                    "visited: expected what forward wrote, a range within 0 to %lld, found %d to %d for head %lld "
                    "of query %lld",
                    (long long)blocks, range[0], range[1], (long long)(i % a->heads), (long long)(i / a->heads));
    }
  }
  return ALIBI_OK;
}

static status check_gradients(const alibi_attention *a, const alibi_attention_gradients *g, alibi_error *error)
{
  const struct {
    const char *name;
    const void *pointer;
    bool fits;
  } wanted[] = {{"slopes", g->slopes, a->bias.kind == ALIBI_BIAS_SLOPE},
                {"added", g->added, a->bias.kind == ALIBI_BIAS_DISTANCE},
                {"factor", g->factor, a->bias.kind == ALIBI_BIAS_DISTANCE && a->bias.factor},
                {"offsets", g->offsets, a->bias.kind == ALIBI_BIAS_KEY}};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
    if (wanted[i].pointer && !wanted[i].fits)
      return fail(error, ALIBI_INVALID,
                  "gradient of %s: expected NULL, since this bias has no %s, found a pointer", wanted[i].name,
                  wanted[i].name);
  return ALIBI_OK;
}

/* A caller who sets them means a bias that this version does not know. */
static status check_reserved(const alibi_bias *b, alibi_error *error)
{
  for (size_t i = 0; i < sizeof b->reserved / sizeof b->reserved[0]; i++)
    if (b->reserved[i])
      return fail(error, ALIBI_INVALID,
                  "bias.reserved[%zu]: expected NULL, since this version has no use for it, found a pointer", i);
  return ALIBI_OK;
}

status attention_check_shape(alibi_attention *a, attention_task task, alibi_error *error)
{
  status result;
  if (task == TASK_DECODE) {
    a->keys = 0;
    a->key_starts = a->query_positions = a->key_positions = NULL;
  }
  TRY(check_shape(a, error));
  TRY(check_sequences(a, task, error));
  TRY(check_numbers(a, error));
  TRY(check_reserved(&a->bias, error));
  if (a->bias.kind == ALIBI_BIAS_DISTANCE && (a->bias.distances < 1 || a->bias.distances >= FAR))
    RAISE(error, ALIBI_INVALID, "distances: expected 1 or more, found %lld", (long long)a->bias.distances);
done:
  return result;
}

status attention_check(alibi_attention *a, attention_task task, const int64_t *key_counts,
                       alibi_attention_gradients *gradients, attention_memory scratch, alibi_error *error)
{
  status result;
  TRY(check_positions(a, error));
  TRY(check_bias(a, task, key_counts, error));
  if (gradients) TRY(check_gradients(a, gradients, error));
  TRY(check_tensors(a, task, gradients, scratch, error));
  if (gradients) TRY(check_visited(a, error));
done:
  return result;
}
