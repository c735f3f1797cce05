/* The public attention operator, forward: every option and every pair of options against the formula, what a call
 * reports, what it must not read, and the promises about bits.  Its decoding: test_attention_decode.c; its
 * gradients: tests/gradient/test_attention_gradients.c; bad input: test_attention_input.c. */
#include "unit/attention_expect.h"

static int64_t pairs_skipped;

/* ---- the formula ---- */

/* What a row visited is exactly what it shows, and the bound holds. */
static void skipping_is_the_formula(const call_options *o)
{
  call *c = call_new(o);
  call_forward(c);
  formula f = formula_of(&c->a, NULL, c->a.visited);
  call_expect_outputs(c, &f, 0);
  call_expect_report(c, &f);
  pairs_skipped += f.pairs_visible - f.pairs_visited;
  formula_free(&f);
  if (o->seed % 4 != 0) return;
  f = formula_of(&c->a, NULL, NULL);
  call_expect("out with skipping", &c->out, NULL, &f.out, c->report.bound * call_largest(&c->v));
  formula_free(&f);
}

/* Dense, then with skipping. */
static void forward_is_the_formula(const call_options *o)
{
  call *dense = call_new(o);
  float *before = call_copy(dense->out.buffer, dense->out.floats, sizeof *before);
  call_forward(dense);
  formula all = formula_of(&dense->a, NULL, NULL);
  call_expect_outputs(dense, &all, 0);
  call_expect_gaps("out", &dense->out, before);
  call_expect_report(dense, &all);
  assert_true(dense->report.skipped == 0 && dense->report.bound == 0);
  assert_int_equal(dense->report.blocks_visited, dense->report.blocks_visible);
  formula_free(&all);
  if (o->seed % 4 == 0) {
    all = formula_of(&dense->a, NULL, dense->a.visited);
    assert_true(all.unvisited == 0);
    formula_free(&all);
  }
  if (!call_skips()) return;
  call_options longer = call_stretched(o, o->seed % 2 ? ALIBI_TOLERANCE : 1e-3);
  skipping_is_the_formula(&longer);
}

static void every_pair_of_options(void **unused)
{
  (void)unused;
  pairs_skipped = 0;
  call_for_every_pair(call_defaults(), forward_is_the_formula);
  assert_true(pairs_skipped > 0 || !call_skips());
}

static void three_and_more_options(void **unused)
{
  (void)unused;
  for (uint64_t seed = 0; seed < 40; seed++) {
    call_options o = call_defaults();
    bool taken[16] = {false};
    o.seed = 5000 + seed;
    strcpy(call_name, "options");
    for (uint64_t n = 0; n < 6; n++) {
      const call_option *option = &call_every_option[(size_t)(call_uniform(seed, n) * CALL_OPTIONS)];
      if (taken[option->group]) continue;
      taken[option->group] = true;
      option->set(&o);
      strncat(strcat(call_name, ", "), option->name, 32);
    }
    forward_is_the_formula(&o);
    call_free_all();
  }
}

static void every_head_size(void **unused)
{
  (void)unused;
  for (int size = 1; size <= 256; size++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "head size %d", size);
    o.heads = 1;
    o.queries = 9;
    o.keys = 66 + size % 3;
    o.size = size;
    o.layout = size % 2 ? LAYOUT_GAPS : LAYOUT_PLAIN;
    o.bias = size % 3 ? ALIBI_BIAS_SLOPE : ALIBI_BIAS_NONE;
    o.seed = (uint64_t)size;
    forward_is_the_formula(&o);
    call_free_all();
  }
}

static void every_option_on(const char *isa)
{
  call_for_every_option(isa, forward_is_the_formula);
}

static void every_instruction_set(void **unused)
{
  (void)unused;
  call_on_every_isa(every_option_on);
}

/* ---- rows without keys ---- */

static void expect_nothing_seen(const call *c, int64_t from, int64_t to)
{
  for (int64_t r = from; r < to; r++)
    for (int h = 0; h < c->a.heads; h++) {
      for (int channel = 0; channel < c->a.head_size; channel++)
        if (call_at(&c->out, r, h)[channel] != 0)
          fail_msg("%s: row %lld sees no key: expected 0, found %g", call_name, (long long)r,
                   (double)call_at(&c->out, r, h)[channel]);
      float lse = c->a.lse[r * c->a.heads + h];
      if (!isinf(lse) || lse > 0)
        fail_msg("%s: row %lld sees no key: expected -inf, found %g", call_name, (long long)r, (double)lse);
      const int32_t *visited = c->a.visited + (r * c->a.heads + h) * 2;
      assert_true(visited[0] >= visited[1]);
    }
}

