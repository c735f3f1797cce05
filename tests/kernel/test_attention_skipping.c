/* Attention that stops where the rest is provably invisible: what is left out weighs no more than it says, the
 * rest is untouched, and each row decides for itself. */
#include "attention_case.h"

enum { B = ATTENTION_BLOCK };

/* ---- the proof, as an operation fills it ---- */

static float rounded_up(double x)
{
  return nextafterf((float)x, INFINITY);
}

static float bias_between(const attention_head *h, int64_t position, size_t j)
{
  int64_t there = h->key_positions ? h->key_positions[j] : (int64_t)j;
  return h->bias == BIAS_SLOPE ? -h->slope * fabsf((float)(position - there)) : 0;
}

static double offset_between(const attention_head *h, size_t from, size_t j)
{
  return h->offsets[j * h->offset_stride] - h->offsets[from * h->offset_stride];
}

/* The key of a block that a table is counted from. */
static size_t end_key(const attention_head *h, size_t block, bool last)
{
  size_t j = last ? (block + 1) * B - 1 : block * B;
  return j < h->keys ? j : h->keys - 1;
}

static int64_t end_of_block(const attention_head *h, size_t block, bool last)
{
  size_t j = end_key(h, block, last);
  return h->key_positions ? h->key_positions[j] : (int64_t)j;
}

/* The tables of all keys in blocks 0 .. b, or b .. last; biases count from the end of b that faces the queries. */
static float *proof_tables(const kernel_table *t, const attention_head *h, bool before)
{
  size_t d = h->head_size, blocks = (h->keys + B - 1) / B;
  float *tables = guarded_floats(blocks * PROOF_TABLE), *turned = guarded_floats(B * d),
        *bias = filled_floats(B, NAN);
  for (size_t i = 0; i < blocks; i++) {
    size_t b = before ? i : blocks - 1 - i, rows = h->keys - b * B < B ? h->keys - b * B : B;
    int64_t here = end_of_block(h, b, before);
    for (size_t j = 0; j < rows; j++)
      bias[j] = h->bias == BIAS_KEY ? rounded_up(offset_between(h, end_key(h, b, before), b * B + j))
                                    : bias_between(h, here, b * B + j);
    t->attention_turn(rows, d, h->k + b * B * h->k_stride, h->k_stride, turned);
    t->proof_sums(rows, d, turned, h->proof.clusters, bias, tables + b * PROOF_TABLE);
    if (i == 0) continue;
    size_t other = before ? b - 1 : b + 1;
    float shift = h->bias == BIAS_SLOPE ? -h->slope * fabsf((float)(here - end_of_block(h, other, before))) : 0;
    if (h->bias == BIAS_KEY)
      shift = rounded_up(offset_between(h, end_key(h, b, before), end_key(h, other, before)));
    t->proof_join(tables + other * PROOF_TABLE, shift, tables + b * PROOF_TABLE);
  }
  return tables;
}

static double *proof_ends(const attention_head *h, bool before)
{
  size_t blocks = (h->keys + B - 1) / B;
  double *ends = guarded_doubles(blocks);
  for (size_t b = 0; b < blocks; b++) ends[b] = h->offsets[end_key(h, b, before) * h->offset_stride];
  return ends;
}

static void fill_tables(const kernel_table *t, attention_head *h)
{
  float *clusters = guarded_floats(PROOF_CLUSTERS * h->head_size), *turned = guarded_floats(B * h->head_size);
  t->attention_turn(h->keys < B ? h->keys : B, h->head_size, h->k, h->k_stride, turned);
  t->proof_clusters(h->head_size, turned, clusters);
  h->proof.clusters = clusters;
  h->proof.tables_before = proof_tables(t, h, true);
  if (h->both_sides) h->proof.tables_after = proof_tables(t, h, false);
  if (h->bias != BIAS_KEY) return;
  h->proof.ends_before = proof_ends(h, true);
  if (h->both_sides) h->proof.ends_after = proof_ends(h, false);
}

/* [t / B]: log of the sum of exp(bias) over distances 64 (t / B) and beyond, on one side: sign 1 or -1. */
static float *distance_tails(const attention_head *h, int64_t last, int64_t sign)
{
  float *tails = guarded_floats(last < 0 ? 0 : (size_t)last / B + 1);
  int64_t low, high;
  distances_seen(h, &low, &high);
  for (int64_t b = 0; b <= last / B && last >= 0; b++) {
    double sum = 0;
    for (int64_t distance = low; distance <= high; distance++)
      if (sign * distance >= B * b) sum += exp((double)h->table[-distance]);
    tails[b] = rounded_up(log(sum));
  }
  return tails;
}

