/* Means and their errors.  Blocks of a document are as equal as they can be: block b of n ends at
 * (b + 1) * count / n. */
#include "evaluate/statistics.h"

#include <math.h>

typedef struct sum_of {
  double sum;
  size_t count;
} sum_of;

static sum_of sum_between(const loss_list *l, size_t from, size_t to)
{
  sum_of s = {0};
  for (size_t i = from; i < to; i++) {
    if (l->left && l->left[i]) continue;
    s.sum += l->less ? (double)l->values[i] - l->less[i] : l->values[i];
    s.count++;
  }
  return s;
}

static size_t block_start(size_t block, size_t blocks, size_t count)
{
  return block * (count / blocks) + block * (count % blocks) / blocks;
}

/* squares: over blocks, of what each sum is beyond the mean. */
static double ratio_error(double blocks, double squares, double count)
{
  return blocks >= 2 ? sqrt(blocks / (blocks - 1) * squares) / count : NAN;
}

mean_estimate statistics_estimate(const loss_list *l)
{
  sum_of all = sum_between(l, 0, l->documents ? l->ends[l->documents - 1] : 0);
  mean_estimate e = {.mean = NAN, .standard_error = NAN, .count = all.count};
  double squares = 0;
  size_t used = 0;
  if (all.count == 0) return e;
  e.mean = all.sum / (double)all.count;
  for (size_t d = 0, from = 0; d < l->documents; from = l->ends[d++]) {
    size_t count = l->ends[d] - from, blocks = count / STATISTICS_BLOCK;
    if (blocks == 0) blocks = 1;
    for (size_t b = 0; b < blocks; b++) {
      sum_of block =
          sum_between(l, from + block_start(b, blocks, count), from + block_start(b + 1, blocks, count));
      double beyond = block.sum - e.mean * (double)block.count;
      if (block.count > 0) used++;
      squares += beyond * beyond;
    }
  }
  e.standard_error = ratio_error((double)used, squares, (double)all.count);
  return e;
}

void block_sums_add(block_sums *s, double sum, double count)
{
  if (!(count > 0)) return;
  s->blocks++;
  s->sum += sum;
  s->count += count;
  s->sum_squares += sum * sum;
  s->products += sum * count;
  s->count_squares += count * count;
}

mean_estimate block_sums_estimate(const block_sums *s)
{
  mean_estimate e = {.mean = NAN, .standard_error = NAN, .count = (size_t)s->count};
  if (!(s->count > 0)) return e;
  e.mean = s->sum / s->count;
  double squares = s->sum_squares - 2 * e.mean * s->products + e.mean * e.mean * s->count_squares;
  e.standard_error = ratio_error(s->blocks, fmax(0, squares), s->count);
  return e;
}

mean_estimate statistics_mean(const float *values, size_t count)
{
  return statistics_estimate(&(loss_list){.values = values, .ends = &count, .documents = 1});
}

double statistics_bits_per_byte(double nats, size_t bytes)
{
  return bytes ? nats / log(2.0) / (double)bytes : NAN;
}

/* Mean and squares by Welford's update, which does not cancel. */
void smooth_mean_add(smooth_mean *s, const float *row)
{
  const size_t half = STATISTICS_SMOOTH / 2;
  s->rows++;
  s->sums[0] = 0;
  for (size_t i = 0; i < s->columns; i++) s->sums[i + 1] = s->sums[i] + row[i];
  for (size_t i = 0; i < s->columns; i++) {
    size_t after = s->columns - 1 - i, side = i < half ? i : half;
    if (after < side) side = after;
    double value = (s->sums[i + side + 1] - s->sums[i - side]) / (double)(2 * side + 1), step = value - s->mean[i];
    s->mean[i] += step / (double)s->rows;
    s->squares[i] += step * (value - s->mean[i]);
  }
}

void smooth_mean_band(const smooth_mean *s, double *band)
{
  const double normal = 1.959963984540054; /* 97.5 % of a standard normal lie below */
  for (size_t i = 0; i < s->columns; i++)
    band[i] = s->rows < 2 ? NAN : normal * sqrt(s->squares[i] / (double)(s->rows - 1) / (double)s->rows);
}
