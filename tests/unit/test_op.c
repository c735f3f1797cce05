/* Every operation of op/op.h: the same bits on 1, 2, 3 and 5 threads, on shapes cut into items with odd ends.
 *
 * The kernels run through a spy: a table that notes how large a team calls it, and now and then lets a thread
 * sleep, so that items end in another order each time.  What is summed as they happen to end then shows in the
 * bits.  Where one kernel call can do the whole, the items are also held against that call. */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "op/attend.h"
#include "op/op.h"
#include "op/team.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "threads.h"

/* ---- the spy ---- */

static const kernel_table *real;
static kernel_table spy;
static atomic_int largest_team, calls;

static void note(void)
{
  int team = omp_get_num_threads(), seen = atomic_load(&largest_team);
  while (team > seen && !atomic_compare_exchange_weak(&largest_team, &seen, team)) continue;
  if (team > 1 && random_below(1, 1, (uint64_t)atomic_fetch_add(&calls, 1), 8) == 0)
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

#define SPY(name, parameters, arguments)                                                                      \
  static void spy_##name parameters                                                                           \
  {                                                                                                           \
    note();                                                                                                   \
    real->name arguments;                                                                                     \
  }

SPY(pack, (size_t i, size_t n, const float *b, size_t is, size_t cs, float *p), (i, n, b, is, cs, p))
SPY(matmul,
    (size_t r, size_t n, size_t i, const float *a, size_t rs, size_t is, const float *p, float *c, size_t cs,
     bool add), (r, n, i, a, rs, is, p, c, cs, add))
SPY(attention_forward, (const attention_head *h, float *scratch), (h, scratch))
SPY(proof_clusters, (size_t d, const float *turned, float *clusters), (d, turned, clusters))
SPY(proof_sums,
    (size_t rows, size_t d, const float *turned, const float *clusters, const float *bias, float *table),
    (rows, d, turned, clusters, bias, table))
SPY(proof_join, (const float *before, float shift, float *table), (before, shift, table))
SPY(attention_delta, (const attention_head *h, size_t from, size_t to, float *delta), (h, from, to, delta))
SPY(attention_open, (const attention_head *h, size_t span, float *scratch), (h, span, scratch))
SPY(attention_give, (const attention_head *h, size_t span, size_t tile, float *scratch), (h, span, tile, scratch))
SPY(attention_close, (const attention_head *h, size_t span, float *scratch), (h, span, scratch))
SPY(norm_forward,
    (const norm_shape *s, const float *x, const float *gain, const float *shift, float *y, float *mean,
     float *rstd), (s, x, gain, shift, y, mean, rstd))
SPY(norm_again,
    (const norm_shape *s, const float *x, const float *gain, const float *shift, const float *mean,
     const float *rstd, float *y), (s, x, gain, shift, mean, rstd, y))
SPY(norm_backward,
    (const norm_shape *s, const float *x, const float *gain, const float *mean, const float *rstd, const float *dy,
     float *dx, size_t dx_stride, bool add), (s, x, gain, mean, rstd, dy, dx, dx_stride, add))
SPY(norm_backward_gain,
    (const norm_shape *s, size_t from, size_t to, const float *x, const float *mean, const float *rstd,
     const float *dy, float *dgain, float *dshift), (s, from, to, x, mean, rstd, dy, dgain, dshift))
SPY(activation_forward, (activation_kind kind, size_t n, const float *x, float *y), (kind, n, x, y))
SPY(activation_backward, (activation_kind kind, size_t n, const float *x, const float *dy, float *dx, float *y),
    (kind, n, x, dy, dx, y))
SPY(activation_gate, (activation_kind k, size_t n, const float *g, const float *v, float *y), (k, n, g, v, y))
SPY(activation_gate_backward,
    (activation_kind k, size_t n, const float *g, const float *v, const float *dy, float *dg, float *dv, float *y),
    (k, n, g, v, dy, dg, dv, y))
SPY(add, (size_t n, const float *x, float *y), (n, x, y))
SPY(add_scaled, (size_t n, float scale, const float *x, float *y), (n, scale, x, y))
SPY(scale, (size_t n, float scale, float *y), (n, scale, y))
SPY(drop, (size_t n, const dropout_row *row, const float *x, float *y, bool add), (n, row, x, y, add))
SPY(rotate, (size_t half, const float *cosine, const float *sine, bool inverse, float *x),
    (half, cosine, sine, inverse, x))
SPY(rotate_adjacent, (size_t half, const float *cosine, const float *sine, bool inverse, float *x),
    (half, cosine, sine, inverse, x))
SPY(cross_entropy, (size_t n, const float *x, size_t target, float weight, float z_loss, float *loss, float *d),
    (n, x, target, weight, z_loss, loss, d))
SPY(adamw, (size_t n, const adamw_step *step, const float *grad, float *value, float *m, float *v),
    (n, step, grad, value, m, v))

static bool spy_attention_meet(const attention_head *h, size_t span, size_t tile, float *scratch)
{
  note();
  return real->attention_meet(h, span, tile, scratch);
}

static double spy_sum_squares(size_t n, const float *x)
{
  note();
  return real->sum_squares(n, x);
}

static alibi_context *spied_context(int threads)
{
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = threads;
  assert_int_equal(alibi_context_new(&options, &context, NULL), ALIBI_OK);
  real = context->kernel;
  spy = *real;
  spy.pack = spy_pack;
  spy.matmul = spy_matmul;
  spy.attention_forward = spy_attention_forward;
  spy.proof_clusters = spy_proof_clusters;
  spy.proof_sums = spy_proof_sums;
  spy.proof_join = spy_proof_join;
  spy.attention_delta = spy_attention_delta;
  spy.attention_open = spy_attention_open;
  spy.attention_meet = spy_attention_meet;
  spy.attention_give = spy_attention_give;
  spy.attention_close = spy_attention_close;
  spy.norm_forward = spy_norm_forward;
  spy.norm_again = spy_norm_again;
  spy.norm_backward = spy_norm_backward;
  spy.norm_backward_gain = spy_norm_backward_gain;
  spy.activation_forward = spy_activation_forward;
  spy.activation_backward = spy_activation_backward;
  spy.activation_gate = spy_activation_gate;
  spy.activation_gate_backward = spy_activation_gate_backward;
  spy.add = spy_add;
  spy.add_scaled = spy_add_scaled;
  spy.scale = spy_scale;
  spy.drop = spy_drop;
  spy.rotate = spy_rotate;
  spy.rotate_adjacent = spy_rotate_adjacent;
  spy.cross_entropy = spy_cross_entropy;
  spy.sum_squares = spy_sum_squares;
  spy.adamw = spy_adamw;
  context->kernel = &spy;
  atomic_store(&largest_team, 0);
  return context;
}

/* ---- numbers ---- */

enum { FLOATS_MAX = 64 };

static float *all_floats[FLOATS_MAX];
static size_t all_count;

/* Of no more bytes than asked for, so that a sanitizer sees what lies beyond. */
static float *floats(size_t n)
{
  assert_true(all_count < FLOATS_MAX);
  float *x = calloc(n ? n : 1, sizeof *x);
  assert_non_null(x);
  return all_floats[all_count++] = x;
}

/* The same numbers, of both signs and many magnitudes, for the same seed. */
static float *numbers(size_t n, uint64_t seed)
{
  float *x = floats(n);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (size_t i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)((double)(state >> 11) * 0x1p-52 - 1);
  }
  return x;
}