static void rows_without_keys_are_zero(void **unused)
{
  (void)unused;
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int tolerance = 0; tolerance < 2; tolerance++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "bias %d, tolerance %d", kind, tolerance);
      o.bias = (alibi_bias_kind)kind;
      o.tolerance = tolerance ? ALIBI_TOLERANCE : 0;
      o.queries = 150;
      o.keys = 70;
      call *c = call_new(&o);
      for (int channel = 0; channel < o.size; channel++) call_at(&c->q, 79, 3)[channel] = NAN;
      call_forward(c);
      expect_nothing_seen(c, 0, 80);
      assert_true(isfinite(c->a.lse[80 * o.heads]));

      o.keys = 0;
      o.both_sides = true;
      c = call_new(&o);
      call_forward(c);
      expect_nothing_seen(c, 0, 150);
      assert_int_equal(c->report.pairs_visible, 0);
      assert_true(c->report.skipped == 0);

      o.queries = 0;
      o.keys = 70;
      c = call_new(&o);
      call_forward(c);
      assert_int_equal(c->report.blocks_visible, 0);

      static const int64_t none[] = {0, 0, 0};
      o.sequences = 3;
      o.query_lengths = o.key_lengths = none;
      c = call_new(&o);
      call_forward(c);

      static const int64_t some[] = {0, 30, 0};
      o.query_lengths = some;
      c = call_new(&o);
      call_forward(c);
      expect_nothing_seen(c, 0, 30);
      call_free_all();
    }
}

/* ---- what a query may not see ---- */

/* NaN and infinities in the cells of keys that no query sees. */
static int64_t spoil_unseen(call *c)
{
  alibi_attention *a = &c->a;
  int64_t spoiled = 0;
  for (int64_t n = 0; n < formula_sequences(a); n++)
    for (int64_t j = formula_key_start(a, n); j < formula_key_start(a, n + 1); j++) {
      bool seen = false;
      for (int64_t i = formula_query_start(a, n); i < formula_query_start(a, n + 1); i++)
        seen = seen || formula_sees(a, formula_distance(a, n, i, j));
      if (seen) continue;
      spoiled++;
      call_spoil(&c->k, j, j + 1);
      call_spoil(&c->v, j, j + 1);
    }
  return spoiled;
}

static void unseen_cells(const call_options *o, bool expect_some)
{
  call_options skipping = call_stretched(o, ALIBI_TOLERANCE);
  call *clean = call_new(o), *spoiled = call_new(o);
  int64_t count = spoil_unseen(spoiled);
  assert_true(!expect_some || count > 0);
  call_forward(clean);
  call_forward(spoiled);
  call_same_tensor("out", &spoiled->out, &clean->out);
  call_same_lse(spoiled, clean, clean->a.queries);
  clean = call_new(&skipping);
  spoiled = call_new(&skipping);
  spoil_unseen(spoiled);
  call_forward(clean);
  call_forward(spoiled);
  double largest = call_largest(&clean->out), bound = clean->report.bound + spoiled->report.bound + 1e-5;
  for (int64_t r = 0; r < clean->a.queries; r++)
    for (int h = 0; h < o->heads; h++) {
      for (int c = 0; c < o->size; c++)
        call_close("out", r, h, c, (double)call_at(&spoiled->out, r, h)[c], (double)call_at(&clean->out, r, h)[c],
                   bound * largest);
      double lse = (double)clean->a.lse[r * o->heads + h];
      call_close("lse", r, h, 0, (double)spoiled->a.lse[r * o->heads + h], lse, bound * (1 + fabs(lse)));
    }
}

static void unseen_cells_of_a_pair(const call_options *o)
{
  unseen_cells(o, false);
}

static void unseen_cells_never_reach_an_output(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), unseen_cells_of_a_pair);
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int variant = 0; variant < 5; variant++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "bias %d, variant %d", kind, variant);
      o.bias = (alibi_bias_kind)kind;
      o.slopes = call_steep;
      o.keys = 300;
      o.queries = 1 + 30 * variant;
      o.window = variant > 0 ? 20 : 0;
      o.both_sides = variant > 2;
      if (variant != 2 && variant != 3) o.offset = 100;
      unseen_cells(&o, true);
      call_free_all();
    }
}

