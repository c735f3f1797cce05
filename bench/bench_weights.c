/* One row of x times a weight as it is stored, which is what decoding one text does: beside reading the same
 * bytes, since a weight that no cache holds cannot be multiplied faster than it comes. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "bench/bench.h"
#include "bench/bench_measure.h"
#include "kernel/kernel.h"

/* Rows of models: a multiple of 4 KiB apart in F32, F16 and BF16, which is the hardest case. */
enum { INNER = 4096, BYTES = 96 << 20, MOST_COLUMNS = 64 };

typedef struct weights_row {
  weight_type type;
  bool rounded; /* x in 8 bits */
} weights_row;

static const weights_row weight_rows[] = {
    {WEIGHT_F32, false},  {WEIGHT_F16, false}, {WEIGHT_BF16, false}, {WEIGHT_Q8_0, false}, {WEIGHT_Q4_0, false},
    {WEIGHT_Q4_1, false}, {WEIGHT_Q5_0, false}, {WEIGHT_Q5_1, false}, {WEIGHT_Q4_K, false}, {WEIGHT_Q5_K, false},
    {WEIGHT_Q6_K, false}, {WEIGHT_Q8_0, true},  {WEIGHT_Q4_0, true},  {WEIGHT_Q4_1, true},  {WEIGHT_Q5_0, true},
    {WEIGHT_Q5_1, true},  {WEIGHT_Q4_K, true},  {WEIGHT_Q5_K, true},  {WEIGHT_Q6_K, true},
};

typedef struct weights_case {
  const kernel_table *table;
  weights_row what;
  unsigned char *weight;
  size_t rows, row_bytes;
  float x[INNER];
  rounded_run rounded[INNER / ROUNDED_RUN];
  float y[MOST_COLUMNS];
} weights_case;

size_t bench_weights_count(void)
{
  return sizeof weight_rows / sizeof weight_rows[0];
}

static void multiply(weights_case *w)
{
  const kernel_table *t = w->table;
  const void *rows[2 * MOST_COLUMNS];
  for (size_t r = 0; r < w->rows; r += t->tile_columns) {
    for (size_t i = 0; i < 2 * t->tile_columns; i++)
      rows[i] = w->weight + (r + i < w->rows ? r + i : w->rows - 1) * w->row_bytes;
    if (w->what.rounded)
      t->multiply_rounded(w->what.type, rows, rows + t->tile_columns, INNER, 1, w->rounded, 0, w->y, 0);
    else
      t->multiply(w->what.type, rows, rows + t->tile_columns, INNER, 1, w->x, 0, w->y, 0);
  }
}

/* Any bytes are a weight; these are not tiny, not huge and no NaN in any type. */
static void fill(weights_case *w)
{
  uint32_t bits = 1;
  for (size_t i = 0; i < BYTES; i++) {
    bits = bits * 1664525 + 1013904223;
    w->weight[i] = (unsigned char)(bits >> 24 & 0x2f) | 0x10;
  }
  for (size_t i = 0; i < INNER; i++) w->x[i] = (float)(i * 7919 % 1009) / 1009.0f - 0.5f;
  rounded_row(INNER, w->x, w->rounded);
}

/* In turns with reading; shares are of what reading gave before and after. */
static void measure(const char *isa, weights_case *w, size_t bytes, bench_row *row)
{
  double share[BENCH_TURNS], seconds[BENCH_TURNS], reading[BENCH_TURNS];
  const float *numbers = (const float *)(const void *)w->weight;
  double before = bench_read(isa, 1, numbers, bytes / sizeof *numbers, 0);
  multiply(w);
  for (size_t turn = 0; turn < BENCH_TURNS; turn++) {
    double start = bench_clock(1);
    multiply(w);
    seconds[turn] = bench_clock(1) - start;
    reading[turn] = bench_read(isa, 1, numbers, bytes / sizeof *numbers, 0);
    share[turn] = (double)bytes / seconds[turn] / ((before + reading[turn]) / 2);
    before = reading[turn];
  }
  row->seconds = bench_median(seconds, BENCH_TURNS);
  row->share_of_reading = bench_median(share, BENCH_TURNS);
  row->reading = bench_median(reading, BENCH_TURNS);
}

status bench_weights(const char *isa, size_t index, bench_row *row, alibi_error *error)
{
  weights_case *w = NULL;
  status result = ALIBI_OK;
  TRY(memory_new(&w, 1, sizeof *w, "a case", error));
  w->table = kernel_table_find(isa);
  w->what = weight_rows[index];
  if (!w->table) RAISE(error, ALIBI_INVALID, "instruction set '%s': expected one of this build", isa);
  TRY(memory_new(&w->weight, BYTES, 1, "a weight", error));
  fill(w);
  w->row_bytes = INNER / weight_block_elements(w->what.type) * weight_block_bytes(w->what.type);
  w->rows = BYTES / w->row_bytes / w->table->tile_columns * w->table->tile_columns;
  *row = (bench_row){.bytes = (double)(w->rows * w->row_bytes), .numbers = (double)(w->rows * INNER)};
  const char *how = w->what.rounded ? ", x in 8 bits" : "";
  snprintf(row->name, sizeof row->name, "%s%s", weight_type_name(w->what.type), how);
  measure(isa, w, w->rows * w->row_bytes, row);
done:
  if (w) memory_free(w->weight);
  memory_free(w);
  return result;
}