static void free_floats(void)
{
  while (all_count) free(all_floats[--all_count]);
}

static op_workspace workspace(size_t panels)
{
  return (op_workspace){floats(panels)};
}

/* What a run produced, one piece after another. */
enum { PIECES_MAX = 16 };

typedef struct results {
  const void *piece[PIECES_MAX];
  size_t bytes[PIECES_MAX], count;
} results;

static void result_bytes(results *r, const void *piece, size_t bytes)
{
  assert_true(r->count < PIECES_MAX);
  r->piece[r->count] = piece;
  r->bytes[r->count++] = bytes;
}

static void result(results *r, const float *piece, size_t n)
{
  result_bytes(r, piece, n * sizeof *piece);
}

static void expect_same(const char *what, const float *found, const float *expected, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (memcmp(found + i, expected + i, sizeof *found) != 0)
      fail_msg("%s: element %zu of %zu: expected the bits of one kernel call, %a, found %a", what, i, n,
               (double)expected[i], (double)found[i]);
}

/* Runs `operation` on 1 thread, then on more, several times each. */
static void same_bits(void (*operation)(alibi_context *context, results *r), bool calls_kernels)
{
  static const int teams[] = {1, 2, 3, 5};
  enum { REPEATS = 3 };
  char *first[PIECES_MAX] = {NULL};
  size_t pieces = 0;
  for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++)
    for (size_t repeat = 0; repeat < (teams[t] == 1 ? 1 : REPEATS); repeat++) {
      alibi_context *context = spied_context(teams[t]);
      threads_share_all_work(context);
      results r = {.count = 0};
      operation(context, &r);
      if (calls_kernels) assert_int_equal(atomic_load(&largest_team), teams[t]);
      if (!pieces)
        for (; pieces < r.count; pieces++) {
          first[pieces] = malloc(r.bytes[pieces]);
          assert_non_null(first[pieces]);
          memcpy(first[pieces], r.piece[pieces], r.bytes[pieces]);
        }
      assert_int_equal(r.count, pieces);
      for (size_t i = 0; i < pieces; i++)
        if (memcmp(first[i], r.piece[i], r.bytes[i]) != 0)
          fail_msg("result %zu: other bits on %d threads", i, teams[t]);
      free_floats();
      alibi_context_free(context);
    }
  for (size_t i = 0; i < pieces; i++) free(first[i]);
}

/* ---- linear ---- */