/* A key that is not a number shows in the rows that see it and in no other bit. */
static void later_keys_leave_earlier_rows_alone(void **unused)
{
  (void)unused;
  for (int tolerance = 0; tolerance < 2; tolerance++)
    for (int64_t key = 0; key < 400; key += 57) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "key %lld, tolerance %d", (long long)key, tolerance);
      o.tolerance = tolerance ? ALIBI_TOLERANCE : 0;
      o.slopes = call_steep;
      o.queries = o.keys = 400;
      call *clean = call_new(&o), *spoiled = call_new(&o);
      for (int h = 0; h < o.heads; h++) call_at(&spoiled->k, key, h)[2] = call_at(&spoiled->v, key, h)[4] = NAN;
      call_forward(clean);
      call_forward(spoiled);
      call_same_rows("out", &spoiled->out, 0, &clean->out, 0, key);
      call_same_lse(spoiled, clean, key);
      assert_true(isnan(call_at(&spoiled->out, key, 0)[4]));
      call_free_all();
    }
}

static void another_document_is_never_read(void **unused)
{
  (void)unused;
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_ROWS; kind++)
    for (int n = 0; n < 4; n++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "bias %d, document %d", kind, n);
      o.sequences = 4;
      o.query_lengths = o.key_lengths = call_documents;
      o.bias = (alibi_bias_kind)kind;
      o.both_sides = n % 2;
      o.slopes = call_steep;
      o.tolerance = ALIBI_TOLERANCE;
      call *clean = call_new(&o);
      int64_t from = clean->a.key_starts[n], to = clean->a.key_starts[n + 1];
      call *spoiled = call_new_spoilt_around(&o, from, to);
      call_forward(clean);
      call_forward(spoiled);
      call_same_rows("out", &spoiled->out, from, &clean->out, from, to - from);
      call_same("lse", spoiled->a.lse + from * o.heads, clean->a.lse + from * o.heads,
                (size_t)((to - from) * o.heads) * sizeof(float));
      call_free_all();
    }
}

/* ---- the promises about bits ---- */

static call_options skipping_defaults(alibi_bias_kind kind)
{
  call_options o = call_defaults();
  o.bias = kind;
  o.slopes = call_steep;
  o.tolerance = ALIBI_TOLERANCE;
  o.queries = o.keys = 450;
  return o;
}

/* Rows from .. from + count - 1 of a call with its first `keys` keys. */
static void run_part(call *c, const call *whole, int64_t from, int64_t count, int64_t keys)
{
  alibi_attention *a = &c->a;
  *a = whole->a;
  a->queries = count;
  a->keys = keys;
  a->query_offset = from;
  a->q.data += from * c->q.row_stride;
  if (a->bias.query_offsets) a->bias.query_offsets += from * a->heads;
  a->out.data = c->out.data + from * c->out.row_stride;
  a->lse = NULL;
  a->visited = NULL;
  a->report = NULL;
  call_forward(c);
}

static void a_row_has_the_same_bits_in_any_company(void **unused)
{
  (void)unused;
  static const alibi_bias_kind kinds[] = {ALIBI_BIAS_NONE, ALIBI_BIAS_SLOPE, ALIBI_BIAS_DISTANCE, ALIBI_BIAS_KEY};
  static const int64_t chunks[] = {1, 7, 64, 100};
  for (size_t kind = 0; kind < 4; kind++)
    for (int variant = 0; variant < 3; variant++)
      for (size_t s = 0; s < 4; s++) {
        call_options o = skipping_defaults(kinds[kind]);
        snprintf(call_name, sizeof call_name, "bias %d, variant %d, chunks of %lld", (int)o.bias, variant,
                 (long long)chunks[s]);
        o.window = variant == 1 ? 77 : 0;
        o.both_sides = variant == 2;
        call *whole = call_new(&o), *c = call_new(&o);
        call_forward(whole);
        for (int64_t from = 0; from < o.queries; from += chunks[s] == 1 ? 13 : chunks[s]) {
          int64_t count = o.queries - from < chunks[s] ? o.queries - from : chunks[s];
          run_part(c, whole, from, count, o.both_sides ? o.keys : from + count);
          call_same_rows("out", &c->out, from, &whole->out, from, count);
        }
        call_free_all();
      }
}