static void fill_proof(const kernel_table *t, attention_head *h, double tolerance)
{
  int64_t low, high;
  h->proof = (attention_proof){.log_tolerance = (float)log(tolerance), .largest_factor = h->factors ? 0 : 1};
  fill_tables(t, h);
  if (h->bias != BIAS_DISTANCE || !distances_seen(h, &low, &high)) return;
  h->proof.tails_before = distance_tails(h, high, 1);
  if (h->both_sides) h->proof.tails_after = distance_tails(h, -low, -1);
  for (int64_t distance = low; h->factors && distance <= high; distance++)
    h->proof.largest_factor = fmaxf(h->proof.largest_factor, fabsf(h->factors[-distance]));
}

/* A bias that falls by a quarter a key, added to the one that make_head made. */
static void let_bias_fall(attention_head *h)
{
  int64_t low, high;
  h->slope = 0.25f;
  if (h->bias == BIAS_DISTANCE && distances_seen(h, &low, &high)) {
    float *table = distance_table(h, NAN);
    for (int64_t distance = low; distance <= high; distance++) table[-distance] -= 0.25f * fabsf((float)distance);
    h->table = table;
  }
  if (h->bias == BIAS_KEY) { /* towards the first keys; where both sides are seen, from the middle to both ends */
    double *offsets = guarded_doubles(span(h->keys, 1, h->offset_stride)), sum = 0;
    memcpy(offsets, h->offsets, span(h->keys, 1, h->offset_stride) * sizeof *offsets);
    for (size_t j = 0; j < h->keys; j++) { /* by 0 to 1/2 from key to key, as gates of a text do */
      sum += (h->both_sides && j >= h->keys / 2 ? -1 : 1) * random_unit() / 2;
      offsets[j * h->offset_stride] += sum;
    }
    h->offsets = offsets;
  }
}

/* Queries of many lengths, so that the rows of a tile stop at different blocks. */
static void scatter_queries(attention_head *h)
{
  float *q = copied_floats(span(h->queries, h->head_size, h->q_stride), h->q);
  for (size_t r = 0; r < h->queries; r++)
    for (size_t c = 0; c < h->head_size; c++) q[r * h->q_stride + c] *= (float)(r * 7 % 16) / 16;
  h->q = q;
}

static attention_head falling_head(const kernel_table *t, const attention_options *o, double tolerance)
{
  attention_head h = make_head(o);
  let_bias_fall(&h);
  scatter_queries(&h);
  fill_proof(t, &h, tolerance);
  return h;
}

/* ---- what a run has to hold ---- */

/* The weight, in double, of what a row sees and does not visit, as a share of all it sees; the largest of all
 * rows. */
static double largest_unvisited(const attention_head *h)
{
  double *weights = malloc((h->keys + 1) * sizeof *weights), *slack = malloc((h->keys + 1) * sizeof *slack);
  double largest = 0;
  for (size_t r = 0; r < h->queries; r++) {
    size_t count;
    double unvisited = 0;
    formula_row(h, NULL, r, weights, slack, &count);
    for (size_t j = 0; j < h->keys; j++)
      if (!meets(h, h->visited, r, j)) unvisited += weights[j];
    largest = fmax(largest, unvisited);
  }
  free(weights);
  free(slack);
  return largest;
}

static void expect_unvisited_below(const char *isa, const attention_head *h, double share)
{
  double unvisited = largest_unvisited(h);
  if (!(unvisited <= share)) fail_msg("unvisited, %s: a row leaves out %.9g, allowed %.9g", isa, unvisited, share);
}

static double largest_value(const attention_head *h)
{
  double largest = 0;
  for (size_t j = 0; j < h->keys; j++)
    for (size_t c = 0; c < h->head_size; c++) { /* not fmax, on which gcc 12 for ARM breaks */
      double size = fabs((double)h->v[j * h->v_stride + c]);
      if (size > largest) largest = size;
    }
  return largest;
}

