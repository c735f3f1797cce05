/* The public attention operator has the same bits on any number of threads, whatever they take as a piece of work:
 * spans of keys, or whole sequences where those are short and many; and the gradients of the latter are those of
 * the formula. */
#include "unit/attention_expect.h"

#include "op/attend_plan.h"

static call *run_on(int threads, const call_options *o)
{
  alibi_context *mine = context;
  call *c = call_new(o);
  context = call_context(threads);
  call_forward(c);
  call_backward(c);
  alibi_context_free(context);
  context = mine;
  return c;
}

static call *decode_on(int threads, const call_options *o)
{
  alibi_context *mine = context;
  alibi_cache *cache;
  call *c = call_new(o);
  context = call_context(threads);
  call_caches(c, 0, o->keys, &cache);
  call_decode(c, &cache);
  alibi_cache_free(cache);
  alibi_context_free(context);
  context = mine;
  return c;
}

static void expect_same_call(const call *found, const call *expected)
{
  size_t pairs = (size_t)(expected->a.queries * expected->options.heads * expected->a.keys);
  call_same_outputs(found, expected);
  call_same_gradients(found, call_gradients_of(expected));
  if (expected->options.bias == ALIBI_BIAS_ROWS)
    call_same("rows", found->rows.gradient, expected->rows.gradient, pairs * sizeof(float));
}

static void the_same_bits_on_any_number_of_threads(void **unused)
{
  (void)unused;
  static const int teams[] = {2, 3, 8, 8};
  static const double slopes[] = {8, 0.5, 0.01, 0};
  static const int64_t lengths[] = {400, 3, 0, 597};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int variant = 0; variant < 4; variant++) {
      call_options o = call_defaults();
      o.bias = (alibi_bias_kind)kind;
      o.factor = true;
      o.slopes = variant == 1 ? slopes + 2 : slopes;
      o.size = 16;
      o.heads = variant == 1 ? 1 : 4;
      o.kv_heads = variant == 2 ? 1 : 0;
      o.queries = o.keys = 1000;
      o.tolerance = ALIBI_TOLERANCE;
      if (variant == 3) {
        o.sequences = 4;
        o.query_lengths = o.key_lengths = lengths;
        o.both_sides = true;
      }
      if (kind == ALIBI_BIAS_ROWS && variant != 1) o.queries = o.keys = 500;
      call *one = run_on(1, &o);
      for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
        snprintf(call_name, sizeof call_name, "bias %d, variant %d, %d threads", kind, variant, teams[t]);
        expect_same_call(run_on(teams[t], &o), one);
      }
      call_free_all();
    }
}

static void decoding_has_the_same_bits_on_any_number_of_threads(void **unused)
{
  (void)unused;
  static const int teams[] = {2, 3, 8};
  static const double slopes[] = {0.01, 8, 0.5, 0};
  for (int heads = 1; heads <= 4; heads += 3)
    for (int64_t queries = 1; queries <= 9; queries += 8) {
      call_options o = call_defaults();
      o.heads = heads;
      o.slopes = slopes;
      o.size = 16;
      o.queries = queries;
      o.keys = 1000;
      o.tolerance = ALIBI_TOLERANCE;
      call *one = decode_on(1, &o);
      for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
        snprintf(call_name, sizeof call_name, "%d heads, %lld queries, %d threads", heads, (long long)queries,
                 teams[t]);
        call_same_outputs(decode_on(teams[t], &o), one);
      }
      call_free_all();
    }
}

/* ---- many short sequences ---- */

enum { MANY = 26, DEEP = 16 };

/* One to three threads take whole sequences of the first, one or two of the second. */
static const int64_t many[MANY] = {70, 1,  0,  33, 64, 70, 9,  9,  66, 2,  70, 69, 5,
                                   70, 68, 70, 64, 65, 70, 67, 17, 70, 69, 0,  70, 66};
static const int64_t many_keys[MANY] = {70, 9,  3,  70, 70, 64, 0,  33, 70, 70, 66, 70, 1,
                                        69, 70, 70, 66, 70, 70, 64, 70, 65, 70, 12, 70, 70};
static const int64_t deep[DEEP] = {256, 1, 0, 200, 256, 64, 9, 256, 240, 255, 128, 2, 256, 256, 33, 256};