static void packed_documents_have_the_bits_of_one_by_one(void **unused)
{
  (void)unused;
  static const int64_t lengths[] = {400, 1, 0, 330, 77};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_DISTANCE; kind++)
    for (int sides = 0; sides < 2; sides++) {
      call_options o = skipping_defaults((alibi_bias_kind)kind);
      snprintf(call_name, sizeof call_name, "bias %d, sides %d", kind, sides);
      o.sequences = 5;
      o.query_lengths = o.key_lengths = lengths;
      o.both_sides = sides;
      call *packed = call_new(&o), *one = call_new(&o);
      call_forward(packed);
      for (int n = 0; n < 5; n++) {
        alibi_attention *a = &one->a;
        int64_t from = packed->a.query_starts[n];
        *a = packed->a;
        a->report = NULL;
        a->sequences = 0;
        a->query_starts = a->key_starts = NULL;
        a->queries = a->keys = lengths[n];
        a->q.data += from * one->q.row_stride;
        a->k.data += from * one->k.row_stride;
        a->v.data += from * one->v.row_stride;
        a->out.data = call_at(&one->out, from, 0);
        a->lse = call_numbers((size_t)(lengths[n] * o.heads), 1, 1);
        a->visited = call_memory((size_t)(lengths[n] * o.heads * 2), sizeof(int32_t));
        call_forward(one);
        call_same_rows("out", &one->out, from, &packed->out, from, lengths[n]);
        call_same("lse", a->lse, packed->a.lse + from * o.heads, (size_t)(lengths[n] * o.heads) * sizeof(float));
        call_same("visited", a->visited, packed->a.visited + from * o.heads * 2,
                  (size_t)(lengths[n] * o.heads * 2) * sizeof(int32_t));
      }
      call_free_all();
    }
}

/* A call that makes its slopes makes those of alibi_slopes. */
static void slopes_may_be_given(void **unused)
{
  (void)unused;
  for (int rule = 0; rule < 2; rule++) {
    call_options o = call_defaults();
    double slopes[12];
    snprintf(call_name, sizeof call_name, "rule %d", rule);
    o.heads = 12;
    o.rule = (alibi_slope_rule)rule;
    call *made = call_new(&o);
    call_ok("slopes", alibi_slopes(12, 8, o.rule, slopes, &call_error));
    o.slopes = slopes;
    call *given = call_new(&o);
    call_forward(made);
    call_forward(given);
    call_same_outputs(given, made);
    call_free_all();
  }
}

static void a_slice_of_the_heads_has_the_bits_of_the_whole(void **unused)
{
  (void)unused;
  for (int heads = 8; heads <= 12; heads += 4)
    for (int rule = 0; rule < 2; rule++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "%d heads, rule %d", heads, rule);
      o.heads = heads;
      o.rule = (alibi_slope_rule)rule;
      o.tolerance = ALIBI_TOLERANCE;
      call *whole = call_new(&o), *part = call_new(&o);
      call_forward(whole);
      alibi_attention *a = &part->a;
      a->heads = 3;
      a->bias.total_heads = heads;
      a->bias.head_offset = 4;
      a->q = call_in(&part->q, false);
      a->k = call_in(&part->k, false);
      a->v = call_in(&part->v, false);
      a->out = call_out(&part->out, false);
      a->q.data += 4 * o.size;
      a->k.data += 4 * o.size;
      a->v.data += 4 * o.size;
      a->out.data += 4 * o.size;
      float *untouched = call_copy(part->out.buffer, part->out.floats, sizeof(float));
      call_forward(part);
      for (int64_t r = 0; r < a->queries; r++)
        for (int h = 0; h < heads; h++) {
          const float *found = call_at(&part->out, r, h);
          const float *expected =
              h >= 4 && h < 7 ? call_at(&whole->out, r, h) : untouched + (found - part->out.buffer);
          call_same("heads", found, expected, (size_t)o.size * sizeof(float));
        }
      call_free_all();
    }
}

/* Positions lie within this. */
#define FAR (INT64_C(1) << 53)