/* Rounding of both runs: what expect_formula allows is a few times this. */
static void expect_near_dense(const kernel_table *t, const attention_head *h, double skipped)
{
  attention_head dense = part_of(h, 0, h->queries);
  dense.proof.log_tolerance = -INFINITY;
  dense.tally = NULL;
  run_forward(t, &dense);
  expect_formula(t, &dense, NULL);
  double bound = (2 * skipped + 1e-4) * largest_value(h);
  for (size_t r = 0; r < h->queries; r++)
    for (size_t c = 0; c < h->head_size; c++)
      expect_near("out beside that without skipping", t->name, r * h->head_size + c, h->out[r * h->out_stride + c],
                  dense.out[r * h->out_stride + c], bound);
}

/* Runs it; returns the share of pairs visited. */
static double check_skipping(const kernel_table *t, attention_head *h)
{
  attention_tally tally = {0};
  h->tally = &tally;
  run_forward(t, h);
  h->tally = NULL;
  expect_tally(t->name, h, &tally);
  if (tally.pairs_visited == tally.pairs_visible) assert_true(tally.skipped == 0);
  double tolerance = exp((double)h->proof.log_tolerance) * (1 + 1e-5);
  if (!(tally.skipped >= 0 && tally.skipped <= tolerance))
    fail_msg("skipped, %s: %.9g, tolerance %.9g", t->name, tally.skipped, tolerance);
  expect_unvisited_below(t->name, h, tally.skipped + 1e-15);
  expect_formula(t, h, h->visited);
  expect_near_dense(t, h, tally.skipped);
  return tally.pairs_visible ? (double)tally.pairs_visited / (double)tally.pairs_visible : 1;
}

/* ---- cases ---- */

static const double tolerances[] = {0x1p-24, 1e-3, 0.3};

/* What falls. */
static const bias_kind falling[] = {BIAS_SLOPE, BIAS_DISTANCE, BIAS_DISTANCE, BIAS_KEY};

static void nothing_visible_is_left_out(void **unused)
{
  (void)unused;
  static const ptrdiff_t shapes[][3] = {
      {70, 500, 430}, {330, 330, 0}, {1, 700, 699}, {65, 400, 300}, {100, 300, -40}};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t mask = 0; mask < 32; mask++)
      for (size_t k = 0; k < 4; k++) {
        const ptrdiff_t *shape = shapes[(mask + k) % 5];
        attention_options o = {.queries = (size_t)shape[0],
                               .keys = (size_t)shape[1],
                               .first = shape[2],
                               .head_size = 9 + 8 * k,
                               .bias = falling[k],
                               .factors = k == 2,
                               .both_sides = mask & 1,
                               .window = mask & 2 ? 130 : 0,
                               .positions = mask & 4,
                               .cap = mask & 8 ? 2 : 0,
                               .blocks = mask & 16,
                               .gap = mask % 3,
                               .spread = 3};
        attention_head h = falling_head(t, &o, tolerances[(mask / 2 + k) % 3]);
        check_skipping(t, &h);
        guarded_free();
      }
}

/* Far keys in plenty: most of them are skipped, on the sides that there are. */
static void far_keys_are_skipped(void **unused)
{
  (void)unused;
  FOR_EACH_EDGE
    FOR_EACH_TABLE(t)
      for (size_t k = 0; k < 4; k++)
        for (int both_sides = 0; both_sides < 2; both_sides++) {
          attention_options o = {.queries = 90, .keys = 1500, .first = both_sides ? 700 : 1410, .head_size = 16,
                                 .bias = falling[k], .factors = k == 2, .both_sides = both_sides, .blocks = k % 2,
                                 .spread = 3};
          attention_head h = falling_head(t, &o, 0x1p-24);
          double share = check_skipping(t, &h);
          if (!(share < 0.4)) fail_msg("%s: bias %d, %d: visits %.3f", t->name, (int)h.bias, both_sides, share);
          guarded_free();
        }
}

/* A cap bounds the scores, however large the products. */
static void cap_bounds_the_scores(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t) {
    attention_options o = {.queries = 3, .keys = 1000, .first = 997, .head_size = 16, .bias = BIAS_SLOPE, .cap = 2,
                           .spread = 5000};
    attention_head h = make_head(&o);
    h.slope = 0.5f;
    fill_proof(t, &h, 0x1p-24);
    run_forward(t, &h);
    expect_unvisited_below(t->name, &h, 0x1p-24 * (1 + 1e-5));
    for (size_t r = 0; r < 3; r++) assert_true(h.visited[2 * r] >= 10);
    guarded_free();
  }
}

/* The proof is about scores, not about luck: keys that all point away from the query, but one far away that does
 * not. */
