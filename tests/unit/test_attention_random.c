/* The attention operator as a stranger calls it: random legal calls are the formula, forward, backward and
 * decoded; random spoilt ones are refused or done, and never end the program (look with -DALIBI_SANITIZE=ON; more
 * rounds: -DROUNDS=100000). */
#include <limits.h>

#include "unit/attention_expect.h"

#ifndef ROUNDS
#define ROUNDS 60
#endif
#ifndef SEED
#define SEED 0
#endif

/* ---- chance ---- */

static uint64_t chance_seed, chance_count;

static int64_t chance(int64_t from, int64_t to) /* both may come */
{
  return from + (int64_t)(call_uniform(chance_seed, chance_count++) * (double)(to - from + 1));
}

static bool once_in(int64_t times)
{
  return chance(1, times) == 1;
}

static double chance_real(double from, double to)
{
  return from + call_uniform(chance_seed, chance_count++) * (to - from);
}

static void chance_start(const char *what, uint64_t round)
{
  chance_seed = round + SEED;
  chance_count = 0;
  snprintf(call_name, sizeof call_name, "%s, round %llu", what, (unsigned long long)chance_seed);
}

/* ---- legal calls ---- */

static double random_slopes[8];

static void chance_shape(call_options *o)
{
  static int64_t queries[5], keys[5];
  o->heads = (int)chance(1, 6);
  do o->kv_heads = (int)chance(0, o->heads);
  while (o->kv_heads && o->heads % o->kv_heads);
  o->size = (int)(once_in(8) ? chance(1, 256) : chance(1, 34));
  o->queries = chance(0, once_in(3) ? 150 : 12);
  o->keys = once_in(3) ? o->queries : chance(0, once_in(2) ? 600 : 130);
  if (!once_in(3)) return;
  o->sequences = chance(1, 5);
  o->query_lengths = queries;
  o->key_lengths = keys;
  for (int64_t n = 0; n < o->sequences; n++) {
    queries[n] = once_in(5) ? 0 : chance(0, 70);
    keys[n] = once_in(3) ? queries[n] : chance(0, once_in(4) ? 400 : 90);
  }
}

static call_options chance_options(void)
{
  static const double tolerances[] = {0, ALIBI_TOLERANCE, 1e-3, 0.3};
  call_options o = call_defaults();
  chance_shape(&o);
  o.seed = (uint64_t)chance(0, 1 << 30);
  o.both_sides = once_in(3);
  o.positions = once_in(4);
  o.shift = once_in(2) ? 0 : chance(-100000, 100000);
  o.query_shift = chance(0, 3) * chance(-300, 500);
  o.window = once_in(3) ? chance(1, once_in(2) ? 20 : 400) : 0;
  if (once_in(3)) o.offset = chance(-300, 900);
  if (once_in(4)) o.scale = chance_real(-1, 1);
  if (once_in(4)) o.cap = chance_real(0.1, 8);
  o.tolerance = tolerances[chance(0, 3)];
  o.spread = once_in(5) ? chance_real(0, 30) : chance_real(0, 4);
  o.bias = (alibi_bias_kind)chance(ALIBI_BIAS_NONE, ALIBI_BIAS_ROWS);
  o.factor = once_in(2);
  for (int h = 0; h < 8; h++) random_slopes[h] = chance_real(once_in(8) ? -0.05 : 0, once_in(2) ? 0.1 : 3);
  if (once_in(2)) o.slopes = random_slopes;
  if (once_in(3)) o.total_heads = o.heads + (int)chance(0, 9);
  o.head_offset = o.total_heads ? (int)chance(0, o.total_heads - o.heads) : 0;
  o.rule = (alibi_slope_rule)chance(0, 1);
  o.layout = (call_layout)chance(LAYOUT_PLAIN, LAYOUT_FUSED);
  return o;
}

static void decoded_is_the_same(const call *c, const call_options *o)
{
  alibi_cache *caches[5] = {NULL};
  call *cached = call_new(o);
  int64_t sequences = formula_sequences(&c->a);
  for (int64_t n = 0; n < sequences; n++) {
    int64_t from = formula_key_start(&c->a, n), to = formula_key_start(&c->a, n + 1), count;
    caches[n] = call_cache(c, to - from + 1);
    for (; from < to; from += count) {
      count = chance(1, to - from);
      call_cache_fill(caches[n], c, from, from + count, count);
    }
  }
  call_decode(cached, caches);
  call_same_outputs(cached, c);
  call_caches_free(sequences, caches);
}