static void only_distances_of_positions_count(void **unused)
{
  (void)unused;
  static const int64_t shifts[] = {1, -1000, INT64_C(1) << 40, 2000 - FAR, FAR - 2000};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_DISTANCE; kind++) {
    call_options o = skipping_defaults((alibi_bias_kind)kind);
    o.positions = true;
    o.window = kind == ALIBI_BIAS_NONE ? 50 : 0;
    call *here = call_new(&o);
    call_forward(here);
    for (size_t s = 0; s < sizeof shifts / sizeof shifts[0]; s++) {
      snprintf(call_name, sizeof call_name, "bias %d, shift %lld", kind, (long long)shifts[s]);
      o.shift = shifts[s];
      call *there = call_new(&o);
      call_forward(there);
      call_same_tensor("out", &there->out, &here->out);
    }
    call_free_all();
  }
}

/* A few first tokens, then the text from far away: as where a window slides and its first keys stay. */
static void positions_may_jump_within_a_block(void **unused)
{
  (void)unused;
  static const int64_t jumps[] = {1000, 100000, INT64_C(1) << 30, INT64_C(1) << 40};
  static const double slopes[] = {0.3, 0.07, 0.011, 0.001};
  for (size_t n = 0; n < sizeof jumps / sizeof jumps[0]; n++)
    for (int sides = 0; sides < 2; sides++)
      for (int at = 4; at < 100; at += 30) {
        call_options o = call_defaults();
        snprintf(call_name, sizeof call_name, "a jump of %lld at key %d, sides %d", (long long)jumps[n], at,
                 sides);
        o.queries = 40;
        o.keys = 150;
        o.both_sides = sides;
        o.slopes = slopes;
        call *c = call_new(&o);
        int64_t *queries = call_memory(40, sizeof *queries), *keys = call_memory(150, sizeof *keys);
        for (int64_t j = 0; j < 150; j++) keys[j] = j + (j >= at ? jumps[n] : 0);
        for (int64_t r = 0; r < 40; r++) queries[r] = r < 2 ? r : jumps[n] + 108 + r;
        c->a.query_positions = queries;
        c->a.key_positions = keys;
        call_forward(c);
        formula f = formula_of(&c->a, NULL, NULL);
        call_expect_outputs(c, &f, 0);
        formula_free(&f);
        call_free_all();
      }
}

/* Every query and every key at the end of what positions may be; windows wider than any distance. */
static void extreme_positions_and_windows(void **unused)
{
  (void)unused;
  static const int64_t windows[] = {0, 70, INT64_C(1) << 40, FAR - 1};
  for (size_t w = 0; w < 4; w++)
    for (int sides = 0; sides < 2; sides++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "window %lld, sides %d", (long long)windows[w], sides);
      o.queries = o.keys = 70;
      o.both_sides = sides;
      call *plain = call_new(&o), *c = call_new(&o);
      call_forward(plain);
      c->a.window = windows[w];
      call_forward(c);
      call_same_tensor("out", &c->out, &plain->out);
      int64_t *top = call_memory(70, sizeof *top), *bottom = call_memory(70, sizeof *bottom);
      for (int64_t r = 0; r < 70; r++) {
        top[r] = FAR - 70 + r;
        bottom[r] = 1 - FAR + r;
      }
      c->a.query_positions = c->a.key_positions = top;
      call_forward(c);
      call_same_tensor("out at the top", &c->out, &plain->out);
      c->a.query_positions = c->a.key_positions = bottom;
      call_forward(c);
      call_same_tensor("out at the bottom", &c->out, &plain->out);
      call_free_all();
    }
}

static void what_is_not_wanted_may_be_null(void **unused)
{
  (void)unused;
  call_options o = skipping_defaults(ALIBI_BIAS_SLOPE);
  call *all = call_new(&o), *little = call_new(&o);
  strcpy(call_name, "no lse, visited, report");
  call_forward(all);
  little->a.lse = NULL;
  little->a.visited = NULL;
  little->a.report = NULL;
  call_forward(little);
  call_same_tensor("out", &little->out, &all->out);
  little->a.kv_heads = o.heads; /* 0 said the same */
  if (alibi_attention_forward(context, &little->a, NULL, 0, NULL) != ALIBI_OK) fail_msg("no error struct");
  call_same_tensor("out", &little->out, &all->out);
  call_free_all();
}