/* Rows, columns and inner indices beyond one and two blocks; strides wider than the rows. */
enum { ROWS = 401, IN = 790, OUT = 531, X_STRIDE = IN + 3, Y_STRIDE = OUT + 5 };

static void linear_forward(alibi_context *context, results *r)
{
  size_t panel_floats = op_panel_floats(context, IN, OUT), y_floats = ROWS * Y_STRIDE;
  op_workspace work = workspace(op_linear_panel_floats(context, ROWS, OUT, IN));
  float *x = numbers(ROWS * X_STRIDE, 1), *w = numbers(OUT * IN, 2), *bias = numbers(OUT, 3);
  float *y = numbers(y_floats, 4), *added = numbers(y_floats, 4), *packed = floats(panel_floats);
  float *y_packed = numbers(y_floats, 4), *whole = numbers(y_floats, 4);
  float *apart = numbers(y_floats, 4);
  matrix m = matrix_f32(w, OUT, IN);
  op_linear_forward(context, &work, ROWS, x, X_STRIDE, &m, NULL, NULL, y, Y_STRIDE);
  op_linear_forward(context, &work, ROWS, x, X_STRIDE, &m, bias, added, added, Y_STRIDE);
  op_linear_forward(context, &work, ROWS, x, X_STRIDE, &m, bias, whole, apart, Y_STRIDE);
  expect_same("x w^T + bias + addend", apart, added, y_floats);
  op_pack_weight(context, &m, packed);
  m.packed = packed;
  op_linear_forward(context, &work, ROWS, x, X_STRIDE, &m, bias, NULL, y_packed, Y_STRIDE);
  result(r, y, y_floats);
  result(r, added, y_floats);
  result(r, y_packed, y_floats);

  float *panels = floats(panel_floats);
  real->pack(IN, OUT, w, 1, IN, panels);
  expect_same("panels", packed, panels, panel_floats);
  real->matmul(ROWS, OUT, IN, x, X_STRIDE, 1, panels, whole, Y_STRIDE, false);
  expect_same("x w^T", y, whole, y_floats);
}

static void linear_backward(alibi_context *context, results *r)
{
  op_workspace work = workspace(op_linear_panel_floats(context, ROWS, OUT, IN));
  float *x = numbers(ROWS * X_STRIDE, 1), *w = numbers(OUT * IN, 2), *dy = numbers(ROWS * Y_STRIDE, 3);
  float *dx = numbers(ROWS * X_STRIDE, 4), *dw = numbers(OUT * IN, 5), *dbias = numbers(OUT, 6);
  float *whole_dx = numbers(ROWS * X_STRIDE, 4), *whole_dw = numbers(OUT * IN, 5), *sums = numbers(OUT, 6);
  matrix m = matrix_f32(w, OUT, IN);
  op_linear_backward(context, &work, ROWS, x, X_STRIDE, &m, dy, Y_STRIDE, dx, X_STRIDE, dw, dbias);
  result(r, dx, ROWS * X_STRIDE);
  result(r, dw, OUT * IN);
  result(r, dbias, OUT);

  size_t to_x = op_panel_floats(context, OUT, IN), to_w = op_panel_floats(context, ROWS, IN);
  float *panels = floats(to_x > to_w ? to_x : to_w);
  norm_shape s = {.rows = ROWS, .columns = OUT, .in_stride = Y_STRIDE, .out_stride = Y_STRIDE};
  real->pack(OUT, IN, w, IN, 1, panels);
  real->matmul(ROWS, IN, OUT, dy, Y_STRIDE, 1, panels, whole_dx, X_STRIDE, false);
  real->pack(ROWS, IN, x, X_STRIDE, 1, panels);
  real->matmul(OUT, IN, ROWS, dy, 1, Y_STRIDE, panels, whole_dw, IN, true);
  real->norm_backward_gain(&s, 0, OUT, NULL, NULL, NULL, dy, NULL, sums);
  expect_same("dy w", dx, whole_dx, ROWS * X_STRIDE);
  expect_same("dy^T x", dw, whole_dw, OUT * IN);
  expect_same("column sums", dbias, sums, OUT);
}

static void linear(void **unused)
{
  (void)unused;
  same_bits(linear_forward, true);
  same_bits(linear_backward, true);
}

/* ---- norms, rows of channels ---- */

