/* T5's relative bias: one learned number per head and bucket of distances, exact buckets for near keys,
 * logarithmic ones further out, one for everything beyond the maximum distance.  Raffel et al., JMLR 2020.  The
 * tables are over distances; buckets appear only here, on the way in (fill) and on the way back (backward). */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "position/distance_table.h"
#include "position/position.h"

typedef struct t5_options {
  int64_t buckets, max_distance;
} t5_options;

static const field fields[] = {
    {.name = "buckets",
     .kind = FIELD_INTEGER,
     .offset = offsetof(t5_options, buckets),
     .minimum = 2,
     .maximum = 65536,
     .initial = 32,
     .help = "ranges of distances with a bias of their own"},
    {.name = "max_distance",
     .kind = FIELD_INTEGER,
     .offset = offsetof(t5_options, max_distance),
     .minimum = 0,
     .maximum = 1e9,
     .initial = 0,
     .help = "keys from here on share a bucket; 0: 128, or the trained length if less"},
};

static status check(const position_shape *shape, const void *options, alibi_error *error)
{
  (void)shape;
  const t5_options *t5 = options;
  if (t5->max_distance != 0 && t5->max_distance <= t5->buckets / 2)
    return fail(error, ALIBI_INVALID,
                "position method 't5': expected a max_distance above half of the %lld buckets, found %lld",
                (long long)t5->buckets, (long long)t5->max_distance);
  return ALIBI_OK;
}

/* Of distance t.  Where the maximum follows from a short L, a far key counts as one at the last distance seen in
 * training: the buckets past that one were never trained. */
static size_t bucket_of(const position_request *request, size_t t)
{
  const t5_options *options = request->options;
  size_t buckets = (size_t)options->buckets, exact = buckets / 2, most = (size_t)options->max_distance;
  if (most == 0) {
    most = request->shape.train_length < 128 ? request->shape.train_length : 128;
    if (t >= most) t = most - 1;
  }
  if (t < exact) return t;
  if (t >= most) return buckets - 1;
  double share = log((double)t / (double)exact) / log((double)most / (double)exact);
  size_t bucket = exact + (size_t)(share * (double)(buckets - exact));
  return bucket < buckets ? bucket : buckets - 1;
}

static size_t parameters(const position_shape *shape, const void *options, position_parameter *list)
{
  const t5_options *t5 = options;
  list[0] = (position_parameter){.rows = (size_t)t5->buckets, .columns = shape->heads, .decay = false};
  snprintf(list[0].name, sizeof list[0].name, "position.table");
  return 1;
}

static float initial(const position_shape *shape, const void *options, size_t which, size_t index, double normal)
{
  (void)shape, (void)options, (void)which, (void)index, (void)normal;
  return 0; /* training begins without a bias; heads differ by their gradients */
}

static void fill(const position_request *request, position_plan *plan)
{
  size_t heads = request->shape.heads, length = request->length;
  float *table = (float *)plan->table;
  for (size_t t = 0; t < length; t++) {
    const float *row = request->parameters[0] + bucket_of(request, t) * heads;
    for (size_t h = 0; h < heads; h++) table[distance_at(length, h, t)] = row[h];
  }
}

/* Buckets rise with the distance, so one running sum per head is enough; in double, nearest key first. */
static void backward(const position_request *request, const position_plan *plan, const position_plan_grad *grad,
                     float *const *parameter_grads)
{
  (void)plan;
  size_t heads = request->shape.heads, length = request->length;
  for (size_t h = 0; h < heads; h++) {
    double sum = 0;
    for (size_t t = 0, bucket = 0; t < length; t++) {
      sum += grad->table[distance_at(length, h, t)];
      size_t next = t + 1 < length ? bucket_of(request, t + 1) : SIZE_MAX;
      if (next == bucket) continue;
      parameter_grads[0][bucket * heads + h] += (float)sum;
      sum = 0;
      bucket = next;
    }
  }
}

/* Bucket e + k of n begins at e (m/e)^(k/(n - e)): the last one that has begun.  (A bound that is a whole number
 * belongs to its own bucket, whatever the power was rounded to.) */
static double bias(const position_request *request, size_t layer, size_t head, size_t i, size_t j)
{
  (void)layer;
  const t5_options *options = request->options;
  double n = (double)options->buckets, e = floor(n / 2), m = (double)options->max_distance, t = (double)(i - j),
         bucket;
  if (options->max_distance == 0) {
    m = fmin(128, (double)request->shape.train_length);
    t = fmin(t, m - 1);
  }
  for (bucket = n - 1; bucket > e; bucket--)
    if (t * (1 + 1e-12) >= e * pow(m / e, (bucket - e) / (n - e))) break;
  if (t < e) bucket = t;
  return request->parameters[0][(size_t)bucket * request->shape.heads + head];
}

const position_method position_method_t5 = {
    .name = "t5",
    .title = "T5: learned bias per bucket of distances",
    .formula = "score + table[bucket(i - j)][h]",
    .source = "Raffel et al., JMLR 2020",
    .relative = true,
    .fields = FIELD_TABLE(fields),
    .options_size = sizeof(t5_options),
    .check = check,
    .parameters = parameters,
    .initial = initial,
    .layout = distance_layout,
    .fill = fill,
    .backward = backward,
    .bias = bias,
};