static void a_finite_bias_is_a_bias(void **unused)
{
  (void)unused;
  call_options o = call_defaults();
  strcpy(call_name, "a bias of -1e30");
  o.bias = ALIBI_BIAS_KEY;
  call *c = call_new(&o);
  double *offsets = call_memory((size_t)(o.keys * o.heads), sizeof *offsets);
  for (int64_t e = 0; e < o.keys * o.heads; e++) offsets[e] = -1e30;
  c->a.bias.offsets = offsets;
  call_forward(c);
  for (int64_t r = 0; r < o.queries; r++)
    assert_true(c->a.lse[r * o.heads] < -9e29f && isfinite(c->a.lse[r * o.heads]));
  call_same("the first row", call_at(&c->out, 0, 1), call_at(&c->v, 0, 1), (size_t)o.size * sizeof(float));
  call_free_all();
}

/* ---- reports ---- */

static call *long_text(double tolerance, alibi_bias_kind kind, bool both_sides)
{
  static const double slopes[] = {1, 0.25, 0.05, 0};
  call_options o = call_defaults();
  o.queries = 20;
  o.keys = 3000;
  o.offset = both_sides ? 1500 : 2980;
  o.bias = kind;
  o.both_sides = both_sides;
  o.slopes = slopes;
  o.size = 16;
  o.tolerance = tolerance;
  call *c = call_new(&o);
  call_forward(c);
  return c;
}

static void a_long_text_is_not_visited_whole(void **unused)
{
  (void)unused;
  if (!call_skips()) return;
  for (int sides = 0; sides < 2; sides++)
    for (int kind = ALIBI_BIAS_SLOPE; kind <= ALIBI_BIAS_DISTANCE; kind++) {
      snprintf(call_name, sizeof call_name, "a long text, bias %d, sides %d", kind, sides);
      call *dense = long_text(0, (alibi_bias_kind)kind, sides),
           *c = long_text(ALIBI_TOLERANCE, (alibi_bias_kind)kind, sides);
      const alibi_attention_report *r = &c->report;
      assert_int_equal(dense->report.pairs_visited, dense->report.pairs_visible);
      assert_int_equal(dense->report.blocks_visited, dense->report.blocks_visible);
      assert_true(dense->report.bound == 0);
      assert_int_equal(r->pairs_visible, dense->report.pairs_visible);
      assert_int_equal(r->blocks_visible, dense->report.blocks_visible);
      assert_true(r->pairs_visited < r->pairs_visible * 3 / 4 && r->blocks_visited < r->blocks_visible * 3 / 4);
      assert_true(r->skipped > 0 && r->skipped <= ALIBI_TOLERANCE * (1 + 1e-6) && r->bound == 2 * r->skipped);
      formula visited = formula_of(&c->a, NULL, c->a.visited), all = formula_of(&dense->a, NULL, NULL);
      call_expect_report(c, &visited);
      call_expect("out", &dense->out, NULL, &all.out, 0);
      call_expect("out with skipping", &c->out, NULL, &all.out, r->bound * call_largest(&c->v));
      formula_free(&visited);
      formula_free(&all);
      if (kind == ALIBI_BIAS_SLOPE) /* a slope of 0 proves nothing */
        for (int64_t row = 0; row < 20; row++) assert_int_equal(c->a.visited[(row * 4 + 3) * 2], 0);
      call_free_all();
    }
}

/* The window of a steep head does not grow with the text. */
static void twice_the_text_is_no_more_work(void **unused)
{
  (void)unused;
  static const double slopes[] = {2, 0.5};
  int64_t visited[2];
  if (!call_skips()) return;
  for (int n = 0; n < 2; n++) {
    call_options o = call_defaults();
    o.heads = 2;
    o.slopes = slopes;
    o.tolerance = ALIBI_TOLERANCE;
    o.queries = 64;
    o.keys = n ? 4096 : 2048;
    call *c = call_new(&o);
    call_forward(c);
    visited[n] = c->report.pairs_visited;
    call_free_all();
  }
  assert_true(visited[1] <= visited[0] * 5 / 4);
}