/* Groups of channels on their own (norms of q and k) and the whole row, of more columns than one block. */
static void norm_of(alibi_context *context, results *r, bool centre, size_t groups)
{
  enum { COLUMNS = 150 };
  size_t width = groups * COLUMNS, stride = width + 7, n = ROWS * stride;
  op_norm norm = {centre, 1e-5f};
  float *x = numbers(n, 1), *gain = numbers(COLUMNS, 2), *shift = numbers(COLUMNS, 3), *y = numbers(n, 4);
  float *mean = floats(ROWS * groups), *rstd = floats(ROWS * groups), *dy = numbers(n, 5), *dx = numbers(n, 6);
  float *dgain = numbers(COLUMNS, 7), *dshift = numbers(COLUMNS, 8);
  float *whole = numbers(n, 4), *whole_dx = numbers(n, 6);
  op_norm_forward(context, norm, ROWS, groups, COLUMNS, x, stride, gain, shift, y, stride, mean, rstd);
  op_norm_backward(context, norm, ROWS, groups, COLUMNS, x, stride, gain, mean, rstd, dy, stride, dx, stride, true,
                   dgain, dshift);
  float *own_dgain = numbers(COLUMNS, 7), *in_place = numbers(n, 5), *again = floats(n);
  op_norm_backward(context, norm, ROWS, groups, COLUMNS, x, stride, gain, mean, rstd, in_place, stride, in_place,
                   stride, false, own_dgain, NULL);
  expect_same("dgain in place", own_dgain, dgain, COLUMNS);
  result(r, in_place, n);
  if (groups == 1) { /* of rows side by side */
    float *flat = floats(n), *flat_y = floats(n);
    op_copy_rows(context, ROWS, width, x, stride, flat, width);
    op_norm_again(context, ROWS, width, flat, gain, shift, mean, rstd, again);
    op_copy_rows(context, ROWS, width, y, stride, flat_y, width);
    expect_same("norm again", again, flat_y, ROWS * width);
  }
  result(r, y, n);
  result(r, mean, ROWS * groups);
  result(r, rstd, ROWS * groups);
  result(r, dx, n);
  result(r, dgain, COLUMNS);
  result(r, dshift, COLUMNS);
  for (size_t g = 0; g < groups; g++) {
    norm_shape s = {ROWS, COLUMNS, stride, stride, norm.epsilon, centre};
    float *means = floats(ROWS), *rstds = floats(ROWS);
    real->norm_forward(&s, x + g * COLUMNS, gain, shift, whole + g * COLUMNS, means, rstds);
    real->norm_backward(&s, x + g * COLUMNS, gain, means, rstds, dy + g * COLUMNS, whole_dx + g * COLUMNS,
                        stride, true);
  }
  expect_same("y of a norm", y, whole, n);
  expect_same("dx of a norm", dx, whole_dx, n);
}

static void layer_norm(alibi_context *context, results *r)
{
  norm_of(context, r, true, 1);
}

static void grouped_norm(alibi_context *context, results *r)
{
  norm_of(context, r, false, 3);
}

/* Few tokens in many rows: each row of the gradient is added to often, in an order that matters. */
static void embedding(alibi_context *context, results *r)
{
  enum { CHANNELS = 200, TOKENS = 11, POSITIONS = 17 };
  matrix weight = matrix_f32(numbers(TOKENS * CHANNELS, 1), TOKENS, CHANNELS);
  float *position = numbers(POSITIONS * CHANNELS, 2), *dx = numbers(ROWS * CHANNELS, 3);
  float *dtable = numbers(TOKENS * CHANNELS, 4), *dposition = numbers(POSITIONS * CHANNELS, 5);
  float *x = floats(2 * ROWS * CHANNELS), *plain = x + ROWS * CHANNELS;
  uint32_t tokens[ROWS];
  size_t positions[ROWS];
  for (size_t i = 0; i < ROWS; i++) {
    tokens[i] = (uint32_t)random_below(6, 1, i, TOKENS);
    positions[i] = i % POSITIONS;
  }
  op_embedding_forward(context, ROWS, CHANNELS, tokens, positions, 1.5f, &weight, position, x);
  op_embedding_forward(context, ROWS, CHANNELS, tokens, NULL, 1, &weight, NULL, plain);
  op_embedding_backward(context, ROWS, CHANNELS, tokens, positions, 1.5f, dx, dtable, dposition);
  for (size_t i = 0; i < ROWS; i++)
    expect_same("a row of the embedding", plain + i * CHANNELS, weight.data + tokens[i] * CHANNELS, CHANNELS);
  result(r, x, 2 * ROWS * CHANNELS);
  result(r, dtable, TOKENS * CHANNELS);
  result(r, dposition, POSITIONS * CHANNELS);
}

static void rotate(alibi_context *context, results *r)
{
  enum { HEADS = 3, SIZE = 20, ROTARY = 14, STRIDE = HEADS * SIZE + 3, POSITIONS = 29 };
  float *cosine = numbers(POSITIONS * ROTARY / 2, 1), *sine = numbers(POSITIONS * ROTARY / 2, 2);
  float *x = numbers(ROWS * STRIDE, 3), *back = numbers(ROWS * STRIDE, 4);
  size_t positions[ROWS];
  for (size_t i = 0; i < ROWS; i++) positions[i] = i * 7 % POSITIONS;
  op_rotation rotation = {ROTARY, false, cosine, sine};
  op_rotate(context, ROWS, HEADS, SIZE, &rotation, positions, false, x, STRIDE);
  op_rotate(context, ROWS, HEADS, SIZE, &rotation, positions, true, back, STRIDE);
  result(r, x, ROWS * STRIDE);
  result(r, back, ROWS * STRIDE);
}