static void legal_calls_are_the_formula(void **unused)
{
  (void)unused;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    chance_start("a legal call", round);
    call_options o = chance_options();
    call *c = call_new(&o);
    call_gradients before = call_gradients_copy(c);
    call_forward(c);
    formula f = formula_of(&c->a, &c->g.dout, c->a.visited);
    call_expect_outputs(c, &f, 0);
    call_expect_report(c, &f);
    call_backward(c);
    call_expect_gradients(c, &f, &before);
    formula_free(&f);
    bool cached = o.bias != ALIBI_BIAS_KEY && !o.positions;
    if (cached) decoded_is_the_same(c, &o);
    call_free_all();
  }
}

/* ---- spoilt calls ---- */

/* A number that no size can be, or one from just around what was there; never one that only the caller's memory
 * could tell to be wrong. */
static int64_t spoilt_size(int64_t was)
{
  static const int64_t impossible[] = {-1,            INT64_MIN,        INT64_MAX,
                                       INT64_MAX / 2, INT64_C(1) << 60, INT64_C(1) << 62};
  return once_in(3) || was > 1 << 20 || was < 0 ? impossible[chance(0, 5)] : chance(-1, was);
}

static int spoilt_int(int was)
{
  static const int impossible[] = {-1, INT_MIN, INT_MAX, INT_MAX / 2, 1 << 20};
  return once_in(3) || was > 1 << 20 || was < 0 ? impossible[chance(0, 4)] : (int)chance(-1, was);
}

static int64_t spoilt_number(void)
{
  static const int64_t far[] = {INT64_MIN,        INT64_MIN + 1,       INT64_MAX,
                                INT64_C(1) << 53, -(INT64_C(1) << 53), 1 << 30};
  return once_in(2) ? far[chance(0, 5)] : chance(-700, 700);
}

static double spoilt_real(void)
{
  static const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e300, 1e-300, 3e38, -1, 0, 1};
  return once_in(3) ? chance_real(-2, 2) : odd[chance(0, 9)];
}

/* Beyond all memory, or nearer to each other than they were. */
static void spoil_strides(int64_t *row, int64_t *head)
{
  static const int64_t impossible[] = {INT64_MAX, INT64_MAX / 4, INT64_MAX / 7, -1, -36, INT64_MIN};
  int64_t *which = once_in(2) ? row : head;
  *which = once_in(2) || *which < 1 || *which > 1 << 20 ? impossible[chance(0, 5)] : chance(0, *which);
}

/* Memory of the call that is large enough, and read by it; or none. */
static float *taken(const call *c, const call_tensor *by)
{
  return once_in(3) || c->options.layout == LAYOUT_FUSED ? NULL : by->buffer;
}

static void spoil_numbers(call *c)
{
  call_tensor *tensors[] = {&c->q, &c->k, &c->v, &c->dout};
  call_tensor *t = tensors[chance(0, 3)];
  static const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e-42f, 0, 1e20f};
  for (int64_t n = chance(1, 9); n > 0 && t->floats > 0; n--)
    t->buffer[chance(0, (int64_t)t->floats - 1)] = odd[chance(0, 7)];
}

static void spoil_array(int64_t *x, int64_t count)
{
  if (x && count > 0) x[chance(0, count - 1)] = spoilt_number();
}

static void spoil_bias(call *c)
{
  alibi_bias *b = &c->a.bias;
  float *added = call_floats(b->added);
  double *slopes = call_doubles(b->slopes), *offsets = call_doubles(b->offsets);
  double *own = call_doubles(b->query_offsets);
  switch (chance(0, 12)) {
  case 0: b->kind = (alibi_bias_kind)chance(-1, 6); break;
  case 1: b->total_heads = spoilt_int(9); break;
  case 2: b->head_offset = spoilt_int(9); break;
  case 3: b->max_bias = spoilt_real(); break;
  case 4: b->slope_rule = (alibi_slope_rule)chance(-1, 3); break;
  case 5: b->lowest = spoilt_number(); break;
  case 6: b->distances = spoilt_size(b->distances); break;
  case 7: b->added = NULL; break;
  case 8: b->offsets = NULL; break;
  case 9: b->rows = NULL; break;
  case 10: b->slopes = NULL; break;
  case 11: b->reserved[chance(0, 3)] = b; break;
  default:
    if (added && c->table) added[chance(0, (int64_t)c->table - 1)] = (float)spoilt_real();
    if (offsets && c->k.rows > 0) offsets[0] = spoilt_real();
    if (own && c->q.rows > 0) own[0] = spoilt_real();
    if (slopes) slopes[0] = spoilt_real();
  }
}

