/* The matrix product at the shapes of small transformers: alone, with packing, and oneDNN's. */
#include <stdio.h>

#include "base/memory.h"
#include "bench/bench.h"
#include "bench/bench_measure.h"
#include "kernel/kernel.h"

static const size_t row_counts[] = {128, 256, 1024}, inner_sizes[] = {128, 512, 1024},
                    column_counts[] = {128, 384, 512, 1024};

enum { ROW_COUNTS = 3, INNER_SIZES = 3, COLUMN_COUNTS = 4 };

typedef struct matmul_case {
  const kernel_table *table;
  size_t rows, columns, inner;
  float *a, *b, *c, *packed;
} matmul_case;

static void multiply(void *user)
{
  matmul_case *m = user;
  m->table->matmul(m->rows, m->columns, m->inner, m->a, m->inner, 1, m->packed, m->c, m->columns, false);
}

/* A turned, as a weight's gradient has it: consecutive rows lie side by side. */
static void multiply_turned(void *user)
{
  matmul_case *m = user;
  m->table->matmul(m->rows, m->columns, m->inner, m->a, 1, m->rows, m->packed, m->c, m->columns, false);
}

/* B from a weight [columns, inner], as a linear layer keeps it. */
static void pack_and_multiply(void *user)
{
  matmul_case *m = user;
  m->table->pack(m->inner, m->columns, m->b, 1, m->inner, m->packed);
  multiply(user);
}

static void multiply_onednn(void *user)
{
  matmul_case *m = user;
  bench_onednn_sgemm(m->rows, m->columns, m->inner, m->a, m->b, m->c);
}

size_t bench_matmul_count(void)
{
  return ROW_COUNTS * INNER_SIZES * COLUMN_COUNTS;
}

static void fill(float *x, size_t n)
{
  for (size_t i = 0; i < n; i++) x[i] = (float)(i * 7919 % 1009) / 1009.0f - 0.5f;
}

status bench_matmul(const char *isa, size_t index, bench_row *row, alibi_error *error)
{
  matmul_case m = {.table = kernel_table_find(isa), .rows = row_counts[index / (INNER_SIZES * COLUMN_COUNTS)],
                   .inner = inner_sizes[index / COLUMN_COUNTS % INNER_SIZES],
                   .columns = column_counts[index % COLUMN_COUNTS]};
  status result = ALIBI_OK;
  if (!m.table) return fail(error, ALIBI_INVALID, "instruction set '%s': expected one of this build", isa);
  size_t packed_columns = (m.columns + m.table->tile_columns - 1) / m.table->tile_columns * m.table->tile_columns;
  TRY(memory_new(&m.a, m.rows * m.inner, sizeof *m.a, "a matrix", error));
  TRY(memory_new(&m.b, m.inner * m.columns, sizeof *m.b, "a matrix", error));
  TRY(memory_new(&m.c, m.rows * m.columns, sizeof *m.c, "a matrix", error));
  TRY(memory_new(&m.packed, m.inner * packed_columns, sizeof *m.packed, "a packed matrix", error));
  fill(m.a, m.rows * m.inner);
  fill(m.b, m.inner * m.columns);
  m.table->pack(m.inner, m.columns, m.b, m.columns, 1, m.packed);
  double operations = 2.0 * (double)m.rows * (double)m.columns * (double)m.inner;
  contestant contestants[] = {
      {.run = multiply, .user = &m, .operations = operations},
      {.run = pack_and_multiply, .user = &m, .operations = operations},
      {.run = multiply_turned, .user = &m, .operations = operations},
      {.run = bench_onednn_name() ? multiply_onednn : NULL, .user = &m, .operations = operations}};
  *row = (bench_row){.rows = m.rows, .inner = m.inner, .columns = m.columns, .operations = operations};
  snprintf(row->name, sizeof row->name, "rows %zu, inner %zu, columns %zu", m.rows, m.inner, m.columns);
  row->peak = bench_take_turns(isa, contestants, 4);
  row->seconds = contestants[0].seconds;
  row->share = contestants[0].share;
  row->share_with_packing = contestants[1].share;
  row->share_turned = contestants[2].share;
  row->share_onednn = contestants[3].share;
done:
  memory_free(m.a);
  memory_free(m.b);
  memory_free(m.c);
  memory_free(m.packed);
  return result;
}