/* Against the formula; the gradient of a scale is the product of the plain row and what comes back. */
static void scale_heads(alibi_context *context, results *r)
{
  enum { HEADS = 3, SIZE = 20, STRIDE = HEADS * SIZE + 3, POSITIONS = 29 };
  float *scale = numbers(HEADS * POSITIONS, 1), *plain = numbers(ROWS * STRIDE, 2), *x = numbers(ROWS * STRIDE, 2);
  float *dx = numbers(ROWS * STRIDE, 3), *before = numbers(ROWS * STRIDE, 3), *dscale = floats(HEADS * POSITIONS);
  size_t positions[ROWS];
  for (size_t i = 0; i < ROWS; i++) positions[i] = i * 7 % POSITIONS;
  memset(dscale, 0, HEADS * POSITIONS * sizeof *dscale);
  op_scale_heads(context, ROWS, HEADS, SIZE, scale, POSITIONS, positions, x, STRIDE);
  op_scale_heads_backward(context, ROWS, HEADS, SIZE, scale, POSITIONS, positions, x, dx, STRIDE, dscale);
  for (size_t h = 0; h < HEADS; h++)
    for (size_t p = 0; p < POSITIONS; p++) {
      double expected = 0, magnitude = 0, factor = scale[h * POSITIONS + p];
      for (size_t i = 0; i < ROWS; i++) {
        if (positions[i] != p) continue;
        for (size_t at = i * STRIDE + h * SIZE; at < i * STRIDE + (h + 1) * SIZE; at++) {
          double term = (double)plain[at] * before[at];
          expected += term;
          magnitude += fabs(term);
          assert_true(x[at] == (float)(plain[at] * factor) && dx[at] == (float)(before[at] * factor));
        }
      }
      if (!(fabs(dscale[h * POSITIONS + p] - expected) <= 4 * FLT_EPSILON * magnitude))
        fail_msg("gradient of a scale: expected %.9g, found %.9g", expected, dscale[h * POSITIONS + p]);
    }
  result(r, x, ROWS * STRIDE);
  result(r, dx, ROWS * STRIDE);
  result(r, dscale, HEADS * POSITIONS);
}

static void cross_entropy(alibi_context *context, results *r)
{
  enum { VOCABULARY = 501 };
  float *logits = numbers(ROWS * VOCABULARY, 1), *losses = floats(ROWS), *without = floats(ROWS);
  uint32_t targets[ROWS];
  for (size_t i = 0; i < ROWS; i++) targets[i] = (uint32_t)random_below(2, 1, i, VOCABULARY);
  op_cross_entropy(context, ROWS, VOCABULARY, logits, targets, 0.25f, 0.01f, without, NULL);
  op_cross_entropy(context, ROWS, VOCABULARY, logits, targets, 0.25f, 0.01f, losses, logits);
  expect_same("losses with gradients", losses, without, ROWS);
  enum { BARE = 3 }; /* a row without a target changes no other */
  float *others = numbers(ROWS * VOCABULARY, 1), *other_losses = floats(ROWS);
  targets[BARE] = OP_NO_TARGET;
  op_cross_entropy(context, ROWS, VOCABULARY, others, targets, 0.25f, 0.01f, other_losses, others);
  for (size_t row = 0; row < ROWS; row++) {
    if (row == BARE) continue;
    expect_same("gradients beside a row without a target", others + row * VOCABULARY, logits + row * VOCABULARY,
                VOCABULARY);
    assert_true(other_losses[row] == losses[row]);
  }
  for (size_t c = 0; c < VOCABULARY; c++) assert_true(others[BARE * VOCABULARY + c] == 0);
  assert_true(other_losses[BARE] == 0);
  result(r, losses, ROWS);
  result(r, logits, ROWS * VOCABULARY);
}

/* A row's numbers are those of its place in the whole, whichever call it comes with. */
static void drop(alibi_context *context, results *r)
{
  enum { CHANNELS = 77, CUT = 41 };
  op_dropout d = {.rate = 0.3, .seed = 5, .place = 9, .first_row = 1000}, later = d;
  float *x = numbers(ROWS * CHANNELS, 1), *y = floats(ROWS * CHANNELS), *parts = floats(ROWS * CHANNELS);
  op_drop(context, &d, ROWS, CHANNELS, x, y, false);
  op_drop(context, &d, CUT, CHANNELS, x, parts, false);
  later.first_row += CUT;
  op_drop(context, &later, ROWS - CUT, CHANNELS, x + CUT * CHANNELS, parts + CUT * CHANNELS, false);
  expect_same("dropout in two calls", parts, y, ROWS * CHANNELS);
  result(r, y, ROWS * CHANNELS);
  op_drop(context, &d, ROWS, CHANNELS, x, y, true);
  for (size_t i = 0; i < ROWS * CHANNELS; i++) assert_true(y[i] == 2 * parts[i]);
}