static void a_distant_key_is_found(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 4; k++)
      for (int both_sides = 0; both_sides < 2; both_sides++) {
        attention_options o = {.queries = 70, .keys = 600, .first = both_sides ? 200 : 530, .head_size = 16,
                               .bias = falling[k], .both_sides = both_sides, .spread = 1};
        attention_head h = make_head(&o);
        let_bias_fall(&h);
        float *key = copied_floats(span(600, 16, h.k_stride), h.k),
              *q = copied_floats(span(70, 16, h.q_stride), h.q);
        size_t far = both_sides ? 590 : 3;
        for (size_t c = 0; c < 16; c++) {
          for (size_t r = 0; r < 70; r++) q[r * h.q_stride + c] = 0.5f + 0.1f * q[r * h.q_stride + c];
          key[far * h.k_stride + c] = 150;
        }
        h.k = key;
        h.q = q;
        fill_proof(t, &h, 0x1p-24);
        check_skipping(t, &h);
        for (size_t r = 0; r < 70; r++) assert_true(block_visited(&h, h.visited, r, far / B));
        guarded_free();
      }
}

/* One query, with the wind in its face, and |scale q| = reach: the first keys, which the centres are made of,
 * score `high`; others beyond 64 are all alike and score a little more; those nearer score -high.  So the bound
 * has no room but its slack: every term of it counts. */
static attention_head adverse_head(const attention_options *o, float high, double reach)
{
  attention_head h = make_head(o);
  float *key = guarded_floats(span(h.keys, h.head_size, h.k_stride)), sign = o->factors ? -1 : 1;
  double square = 0;
  for (size_t c = 0; c < h.head_size; c++) square += (double)h.q[c] * h.q[c];
  h.scale = (float)(reach / sqrt(square));
  for (size_t j = 0; j < h.keys; j++) {
    float score = sign * (llabs(distance_of(&h, 0, j)) < B ? -high : j < B ? high : high + 4);
    for (size_t c = 0; c < h.head_size; c++)
      key[j * h.k_stride + c] = h.q[c] * (float)((double)score / (square * (double)h.scale));
  }
  h.k = key;
  h.slope = 0.05f;
  if (h.bias == BIAS_DISTANCE) {
    int64_t low, high_distance;
    float *table = distance_table(&h, 0);
    distances_seen(&h, &low, &high_distance);
    for (int64_t distance = low; distance <= high_distance; distance++)
      table[-distance] = -h.slope * fabsf((float)distance);
    h.table = table;
    if (h.factors) h.factors = distance_table(&h, -1);
  }
  if (h.bias == BIAS_KEY) {
    double *offsets = guarded_doubles(h.keys), *own = guarded_doubles(1);
    *own = -7000.25;
    for (size_t j = 0; j < h.keys; j++) offsets[j] = -*own - (double)h.slope * fabs((double)distance_of(&h, 0, j));
    h.offsets = offsets;
    h.query_offsets = own;
  }
  return h;
}

static void the_proof_is_tight(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 4; k++)
      for (size_t mask = 0; mask < 8; mask++)
        for (size_t d = 1; d <= 256; d = 2 * d + 1) {
          attention_options o = {.queries = 1, .keys = 20 * B, .first = mask & 1 ? 10 * B - 1 : 20 * B - 1,
                                 .head_size = d, .bias = falling[k], .factors = k == 2, .both_sides = mask & 1,
                                 .cap = mask & 2 ? 2 : 0, .spread = 1};
          attention_head h = adverse_head(&o, mask & 4 ? 1000 : mask & 2 ? 20 : 4, d % 3 ? 60 : 0.8);
          fill_proof(t, &h, 1e-3);
          attention_tally tally = {0};
          h.tally = &tally;
          run_forward(t, &h);
          double weight = largest_unvisited(&h), room = mask & 1 ? 2 : 1.1; /* the second side weighs, too */
          if (!(weight > 0 && weight <= tally.skipped && tally.skipped <= weight * room))
            fail_msg("%s: bias %zu, options %zu, head size %zu: leaves out %.9g, says %.9g", t->name, k, mask, d,
                     weight, tally.skipped);
          guarded_free();
        }
}

static void tolerance_0_never_stops(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 4; k++) {
      attention_options o = {
          .queries = 90, .keys = 900, .first = 810, .head_size = 16, .bias = falling[k], .spread = 1};
      attention_head h = falling_head(t, &o, 0);
      assert_true(check_skipping(t, &h) == 1);
      guarded_free();
    }
}