static void spoil(call *c)
{
  alibi_attention *a = &c->a;
  int64_t sequences = c->options.sequences;
  switch (chance(0, 25)) {
  case 0: a->size = (size_t)spoilt_size((int64_t)sizeof *a); break;
  case 1: a->queries = spoilt_size(a->queries); break;
  case 2: a->keys = spoilt_size(a->keys); break;
  case 3: a->sequences = spoilt_size(sequences); break;
  case 4: a->heads = spoilt_int(a->heads); break;
  case 5: a->kv_heads = spoilt_int(c->k.heads); if (a->kv_heads == 0) a->kv_heads = c->k.heads; break;
  case 6: a->head_size = spoilt_int(a->head_size); break;
  case 7: spoil_strides(&a->q.row_stride, &a->q.head_stride); break;
  case 8: spoil_strides(&a->k.row_stride, &a->k.head_stride); break;
  case 9: spoil_strides(&a->out.row_stride, &a->out.head_stride); break;
  case 10: spoil_strides(&c->g.dv.row_stride, &c->g.dv.head_stride); break;
  case 11: a->out.data = taken(c, &c->q); break;
  case 12: a->lse = taken(c, &c->q); break;
  case 13: a->visited = NULL; break;
  case 14: c->g.dk.data = taken(c, &c->k); break;
  case 15: spoil_array(call_integers(a->query_starts), sequences + 1); break;
  case 16: spoil_array(call_integers(a->key_starts), sequences + 1); break;
  case 17: spoil_array(call_integers(a->query_positions), c->q.rows); break;
  case 18: spoil_array(call_integers(a->key_positions), c->k.rows); break;
  case 19: a->query_offset = spoilt_number(); break;
  case 20: a->window = spoilt_number(); break;
  case 21: a->scale = spoilt_real(); break;
  case 22: a->soft_cap = spoilt_real(); break;
  case 23: a->tolerance = spoilt_real(); break;
  case 24: a->causal = (int)chance(-1, 2); break;
  default: spoil_numbers(c);
  }
}

static void expect_an_answer(const char *what, alibi_status found)
{
  if (found != ALIBI_OK && found != ALIBI_INVALID)
    fail_msg("%s: %s: expected ALIBI_OK or ALIBI_INVALID, found %d \"%s\"", call_name, what, (int)found,
             call_error.message);
  if (found == ALIBI_INVALID && (!strstr(call_error.message, "expected") || !strstr(call_error.message, "found")))
    fail_msg("%s: %s: expected a sentence, found \"%s\"", call_name, what, call_error.message);
}

static void spoilt_calls_are_refused_or_done(void **unused)
{
  (void)unused;
  size_t refused = 0;
  for (uint64_t round = 0; round < 10 * ROUNDS; round++) {
    chance_start("a spoilt call", round);
    call_options o = chance_options();
    if (o.layout == LAYOUT_PLAIN && o.kv_heads) o.layout = LAYOUT_GAPS; /* other heads would be other rows */
    call *c = call_new(&o);
    alibi_cache *caches[5] = {NULL};
    call_caches(c, 1, INT64_MAX, caches);
    alibi_cache *given[5];
    memcpy(given, caches, sizeof given);
    if (once_in(20)) given[chance(0, formula_sequences(&c->a) - 1)] = NULL;
    if (once_in(2)) call_forward(c);
    for (int64_t n = chance(1, 3); n > 0; n--) once_in(4) ? spoil_bias(c) : spoil(c);
    if (once_in(9)) c->a.report->size = (size_t)spoilt_size(60);
    if (once_in(9) && c->q.rows > 0 && c->a.visited)
      c->a.visited[chance(0, 1)] = (int32_t)spoilt_number();
    size_t bytes = 0;
    alibi_status found = alibi_attention_forward_scratch(context, &c->a, &bytes, &call_error);
    expect_an_answer("scratch", found);
    if (found == ALIBI_OK && bytes > (size_t)1 << 32) { /* legal, and not for this machine */
      call_caches_free(5, caches);
      call_free_all();
      continue;
    }
    bool too_little = once_in(5) && found == ALIBI_OK && bytes > 0;
    void *scratch = too_little ? call_memory(bytes - 1, 1) : NULL;
    found = alibi_attention_backward(context, &c->a, &c->g, NULL, 0, &call_error);
    expect_an_answer("backward", found);
    refused += found == ALIBI_INVALID;
    found = alibi_attention_forward(context, &c->a, scratch, scratch ? bytes - 1 : 0, &call_error);
    expect_an_answer("forward", found);
    assert_true(!too_little || found == ALIBI_INVALID);
    expect_an_answer("backward", alibi_attention_backward(context, &c->a, &c->g, NULL, 0, &call_error));
    expect_an_answer("scratch", alibi_attention_decode_scratch(context, &c->a, given, &bytes, &call_error));
    expect_an_answer("decode", alibi_attention_decode(context, &c->a, given, NULL, 0, &call_error));
    call_caches_free(5, caches);
    call_free_all();
  }
  assert_true(refused > 0 && refused < 10 * ROUNDS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(legal_calls_are_the_formula),
      cmocka_unit_test(spoilt_calls_are_refused_or_done),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