static void rows_of_channels(void **unused)
{
  (void)unused;
  same_bits(layer_norm, true);
  same_bits(grouped_norm, true);
  same_bits(embedding, true);
  same_bits(rotate, true);
  same_bits(scale_heads, true);
  same_bits(cross_entropy, true);
  same_bits(drop, true);
}

/* ---- numbers in a line ---- */

/* Six blocks, the last one short; a sum over more blocks than one batch has. */
enum { FLAT = 5 * 16384 + 77, SUMMED = 300 * 16384 + 5 };

static void activation(alibi_context *context, results *r)
{
  enum { TALL = FLAT / 301, WIDE = 301, N = TALL * WIDE };
  for (activation_kind kind = ACTIVATION_GELU_ERF; kind <= ACTIVATION_SILU; kind++) {
    float *x = numbers(N, 1), *y = floats(N), *dy = numbers(N, 2), *again = numbers(N, 2), *dx = numbers(N, 1);
    float *whole = floats(N);
    op_activation_forward(context, kind, TALL, WIDE, x, y);
    op_activation_backward(context, kind, TALL, WIDE, dx, again);
    result(r, y, N);
    result(r, dx, N);
    expect_same("activation made again", again, y, N);
    real->activation_forward(kind, N, x, whole);
    expect_same("activation", y, whole, N);
    real->activation_backward(kind, N, x, dy, whole, NULL);
    expect_same("slope of the activation", dx, whole, N);
  }
}

static void gated_activation(alibi_context *context, results *r)
{
  enum { TALL = FLAT / 301, WIDE = 301, N = TALL * WIDE };
  float *x = numbers(2 * N, 1), *y = floats(N), *dx = numbers(2 * N, 1);
  float *dy = numbers(N, 2), *again = numbers(N, 2);
  float one[WIDE], dgate[WIDE], dvalue[WIDE];
  op_activation_forward(context, ACTIVATION_GEGLU, TALL, WIDE, x, y);
  op_activation_backward(context, ACTIVATION_GEGLU, TALL, WIDE, dx, again);
  result(r, y, N);
  result(r, dx, 2 * N);
  expect_same("gated activation made again", again, y, N);
  for (size_t row = 0; row < TALL; row++) {
    const float *gate = x + 2 * row * WIDE;
    real->activation_gate(ACTIVATION_GEGLU, WIDE, gate, gate + WIDE, one);
    expect_same("gated activation", y + row * WIDE, one, WIDE);
    real->activation_gate_backward(ACTIVATION_GEGLU, WIDE, gate, gate + WIDE, dy + row * WIDE, dgate, dvalue,
                                   NULL);
    expect_same("gradient of gates", dx + 2 * row * WIDE, dgate, WIDE);
    expect_same("gradient of values", dx + (2 * row + 1) * WIDE, dvalue, WIDE);
  }
}

static void add(alibi_context *context, results *r)
{
  float *x = numbers(FLAT, 1), *y = numbers(FLAT, 2);
  op_add(context, FLAT, x, y);
  result(r, y, FLAT);
}

static void copy(alibi_context *context, results *r)
{
  float *x = numbers(FLAT, 1), *y = floats(FLAT);
  op_copy(context, FLAT, x, y);
  expect_same("copy", y, x, FLAT);
  result(r, y, FLAT);
}

static void adamw(alibi_context *context, results *r)
{
  adamw_step step = {.rate = 0.01f, .decay = 0.001f, .beta1 = 0.9f, .beta2 = 0.95f, .epsilon = 1e-8f,
                     .correction1 = 10, .correction2 = 20, .grad_scale = 0.5f};
  float *grad = numbers(FLAT, 1), *value = numbers(FLAT, 2), *m = numbers(FLAT, 3), *v = numbers(FLAT, 4);
  float *whole = numbers(FLAT, 2), *whole_m = numbers(FLAT, 3), *whole_v = numbers(FLAT, 4);
  for (size_t i = 0; i < FLAT; i++) v[i] = whole_v[i] = v[i] * v[i];
  op_adamw(context, FLAT, &step, grad, value, m, v);
  real->adamw(FLAT, &step, grad, whole, whole_m, whole_v);
  expect_same("value of AdamW", value, whole, FLAT);
  expect_same("m of AdamW", m, whole_m, FLAT);
  expect_same("v of AdamW", v, whole_v, FLAT);
  result(r, value, FLAT);
  result(r, m, FLAT);
  result(r, v, FLAT);
}

static double sum;

/* Blocks of very different size: doubles then lose bits, other ones in another order. */
static void sum_squares(alibi_context *context, results *r)
{
  float *x = numbers(SUMMED, 1), scales[33];
  double expected = 0;
  for (int i = 0; i < 33; i++) scales[i] = ldexpf(1, i * 10 % 33 - 16);
  for (size_t i = 0; i < SUMMED; i++) {
    x[i] *= scales[i / 16384 % 33];
    expected += (double)x[i] * (double)x[i];
  }
  sum = op_sum_squares(context, SUMMED, x);
  assert_true(fabs(sum - expected) < 1e-5 * expected);
  result_bytes(r, &sum, sizeof sum);
}