static void blocks_are_counted_as_drawn(void **unused)
{
  (void)unused;
  static const struct {
    int64_t queries, keys, window, blocks;
    bool both_sides;
  } cases[] = {{128, 128, 0, 3, false}, {128, 128, 0, 4, true},  {65, 65, 0, 3, false},   {1, 1, 0, 1, false},
               {64, 192, 0, 3, false},  {256, 256, 1, 4, false}, {256, 256, 65, 7, false}};
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    call_options o = call_defaults();
    snprintf(call_name, sizeof call_name, "blocks %zu", n);
    o.queries = cases[n].queries;
    o.keys = cases[n].keys;
    o.window = cases[n].window;
    o.both_sides = cases[n].both_sides;
    call *c = call_new(&o);
    call_forward(c);
    call_forward(c); /* a report is of one call */
    if (c->report.blocks_visible != cases[n].blocks * o.heads)
      fail_msg("%s: expected %lld blocks, found %lld", call_name, (long long)(cases[n].blocks * o.heads),
               (long long)c->report.blocks_visible);
    assert_int_equal(c->report.blocks_visited, c->report.blocks_visible);
    call_free_all();
  }
}

/* ---- scratch ---- */

static void scratch_of_the_caller(const call_options *o)
{
  call_options longer = call_stretched(o, ALIBI_TOLERANCE);
  call *own = call_new(&longer), *given = call_new(&longer);
  size_t bytes = 0;
  call_forward(own);
  assert_int_equal(alibi_attention_forward_scratch(context, &given->a, &bytes, &call_error), ALIBI_OK);
  void *scratch = call_memory(bytes, 1);
  memset(scratch, 0xff, bytes); /* a NaN in every place */
  if (bytes > 0) {
    float *before = call_copy(given->out.buffer, given->out.floats, sizeof *before);
    assert_int_equal(alibi_attention_forward(context, &given->a, scratch, bytes - 1, &call_error), ALIBI_INVALID);
    assert_non_null(strstr(call_error.message, "scratch"));
    call_same("out", given->out.buffer, before, given->out.floats * sizeof *before);
  }
  call_ok("forward", alibi_attention_forward(context, &given->a, scratch, bytes, &call_error));
  call_same_tensor("out", &given->out, &own->out);
  call_same_lse(given, own, own->a.queries);
}

static void scratch(void **unused)
{
  (void)unused;
  call_for_every_pair(call_defaults(), scratch_of_the_caller);
}

static void scratch_grows_by_four_floats_a_row_and_head(void **unused)
{
  (void)unused;
  size_t bytes[2];
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_KEY; kind++) {
    for (int n = 0; n < 2; n++) {
      call_options o = call_defaults();
      snprintf(call_name, sizeof call_name, "bias %d", kind);
      o.heads = 2;
      o.queries = o.keys = n ? 3072 : 1024;
      o.bias = (alibi_bias_kind)kind;
      o.tolerance = ALIBI_TOLERANCE;
      call *c = call_new(&o);
      assert_int_equal(alibi_attention_forward_scratch(context, &c->a, &bytes[n], &call_error), ALIBI_OK);
      call_free_all();
    }
    size_t most = 4 * sizeof(float) * 2 * 2048;
    if (bytes[1] > bytes[0] + most)
      fail_msg("%s: 2048 rows of 2 heads more: expected at most %zu bytes more, found %zu", call_name, most,
               bytes[1] - bytes[0]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_pair_of_options),
      cmocka_unit_test(three_and_more_options),
      cmocka_unit_test(every_head_size),
      cmocka_unit_test(every_instruction_set),
      cmocka_unit_test(rows_without_keys_are_zero),
      cmocka_unit_test(unseen_cells_never_reach_an_output),
      cmocka_unit_test(later_keys_leave_earlier_rows_alone),
      cmocka_unit_test(another_document_is_never_read),
      cmocka_unit_test(a_row_has_the_same_bits_in_any_company),
      cmocka_unit_test(packed_documents_have_the_bits_of_one_by_one),
      cmocka_unit_test(slopes_may_be_given),
      cmocka_unit_test(a_slice_of_the_heads_has_the_bits_of_the_whole),
      cmocka_unit_test(only_distances_of_positions_count),
      cmocka_unit_test(positions_may_jump_within_a_block),
      cmocka_unit_test(extreme_positions_and_windows),
      cmocka_unit_test(what_is_not_wanted_may_be_null),
      cmocka_unit_test(a_finite_bias_is_a_bias),
      cmocka_unit_test(a_long_text_is_not_visited_whole),
      cmocka_unit_test(twice_the_text_is_no_more_work),
      cmocka_unit_test(blocks_are_counted_as_drawn),
      cmocka_unit_test(scratch),
      cmocka_unit_test(scratch_grows_by_four_floats_a_row_and_head),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
