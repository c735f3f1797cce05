/* What the kernel tests share: memory between two forbidden pages, random numbers, comparisons.
 *
 * Every test runs twice: once with each buffer ending where a forbidden page begins, once with each beginning
 * where one ends; a kernel that reads or writes one float beyond its operands dies there.  Bounds are the three
 * classes of docs/design.md: bit-equal; elementwise, in units of the last place; reductions, in 8 eps sqrt(n) sum
 * |terms|. */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernel/kernel.h"

#define EPS ((double)FLT_EPSILON)

/* ---- guarded memory ---- */

typedef enum edge { EDGE_AT_END, EDGE_AT_START } edge;

static edge guard_edge;

typedef struct guarded {
  void *map;
  size_t bytes;
} guarded;

static guarded guards[4096];
static size_t guard_count;

static inline float *guarded_floats(size_t n)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = n * sizeof(float);
  size_t inside = (bytes + page - 1) / page * page;
  if (inside == 0) inside = page;
  assert_true(guard_count < sizeof guards / sizeof guards[0]);
  char *map = mmap(NULL, inside + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(map != MAP_FAILED);
  assert_int_equal(mprotect(map, page, PROT_NONE), 0);
  assert_int_equal(mprotect(map + page + inside, page, PROT_NONE), 0);
  guards[guard_count++] = (guarded){map, inside + 2 * page};
  return (float *)(void *)(map + page + (guard_edge == EDGE_AT_END ? inside - bytes : 0));
}

static inline void guarded_free(void)
{
  while (guard_count > 0) {
    guard_count--;
    munmap(guards[guard_count].map, guards[guard_count].bytes);
  }
}

/* The floats that a strided matrix spans, from its first to its last element. */
static inline size_t span(size_t rows, size_t columns, size_t stride)
{
  return rows && columns ? (rows - 1) * stride + columns : 0;
}

/* ---- random numbers: SplitMix64 ---- */

static uint64_t random_state = 1;

static inline double random_unit(void)
{
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static inline float random_float(void) /* -1 .. 1 */
{
  return (float)(2 * random_unit() - 1);
}

static inline float *random_floats(size_t n)
{
  float *x = guarded_floats(n);
  for (size_t i = 0; i < n; i++) x[i] = random_float();
  return x;
}

static inline float *filled_floats(size_t n, float value)
{
  float *x = guarded_floats(n);
  for (size_t i = 0; i < n; i++) x[i] = value;
  return x;
}

static inline float *copied_floats(size_t n, const float *from)
{
  float *x = guarded_floats(n);
  if (n) memcpy(x, from, n * sizeof *x);
  return x;
}

/* ---- comparisons ---- */

static inline void expect_bits(const char *what, const char *isa, size_t n, const float *found,
                               const float *expected)
{
  for (size_t i = 0; i < n; i++)
    if (memcmp(found + i, expected + i, sizeof *found) != 0)
      fail_msg("%s, %s: element %zu of %zu: expected the bits of %a, found %a", isa, what, i, n,
               (double)expected[i], (double)found[i]);
}

/* |found - expected| <= bound, and NaN only where NaN is expected. */
static inline void expect_near(const char *what, const char *isa, size_t i, double found, double expected,
                               double bound)
{
  if (isnan(expected) ? isnan(found) : fabs(found - expected) <= bound || found == expected) return;
  fail_msg("%s, %s: element %zu: expected %.9g, found %.9g, off by %.3g, allowed %.3g", isa, what, i, expected,
           found, fabs(found - expected), bound);
}

/* One unit in the last place of a float of this size; below the normal range, of the smallest normal number. */
static inline double ulp(double x)
{
  int exponent;
  frexp(fmax(fabs(x), (double)FLT_MIN), &exponent);
  return ldexp(1, exponent - 24);
}

static inline double reduction(size_t n, double sum_of_magnitudes)
{
  return 8 * EPS * sqrt((double)n) * sum_of_magnitudes + FLT_MIN * 16.0;
}

/* ---- the tables of this machine ---- */

#define FOR_EACH_TABLE(table)                                                                                 \
  for (size_t table##_index = 1; table##_index < kernel_table_count(); table##_index++)                       \
    for (const kernel_table *table = kernel_table_at(table##_index), *table##_once = table; table##_once;      \
         table##_once = NULL)

#define FOR_EACH_EDGE for (guard_edge = EDGE_AT_END; guard_edge <= EDGE_AT_START; guard_edge++)

static inline const kernel_table *reference_table(void)
{
  return kernel_table_at(0);
}

static inline void print_tables(void)
{
  fprintf(stderr, "instruction sets:");
  for (size_t i = 0; i < kernel_table_count(); i++)
    if (kernel_table_at(i)) fprintf(stderr, " %s", kernel_table_at(i)->name);
  fprintf(stderr, "\n");
}

#endif