static void numbers_in_a_line(void **unused)
{
  (void)unused;
  same_bits(activation, true);
  same_bits(gated_activation, true);
  same_bits(add, true);
  same_bits(copy, false);
  same_bits(adamw, true);
  same_bits(sum_squares, true);
}

/* ---- attention ---- */

/* Two groups of three heads; sequences of one token, of whole blocks, of more than a block; or short ones alike,
 * which one thread takes whole, and more threads span by span. */
enum { HEADS = 6, GROUPS = 2, SIZE = 20, SEQUENCES = 10, LONGEST = 400, STRIDE = (HEADS + 2 * GROUPS) * SIZE };

static const size_t mixed[SEQUENCES] = {70, 1, LONGEST, 33, 128, 300};
static const size_t brief[SEQUENCES] = {129, 130, 128, 0, 131, 130, 129, 128, 1, 130};
static const size_t *lengths = mixed;

static size_t sequences_of(attention_segment *segments)
{
  size_t rows = 0;
  for (size_t s = 0; s < SEQUENCES; s++) {
    segments[s] = (attention_segment){.row = rows, .rows = lengths[s], .keys = lengths[s], .key_row = rows};
    rows += lengths[s];
  }
  return rows;
}

static op_heads heads_at(const float *data)
{
  return (op_heads){data, STRIDE, SIZE};
}

static op_heads_out gradients_at(float *data)
{
  return (op_heads_out){data, STRIDE, SIZE};
}

static op_attention attention_of(bias_kind bias, const float *qkv, float *out, float *lse)
{
  return (op_attention){.heads = HEADS, .kv_heads = GROUPS, .head_size = SIZE, .scale = 0.3f, .bias = bias,
                        .slopes = numbers(HEADS, 2), .table = numbers(HEADS * LONGEST, 3), .lse = lse,
                        .table_length = bias == BIAS_DISTANCE ? LONGEST : 0, .segment_count = SEQUENCES,
                        .q = heads_at(qkv), .k = heads_at(qkv + HEADS * SIZE),
                        .v = heads_at(qkv + (HEADS + GROUPS) * SIZE), .out = {out, HEADS * SIZE, SIZE}};
}

static void *memory_for(const alibi_context *context, size_t rows, bool backward)
{
  attention_size size = {.segments = SEQUENCES, .queries = rows, .keys = rows, .heads = HEADS, .kv_heads = GROUPS,
                         .head_size = SIZE, .table_length = LONGEST, .skips = true, .backward = backward,
                         .slope_grad = true, .table_grad = true};
  return numbers(op_attention_bytes(context, &size) / sizeof(float), 8); /* what was there does not count */
}

static void attention_both_ways(alibi_context *context, results *r, bias_kind bias, bool overwrites)
{
  attention_segment segments[SEQUENCES];
  size_t rows = sequences_of(segments), n = rows * HEADS * SIZE, table = HEADS * LONGEST;
  float *out = floats(n), *lse = floats(rows * HEADS), *gradients = numbers(rows * STRIDE, 5);
  float *slopes = numbers(2 * HEADS, 9); /* as doubles: any bits that are numbers */
  int32_t *visited = (int32_t *)(void *)floats(2 * rows * HEADS);
  op_attention a = attention_of(bias, numbers(rows * STRIDE, 1), out, lse);
  a.segments = segments;
  a.tolerance = 0x1p-24;
  a.visited = visited;
  op_attention_forward(context, &a, memory_for(context, rows, false));
  a.dout = (op_heads){numbers(n, 4), HEADS * SIZE, SIZE};
  a.dq = gradients_at(gradients);
  a.dk = gradients_at(gradients + HEADS * SIZE);
  a.dv = gradients_at(gradients + (HEADS + GROUPS) * SIZE);
  if (bias == BIAS_DISTANCE) a.table_grad = numbers(table, 6);
  if (bias == BIAS_SLOPE) a.slope_grad = (double *)(void *)slopes;
  if (overwrites) memset(gradients, 0, rows * STRIDE * sizeof *gradients);
  op_attention_backward(context, &a, memory_for(context, rows, true));
  if (overwrites) { /* what was there does not count */
    float *over = a.dq.data = numbers(rows * STRIDE, 7);
    a.dk.data = over + HEADS * SIZE;
    a.dv.data = over + (HEADS + GROUPS) * SIZE;
    a.overwrites = true;
    a.slope_grad = NULL;
    a.table_grad = NULL;
    op_attention_backward(context, &a, memory_for(context, rows, true));
    expect_same("gradients set", over, gradients, rows * STRIDE);
    return;
  }
  result(r, out, n);
  result(r, lse, rows * HEADS);
  result(r, gradients, rows * STRIDE);
  result(r, slopes, 2 * HEADS);
  if (bias == BIAS_DISTANCE) {
    float *before = numbers(table, 6);
    assert_memory_not_equal(a.table_grad, before, table * sizeof *before);
    result(r, a.table_grad, table);
  }
}