/* Else these tests would be about something else. */
static void expect_whole(const call *c, int threads, bool expected)
{
  attention_segment *segments = call_memory((size_t)c->a.sequences, sizeof *segments);
  alibi_context *team = call_context(threads);
  op_attention a = {.heads = 1, .kv_heads = 1, .head_size = 1, .segments = segments,
                    .segment_count = (size_t)c->a.sequences};
  for (size_t n = 0; n < a.segment_count; n++) {
    segments[n].rows = (size_t)(c->a.query_starts[n + 1] - c->a.query_starts[n]);
    segments[n].keys = (size_t)(c->a.key_starts[n + 1] - c->a.key_starts[n]);
  }
  if (attend_whole_segments(team, &a) != expected)
    fail_msg("%s: %d threads: whole sequences: %d was expected", call_name, threads, expected);
  alibi_context_free(team);
}

static void expect_formula(const call *c, const call_gradients *before)
{
  formula f = formula_of(&c->a, &c->g.dout, c->a.tolerance > 0 ? c->a.visited : NULL);
  call_expect_gradients(c, &f, before);
  formula_free(&f);
}

static const char *const variants[] = {"causal", "both sides", "window, grouped", "positions", "uneven", "deep"};

enum { CAUSAL, BOTH_SIDES, WINDOW_GROUPED, POSITIONS, UNEVEN, DEEP_ONES, VARIANTS };

static call_options short_sequences(alibi_bias_kind kind, int variant)
{
  static const double slopes[] = {8, 0.5, 0.01, 0};
  call_options o = call_defaults();
  o.bias = kind;
  o.factor = true;
  o.slopes = slopes;
  o.size = variant == WINDOW_GROUPED ? 33 : 16;
  o.kv_heads = variant == WINDOW_GROUPED ? 2 : variant == DEEP_ONES ? 1 : 0;
  o.seed = 20 + (uint64_t)variant; /* of seeds that three divides, offsets are near 0 */
  o.sequences = variant == DEEP_ONES ? DEEP : MANY;
  o.query_lengths = o.key_lengths = variant == DEEP_ONES ? deep : many;
  if (variant == UNEVEN) o.key_lengths = many_keys;
  o.both_sides = variant == BOTH_SIDES || variant == POSITIONS;
  o.positions = variant == POSITIONS;
  o.window = variant == WINDOW_GROUPED ? 40 : variant == POSITIONS ? 100 : 0;
  o.layout = variant == UNEVEN ? LAYOUT_GAPS : variant == BOTH_SIDES ? LAYOUT_FUSED : LAYOUT_PLAIN;
  o.tolerance = variant == CAUSAL || variant == DEEP_ONES ? ALIBI_TOLERANCE : 0;
  return o;
}

static void short_sequences_have_the_same_bits_and_the_gradients_of_the_formula(void **unused)
{
  (void)unused;
  static const int teams[] = {2, 3, 8};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int variant = 0; variant < VARIANTS; variant++) {
      if (kind == ALIBI_BIAS_ROWS && variant == DEEP_ONES) continue; /* the test's own matrix would be large */
      call_options o = short_sequences((alibi_bias_kind)kind, variant);
      snprintf(call_name, sizeof call_name, "bias %d, short sequences, %s", kind, variants[variant]);
      call_gradients before = call_gradients_copy(call_new(&o));
      call *one = run_on(1, &o);
      expect_whole(one, 1, true);
      expect_whole(one, 2, true);
      expect_whole(one, 3, variant != DEEP_ONES);
      expect_whole(one, 8, false);
      expect_formula(one, &before);
      for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
        snprintf(call_name, sizeof call_name, "bias %d, short sequences, %s, %d threads", kind, variants[variant],
                 teams[t]);
        expect_same_call(run_on(teams[t], &o), one);
      }
      call_free_all();
    }
}

/* ---- rows of no sequence ---- */

static op_heads read_of(const call_tensor *t)
{
  return (op_heads){t->data, (size_t)t->row_stride, (size_t)t->head_stride};
}

static op_heads_out written_to(const call_tensor *t)
{
  return (op_heads_out){t->data, (size_t)t->row_stride, (size_t)t->head_stride};
}