/* Bits, and how far a row went, are the row's own. */
static void rows_keep_their_bits_in_chunks(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t mask = 0; mask < 16; mask++)
      for (size_t k = 0; k < 4; k++) {
        attention_options o = {.queries = mask < 4 ? 330 : 150, .keys = 450,
                               .first = mask & 1 ? 67 : mask < 4 ? 120 : 300, .head_size = 12 + 5 * k,
                               .bias = falling[k], .factors = k == 2, .both_sides = mask & 1,
                               .window = mask & 2 ? 170 : 0, .positions = mask & 4, .cap = mask & 8 ? 2 : 0,
                               .spread = 3};
        attention_head h = falling_head(t, &o, tolerances[(mask + k) % 2]);
        check_chunks(t, &h);
        attention_head blocks = part_of(&h, 0, h.queries);
        cut_into_blocks(&blocks, NAN);
        run_forward(t, &blocks);
        expect_part(t->name, &h, 0, &blocks);
        check_chunks(t, &blocks);
        guarded_free();
      }
}

/* Blocks before the first that is there: rows that the proof stops in time never know; the others are counted. */
static void rows_that_miss_dropped_blocks(void **unused)
{
  (void)unused;
  enum { BLOCKS = 20 };
  static const bias_kind kinds[] = {BIAS_SLOPE, BIAS_DISTANCE, BIAS_DISTANCE, BIAS_KEY, BIAS_NONE};
  size_t complete = 0, mixed = 0;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t mask = 0; mask < 8; mask++)
      for (size_t k = 0; k < 5; k++) {
        size_t queries = mask & 1 ? 1 : 140, keys = BLOCKS * B - 7;
        attention_options o = {.queries = queries, .keys = keys, .first = (ptrdiff_t)(keys - queries),
                               .head_size = 19, .bias = kinds[k], .factors = k == 2,
                               .window = mask & 2 ? 300 : 0, .positions = mask & 4, .blocks = true,
                               .gap = mask % 3, .spread = 3};
        attention_head h = k < 4 ? falling_head(t, &o, 0x1p-24) : make_head(&o);
        run_forward(t, &h);
        for (size_t first = 0; first < (keys - queries) / B; first++) {
          size_t before = guard_count;
          const float *key[BLOCKS] = {NULL}, *value[BLOCKS] = {NULL};
          attention_tally tally = {.missed = 3};
          attention_head p = part_of(&h, 0, queries);
          int64_t missed = 0;
          for (size_t b = first; b < BLOCKS; b++) {
            key[b] = h.key_blocks[b];
            value[b] = h.value_blocks[b];
          }
          p.key_blocks = key;
          p.value_blocks = value;
          p.first_block = first;
          p.tally = &tally;
          run_forward(t, &p);
          for (size_t r = 0; r < queries; r++) {
            const int32_t *visited = h.visited + 2 * r * h.row_stride;
            if ((size_t)visited[0] < first) {
              missed++;
              continue;
            }
            expect_bits("out without dropped blocks", t->name, 19, p.out + r * p.out_stride,
                        h.out + r * h.out_stride);
            expect_bits("lse without dropped blocks", t->name, 1, p.lse + r * p.row_stride,
                        h.lse + r * h.row_stride);
            assert_memory_equal(p.visited + 2 * r * p.row_stride, visited, 2 * sizeof *visited);
          }
          if (tally.missed != 3 + missed)
            fail_msg("%s: bias %zu, options %zu, first block %zu: expected %lld rows that miss it, found %lld",
                     t->name, k, mask, first, (long long)missed, (long long)tally.missed - 3);
          complete += first > 0 && missed == 0;
          mixed += missed > 0 && missed < (int64_t)queries;
          guarded_free_to(before);
        }
        guarded_free();
      }
  assert_true(complete > 0 && mixed > 0);
}

/* ---- what is not finite ---- */

static void a_key_that_is_no_number_stops_skipping(void **unused)
{
  (void)unused;
  static const float poisons[] = {NAN, INFINITY, -INFINITY};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 4; k++)
      for (size_t i = 0; i < 6; i++) {
        attention_options o = {.queries = 80, .keys = 700, .first = 620, .head_size = 16, .bias = falling[k],
                               .factors = k == 2, .cap = i < 3 ? 0 : 2, .blocks = k % 2, .spread = 1};
        attention_head h = make_head(&o);
        let_bias_fall(&h);
        float *key = copied_floats(span(700, 16, h.k_stride), h.k);
        key[70 * h.k_stride + 15] = poisons[i % 3];
        h.k = key;
        if (o.blocks) cut_into_blocks(&h, 0);
        fill_proof(t, &h, 0x1p-24);
        run_forward(t, &h);
        for (size_t r = 0; r < 80; r++) assert_true(block_visited(&h, h.visited, r, 1));
        if (i % 3 == 0)
          for (size_t r = 0; r < 80; r++) assert_true(isnan(h.out[r * h.out_stride]));
        guarded_free();
      }
}