static void attention_plain(alibi_context *context, results *r)
{
  attention_both_ways(context, r, BIAS_NONE, false);
}

static void attention_slopes(alibi_context *context, results *r)
{
  attention_both_ways(context, r, BIAS_SLOPE, false);
}

static void attention_table(alibi_context *context, results *r)
{
  attention_both_ways(context, r, BIAS_DISTANCE, false);
}

static void attention_that_sets(alibi_context *context, results *r)
{
  attention_both_ways(context, r, BIAS_SLOPE, true);
}

/* The last rows of every sequence against a cache, as a session keeps it; then all rows against keys in rows. */
static void attention_cached(alibi_context *context, results *r)
{
  attention_segment whole[SEQUENCES], tails[SEQUENCES];
  block_cache *caches[SEQUENCES];
  size_t rows = sequences_of(whole), n = rows * HEADS * SIZE;
  float *qkv = numbers(rows * STRIDE, 1), *out = floats(n), *expected = floats(n), *lse = floats(rows * HEADS);
  for (size_t s = 0; s < SEQUENCES; s++) {
    size_t first = lengths[s] * (s + 1) / (SEQUENCES + 1);
    assert_int_equal(block_cache_new(real, 1 + GROUPS, SIZE, 0, lengths[s], &caches[s], NULL), ALIBI_OK);
    for (size_t g = 0; g < GROUPS; g++) {
      const float *keys = qkv + whole[s].key_row * STRIDE + (HEADS + g) * SIZE;
      block_cache_store(caches[s], 1 + g, 0, lengths[s], keys, STRIDE, keys + GROUPS * SIZE, STRIDE);
    }
    tails[s] = (attention_segment){.row = whole[s].row + first, .rows = lengths[s] - first,
                                   .first = (ptrdiff_t)first, .keys = lengths[s], .cache = caches[s], .list = 1};
  }
  op_attention a = attention_of(BIAS_DISTANCE, qkv, out, NULL);
  a.segments = tails;
  op_attention_forward(context, &a, memory_for(context, rows, false));
  result(r, out, n);
  a.segments = whole;
  a.out.data = expected;
  a.lse = lse;
  op_attention_forward(context, &a, memory_for(context, rows, false));
  for (size_t s = 0; s < SEQUENCES; s++) {
    expect_same("rows on a cache", out + tails[s].row * HEADS * SIZE, expected + tails[s].row * HEADS * SIZE,
                tails[s].rows * HEADS * SIZE);
    block_cache_free(caches[s]);
  }
}

static void attention(void **unused)
{
  (void)unused;
  lengths = mixed;
  same_bits(attention_plain, true);
  same_bits(attention_slopes, true);
  same_bits(attention_table, true);
  same_bits(attention_that_sets, true);
  same_bits(attention_cached, true);
  lengths = brief;
  same_bits(attention_plain, true);
  same_bits(attention_slopes, true);
  same_bits(attention_table, true);
  same_bits(attention_that_sets, true);
}

/* ---- teams ---- */

static void add_on(int threads, bool share_all, size_t n, int team)
{
  alibi_context *context = spied_context(threads);
  if (share_all) threads_share_all_work(context);
  op_add(context, n, numbers(n, 1), numbers(n, 2));
  assert_int_equal(atomic_load(&largest_team), team);
  free_floats();
  alibi_context_free(context);
}

static void large_work_has_a_team_and_small_work_none(void **unused)
{
  (void)unused;
  add_on(2, false, 3 * 16384, 1);
  add_on(2, true, 3 * 16384, 2);
  add_on(2, false, SUMMED, 2);
  add_on(5, true, 3 * 16384, 5); /* not 3: the runtime would end two threads, and make them again */
  add_on(5, true, 16384, 1);     /* one item */
  add_on(1, true, SUMMED, 1);
}

/* Within a region of the caller's own, where the thread's number is the caller's: scratch is one thread's. */
static void a_caller_may_be_in_a_team(void **unused)
{
  (void)unused;
  alibi_context *context = spied_context(1);
  attention_segment segments[SEQUENCES];
  size_t rows = sequences_of(segments), n = rows * HEADS * SIZE;
  float *out = floats(n), *expected = floats(n);
  void *memory = memory_for(context, rows, false);
  op_attention a = attention_of(BIAS_SLOPE, numbers(rows * STRIDE, 1), expected, NULL);
  a.segments = segments;
  op_attention_forward(context, &a, memory);
  a.out.data = out;
#pragma omp parallel num_threads(3)
  if (omp_get_thread_num() == 2) op_attention_forward(context, &a, memory);
  expect_same("in a team", out, expected, n);
  free_floats();
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(linear),
      cmocka_unit_test(rows_of_channels),
      cmocka_unit_test(numbers_in_a_line),
      cmocka_unit_test(attention),
      cmocka_unit_test(large_work_has_a_team_and_small_work_none),
      cmocka_unit_test(a_caller_may_be_in_a_team),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