/* Both passes over the sequences but every third, inside the library: segments need not be neighbours. */
static void run_some(alibi_context *team, call *c, bool overwrites)
{
  attention_segment segments[MANY];
  op_attention a = {.heads = (size_t)c->a.heads,
                    .kv_heads = (size_t)c->a.heads,
                    .head_size = (size_t)c->a.head_size,
                    .segments = segments,
                    .q = read_of(&c->q),
                    .k = read_of(&c->k),
                    .v = read_of(&c->v),
                    .scale = 0.25f,
                    .bias = BIAS_NONE,
                    .out = written_to(&c->out),
                    .lse = c->a.lse,
                    .overwrites = overwrites,
                    .dout = read_of(&c->dout),
                    .dq = written_to(&c->dq),
                    .dk = written_to(&c->dk),
                    .dv = written_to(&c->dv)};
  for (size_t n = 0; n < MANY; n++) {
    if (n % 3 == 2) continue;
    size_t row = (size_t)c->a.query_starts[n], rows = (size_t)c->a.query_starts[n + 1] - row;
    segments[a.segment_count++] = (attention_segment){.row = row, .rows = rows, .key_row = row, .keys = rows};
  }
  assert_int_equal(attend_whole_segments(team, &a), team->threads == 1);
  attention_size size = {.segments = MANY, .queries = (size_t)c->a.queries, .keys = (size_t)c->a.keys,
                         .heads = a.heads, .kv_heads = a.kv_heads, .head_size = a.head_size, .backward = true};
  void *memory;
  call_ok("memory", memory_new(&memory, op_attention_bytes(team, &size), 1, "scratch", &call_error));
  op_attention_forward(team, &a, memory);
  op_attention_backward(team, &a, memory);
  memory_free(memory);
}

static void rows_of_no_sequence_stay(void **unused)
{
  (void)unused;
  call_options o = call_defaults();
  o.bias = ALIBI_BIAS_NONE;
  o.sequences = MANY;
  o.query_lengths = o.key_lengths = many;
  o.layout = LAYOUT_GAPS;
  for (int threads = 1; threads <= 8; threads += 7)
    for (int overwrites = 0; overwrites < 2; overwrites++) {
      snprintf(call_name, sizeof call_name, "%d threads, overwrites %d", threads, overwrites);
      alibi_context *team = call_context(threads);
      call *before = call_new(&o), *c = call_new(&o);
      const call_tensor *read[] = {&c->q, &c->k, &c->v, &c->dout}, *written[] = {&c->out, &c->dq, &c->dk, &c->dv},
                        *old[] = {&before->out, &before->dq, &before->dk, &before->dv};
      for (int n = 2; n < MANY; n += 3)
        for (int i = 0; i < 4; i++) call_spoil(read[i], c->a.query_starts[n], c->a.query_starts[n + 1]);
      if (overwrites)
        for (int n = 0; n < MANY; n++)
          for (int i = 1; i < 4 && n % 3 < 2; i++)
            call_spoil(written[i], c->a.query_starts[n], c->a.query_starts[n + 1]);
      run_some(team, c, overwrites);
      for (int n = 0; n < MANY; n++)
        for (int i = 0; i < 4; i++) {
          int64_t row = c->a.query_starts[n], rows = c->a.query_starts[n + 1] - row;
          if (n % 3 == 2) call_same_rows("a row of no sequence", written[i], row, old[i], row, rows);
          for (int64_t r = row; r < row + rows; r++)
            for (int h = 0; h < o.heads; h++)
              for (int channel = 0; channel < o.size; channel++)
                assert_true(isfinite(call_at(written[i], r, h)[channel]));
        }
      for (int i = 0; i < 4; i++) call_expect_gaps("between rows", written[i], old[i]->buffer);
      alibi_context_free(team);
      call_free_all();
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_same_bits_on_any_number_of_threads),
      cmocka_unit_test(decoding_has_the_same_bits_on_any_number_of_threads),
      cmocka_unit_test(short_sequences_have_the_same_bits_and_the_gradients_of_the_formula),
      cmocka_unit_test(rows_of_no_sequence_stay),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