/* A query that is no number stops nowhere, and spoils nobody else. */
static void a_query_that_is_no_number(void **unused)
{
  (void)unused;
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 4; k++) {
      attention_options o = {
          .queries = 80, .keys = 700, .first = 620, .head_size = 16, .bias = falling[k], .spread = 1};
      attention_head h = falling_head(t, &o, 0x1p-24);
      run_forward(t, &h);
      attention_head p = part_of(&h, 0, h.queries);
      float *q = copied_floats(span(80, 16, h.q_stride), h.q);
      q[33 * h.q_stride + 2] = NAN;
      p.q = q;
      run_forward(t, &p);
      for (size_t r = 0; r < 80; r++) {
        if (r == 33)
          for (size_t c = 0; c < 16; c++) assert_true(isnan(p.out[r * p.out_stride + c]));
        else
          expect_bits("beside a spoilt query", t->name, 16, p.out + r * p.out_stride, h.out + r * h.out_stride);
      }
      assert_int_equal(p.visited[2 * 33 * p.row_stride], 0);
      guarded_free();
    }
}

/* A value that is no number reaches the rows that visit its block, and not their neighbours that stopped before.
 */
static void a_value_beyond_the_stop(void **unused)
{
  (void)unused;
  static const float poisons[] = {NAN, INFINITY, -INFINITY};
  guard_edge = EDGE_AT_END;
  FOR_EACH_TABLE(t)
    for (size_t k = 0; k < 4; k++)
      for (int both_sides = 0; both_sides < 2; both_sides++) {
        attention_options o = {.queries = 120, .keys = 700, .first = both_sides ? 290 : 580, .head_size = 19,
                               .bias = falling[k], .factors = k == 2, .both_sides = both_sides, .blocks = k % 2,
                               .spread = 4};
        attention_head h = falling_head(t, &o, 0x1p-24);
        run_forward(t, &h);
        size_t stopped = 0;
        for (size_t block = 0; block < 11; block++) {
          size_t before = guard_count;
          attention_head p = part_of(&h, 0, h.queries);
          float *v = copied_floats(span(700, 19, h.v_stride), h.v);
          for (size_t j = block * B; j < (block + 1) * B && j < 700; j++) v[j * h.v_stride + 7] = poisons[j % 3];
          p.v = v;
          if (o.blocks) cut_into_blocks(&p, 0);
          run_forward(t, &p);
          size_t met = 0, rows = 0;
          for (size_t r = 0; r < h.queries; r++) {
            bool meeting = false;
            for (size_t j = block * B; j < (block + 1) * B && j < 700; j++)
              meeting = meeting || meets(&h, h.visited, r, j);
            if (meeting)
              assert_false(isfinite(p.out[r * p.out_stride + 7]));
            else
              expect_bits("beyond the stop", t->name, 19, p.out + r * p.out_stride, h.out + r * h.out_stride);
            met += meeting;
            rows++;
            if ((r + 1) % B == 0 || r + 1 == h.queries) {
              stopped += met > 0 && met < rows;
              met = rows = 0;
            }
          }
          guarded_free_to(before);
        }
        assert_true(stopped > 0); /* there were tiles in which some rows had stopped and others had not */
        guarded_free();
      }
}

int main(void)
{
  print_tables();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_visible_is_left_out),
      cmocka_unit_test(far_keys_are_skipped),
      cmocka_unit_test(cap_bounds_the_scores),
      cmocka_unit_test(a_distant_key_is_found),
      cmocka_unit_test(the_proof_is_tight),
      cmocka_unit_test(tolerance_0_never_stops),
      cmocka_unit_test(rows_keep_their_bits_in_chunks),
      cmocka_unit_test(rows_that_miss_dropped_blocks),
      cmocka_unit_test(a_key_that_is_no_number_stops_skipping),
      cmocka_unit_test(a_query_that_is_no_number),
      cmocka_unit_test(a_value_beyond_the_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
