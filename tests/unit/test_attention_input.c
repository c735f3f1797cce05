/* Bad input of the public attention operator: each is ALIBI_INVALID and one sentence that names the field, what
 * was expected and what was found, before anything is written; never a crash. */
#include <limits.h>
#include "unit/attention_refusal.h"

/* ---- faults of a call ---- */

enum {
  FORWARD = 1,
  BACKWARD = 2,
  DECODE = 4,
  ROWS_OF_KEYS = FORWARD | BACKWARD, /* of what decode does not use */
  WRITTEN = FORWARD | DECODE,        /* of what backward only reads */
  EVERYWHERE = FORWARD | BACKWARD | DECODE
};

typedef struct fault {
  const char *name, *says;
  void (*make)(call *c);
  void (*set)(call_options *o); /* NULL: the default options */
  int where;
} fault;

#define FAULT(name, ...)                                                                                          \
  static void fault_##name(call *c)                                                                               \
  {                                                                                                               \
    __VA_ARGS__                                                                                                   \
  }

#define STARTS(which) call_integers(c->a.which)
#define NUMBERS(which) call_floats(c->a.which)
#define SLOPES call_doubles(c->a.bias.slopes)

FAULT(size_0, c->a.size = 0;)
FAULT(size_odd, c->a.size = sizeof c->a - 3;)
FAULT(size_huge, c->a.size = SIZE_MAX;)
FAULT(heads_0, c->a.heads = 0;)
FAULT(heads_negative, c->a.heads = -4;)
FAULT(heads_huge, c->a.heads = INT_MAX; c->a.bias.kind = ALIBI_BIAS_NONE;)
FAULT(kv_heads_3, c->a.kv_heads = 3;)
FAULT(kv_heads_8, c->a.kv_heads = 8;)
FAULT(kv_heads_negative, c->a.kv_heads = -2;)
FAULT(head_size_0, c->a.head_size = 0;)
FAULT(head_size_257, c->a.head_size = 257;)
FAULT(head_size_negative, c->a.head_size = -1;)
FAULT(queries_negative, c->a.queries = -1;)
FAULT(keys_negative, c->a.keys = -1;)
FAULT(sequences_negative, c->a.sequences = -1;)
FAULT(queries_huge, c->a.queries = INT64_MAX / 2;)
FAULT(queries_most, c->a.queries = INT64_MAX;)
FAULT(queries_large, c->a.queries = INT64_C(1) << 57;)
FAULT(keys_huge, c->a.keys = INT64_MAX / 2;)
FAULT(keys_large, c->a.keys = INT64_C(1) << 57;)
FAULT(both_huge, c->a.queries = c->a.keys = INT64_MAX / 2;)
FAULT(sequences_huge, c->a.sequences = INT64_MAX; c->a.query_starts = c->a.key_starts = NULL;)

FAULT(query_starts_null, c->a.query_starts = NULL;)
FAULT(key_starts_null, c->a.key_starts = NULL;)
FAULT(query_starts_first, STARTS(query_starts)[0] = 1;)
FAULT(key_starts_first, STARTS(key_starts)[0] = -1;)
FAULT(query_starts_fall, STARTS(query_starts)[2] = 69;)
FAULT(key_starts_fall, STARTS(key_starts)[2] = 69;)
FAULT(query_starts_negative, STARTS(query_starts)[1] = INT64_MIN;)
FAULT(query_starts_short, STARTS(query_starts)[4] = 139;)
FAULT(key_starts_short, STARTS(key_starts)[4] = 139;)
FAULT(query_starts_long, STARTS(query_starts)[4] = 141;)
FAULT(key_starts_long, STARTS(key_starts)[4] = 141;)
FAULT(query_starts_beyond, STARTS(query_starts)[3] = 1000;)

FAULT(q_null, c->a.q.data = NULL;)
FAULT(k_null, c->a.k.data = NULL;)
FAULT(v_null, c->a.v.data = NULL;)
FAULT(out_null, c->a.out.data = NULL;)
FAULT(q_row_negative, c->a.q.row_stride = -36;)
FAULT(q_head_negative, c->a.q.head_stride = -9; c->a.q.row_stride = 36;)
FAULT(k_row_negative, c->a.k.row_stride = -36; c->a.k.head_stride = 9;)
FAULT(v_head_negative, c->a.v.row_stride = 36; c->a.v.head_stride = -1;)
FAULT(q_row_huge, c->a.q.row_stride = INT64_MAX / 8; c->a.q.head_stride = 9;)
FAULT(k_head_huge, c->a.k.row_stride = 36; c->a.k.head_stride = INT64_MAX / 2;)
FAULT(out_row_negative, c->a.out.row_stride = -36; c->a.out.head_stride = 9;)
FAULT(out_head_negative, c->a.out.row_stride = 36; c->a.out.head_stride = -9;)
FAULT(out_row_huge, c->a.out.row_stride = INT64_MAX / 8; c->a.out.head_stride = 9;)
FAULT(out_rows_overlap, c->a.out.row_stride = 35; c->a.out.head_stride = 9;)
FAULT(out_rows_same, c->a.out.row_stride = 0; c->a.out.head_stride = 9;)
FAULT(out_heads_overlap, c->a.out.row_stride = 36; c->a.out.head_stride = 8;)
FAULT(out_heads_same, c->a.out.row_stride = 36; c->a.out.head_stride = 0;)
FAULT(out_major_overlap, c->a.out.row_stride = 9; c->a.out.head_stride = 9 * 140 - 1;)
FAULT(out_interleave, c->a.out.row_stride = 27; c->a.out.head_stride = 27;)

FAULT(out_is_q, c->a.out.data = c->q.buffer;)
FAULT(out_is_k, c->a.out.data = c->k.buffer;)
FAULT(out_is_v, c->a.out.data = c->v.buffer;)
FAULT(out_at_end_of_q, c->a.out.data = c->q.buffer + c->q.floats - 1;)
FAULT(out_before_v, c->a.out.data = c->v.buffer - (c->out.floats - 1);)
FAULT(lse_in_out, c->a.lse = c->out.buffer + 5;)
FAULT(lse_in_q, c->a.lse = c->q.buffer;)
FAULT(lse_in_slopes, c->a.lse = (float *)SLOPES;)
FAULT(lse_at_end_of_slopes, c->a.lse = (float *)SLOPES + 2 * c->a.heads - 1;)
FAULT(lse_in_offsets, c->a.lse = (float *)(void *)call_doubles(c->a.bias.offsets);)
FAULT(lse_in_query_offsets, c->a.lse = (float *)(void *)call_doubles(c->a.bias.query_offsets);)
FAULT(offsets_infinite, call_doubles(c->a.bias.offsets)[3] = INFINITY;)
FAULT(offsets_huge, call_doubles(c->a.bias.offsets)[3] = -2e38;)
FAULT(query_offsets_nan, call_doubles(c->a.bias.query_offsets)[5] = NAN;)
FAULT(visited_in_out, c->a.visited = (int32_t *)(void *)(c->out.buffer + 100);)
FAULT(visited_in_lse, c->a.visited = (int32_t *)(void *)c->a.lse;)
FAULT(visited_in_v, c->a.visited = (int32_t *)(void *)c->v.buffer;)
FAULT(out_in_table, c->a.out.data = NUMBERS(bias.added);)
FAULT(out_in_positions, c->a.out.data = (float *)(void *)STARTS(key_positions);)

FAULT(out_in_starts, c->a.out.data = (float *)(void *)STARTS(query_starts);)
FAULT(visited_in_factor, c->a.visited = (int32_t *)(void *)NUMBERS(bias.factor);)

FAULT(scale_nan, c->a.scale = NAN;)
FAULT(scale_infinite, c->a.scale = -INFINITY;)
FAULT(cap_nan, c->a.soft_cap = NAN;)
FAULT(cap_infinite, c->a.soft_cap = INFINITY;)
FAULT(cap_negative, c->a.soft_cap = -1;)
FAULT(tolerance_negative, c->a.tolerance = -1e-9;)
FAULT(tolerance_1, c->a.tolerance = 1;)
FAULT(tolerance_large, c->a.tolerance = 1e9;)
FAULT(tolerance_nan, c->a.tolerance = NAN;)
FAULT(window_negative, c->a.window = -1;)
FAULT(window_least, c->a.window = INT64_MIN;)

FAULT(positions_equal, STARTS(query_positions)[7] = STARTS(query_positions)[6];)
FAULT(positions_fall, STARTS(key_positions)[139] = -1000;)
FAULT(positions_fall_in_packed, STARTS(key_positions)[100] = STARTS(key_positions)[99] - 1;)
FAULT(positions_far, STARTS(query_positions)[139] = INT64_C(1) << 53;)
FAULT(positions_far_below, STARTS(key_positions)[0] = INT64_MIN;)
FAULT(query_positions_null, c->a.query_positions = NULL;)
FAULT(key_positions_null, c->a.key_positions = NULL;)

FAULT(kind_99, c->a.bias.kind = (alibi_bias_kind)99;)
FAULT(kind_negative, c->a.bias.kind = (alibi_bias_kind)-1;)
FAULT(slope_nan, SLOPES[2] = NAN;)
FAULT(slope_infinite, SLOPES[0] = INFINITY;)
FAULT(slope_beyond_fp32, SLOPES[3] = -3.5e38;)
FAULT(reserved_first, c->a.bias.reserved[0] = c;)
FAULT(reserved_last, c->a.bias.kind = ALIBI_BIAS_NONE; c->a.bias.reserved[3] = c;)
FAULT(total_heads_2, c->a.bias.total_heads = 2;)
FAULT(total_heads_negative, c->a.bias.total_heads = -8;)
FAULT(total_heads_huge, c->a.bias.total_heads = ALIBI_MAX_HEADS + 1;)
FAULT(head_offset_negative, c->a.bias.total_heads = 8; c->a.bias.head_offset = -1;)
FAULT(head_offset_beyond, c->a.bias.total_heads = 8; c->a.bias.head_offset = 5;)
FAULT(head_offset_alone, c->a.bias.head_offset = 1;)
FAULT(head_offset_huge, c->a.bias.total_heads = 8; c->a.bias.head_offset = INT_MAX;)
FAULT(max_bias_negative, c->a.bias.max_bias = -1;)
FAULT(max_bias_large, c->a.bias.max_bias = 101;)
FAULT(max_bias_nan, c->a.bias.max_bias = NAN;)
FAULT(rule_7, c->a.bias.slope_rule = (alibi_slope_rule)7;)
FAULT(added_null, c->a.bias.added = NULL;)
FAULT(distances_0, c->a.bias.distances = 0;)
FAULT(distances_negative, c->a.bias.distances = -140;)
FAULT(distances_huge, c->a.bias.distances = INT64_MAX / 2;)
FAULT(distances_short, c->a.bias.distances--;)
FAULT(lowest_high, c->a.bias.lowest++; c->a.bias.distances--;)
FAULT(lowest_most, c->a.bias.lowest = INT64_MAX - 5;)
FAULT(lowest_least, c->a.bias.lowest = INT64_MIN;)
FAULT(offsets_null, c->a.bias.offsets = NULL;)
FAULT(rows_null, c->a.bias.rows = NULL;)

FAULT(back_lse_null, c->a.lse = NULL;)
FAULT(back_visited_null, c->a.visited = NULL;)

/* A copy to spoil: what a call reads is not written. */
static int32_t *copied_visited(call *c)
{
  size_t count = (size_t)(c->a.queries * c->a.heads * 2);
  return c->a.visited = call_copy(c->a.visited, count, sizeof(int32_t));
}

FAULT(back_visited_negative, copied_visited(c)[7] = -1;)
FAULT(back_visited_beyond, copied_visited(c)[101] = 4;)
FAULT(back_visited_backwards, copied_visited(c)[300] = c->a.visited[301] + 1;)
FAULT(back_visited_of_another, copied_visited(c)[2 * 4 * 70] = 1; c->a.visited[2 * 4 * 70 + 1] = 2;)
FAULT(back_size_0, c->g.size = 0;)
FAULT(back_dout_null, c->g.dout.data = NULL;)
FAULT(back_dq_null, c->g.dq.data = NULL;)
FAULT(back_dk_null, c->g.dk.data = NULL;)
FAULT(back_dv_null, c->g.dv.data = NULL;)
FAULT(back_dout_negative, c->g.dout.row_stride = -36; c->g.dout.head_stride = 9;)
FAULT(back_dq_negative, c->g.dq.row_stride = -36; c->g.dq.head_stride = 9;)
FAULT(back_dq_rows_overlap, c->g.dq.row_stride = 35; c->g.dq.head_stride = 9;)
FAULT(back_dk_heads_same, c->g.dk.row_stride = 36; c->g.dk.head_stride = 0;)
FAULT(back_dv_row_huge, c->g.dv.row_stride = INT64_MAX / 8; c->g.dv.head_stride = 9;)
FAULT(back_dq_is_dk, c->g.dq.data = c->dk.buffer;)
FAULT(back_dv_is_dk, c->g.dv.data = c->dk.buffer;)
FAULT(back_dq_is_q, c->g.dq.data = c->q.buffer;)
FAULT(back_dk_is_dout, c->g.dk.data = c->dout.buffer;)
FAULT(back_dv_is_out, c->g.dv.data = c->out.buffer;)
FAULT(back_dv_is_lse, c->g.dv.data = c->a.lse;)
FAULT(back_dq_in_slopes, c->g.dq.data = (float *)SLOPES;)
FAULT(back_dk_in_offsets, c->g.dk.data = (float *)(void *)call_doubles(c->a.bias.offsets);)
FAULT(back_dv_in_positions, c->g.dv.data = (float *)(void *)STARTS(query_positions);)
FAULT(back_offsets_in_dk, c->g.offsets = c->dk.buffer;)
FAULT(back_added_in_added, c->g.added = NUMBERS(bias.added);)

static const fault faults[] = {
    {"size 0", "size", fault_size_0, NULL, EVERYWHERE},
    {"an odd size", "size", fault_size_odd, NULL, EVERYWHERE},
    {"a huge size", "size", fault_size_huge, NULL, EVERYWHERE},
    {"no heads", "heads", fault_heads_0, NULL, EVERYWHERE},
    {"heads below 0", "heads", fault_heads_negative, NULL, EVERYWHERE},
    {"too many heads", "heads", fault_heads_huge, NULL, EVERYWHERE},
    {"4 heads on 3", "kv_heads", fault_kv_heads_3, NULL, EVERYWHERE},
    {"4 heads on 8", "kv_heads", fault_kv_heads_8, NULL, EVERYWHERE},
    {"key-value heads below 0", "kv_heads", fault_kv_heads_negative, NULL, EVERYWHERE},
    {"head size 0", "head_size", fault_head_size_0, NULL, EVERYWHERE},
    {"head size 257", "head_size", fault_head_size_257, NULL, EVERYWHERE},
    {"head size -1", "head_size", fault_head_size_negative, NULL, EVERYWHERE},
    {"queries below 0", "queries", fault_queries_negative, NULL, EVERYWHERE},
    {"keys below 0", "keys", fault_keys_negative, NULL, ROWS_OF_KEYS},
    {"sequences below 0", "sequences", fault_sequences_negative, NULL, EVERYWHERE},
    {"half of all queries", "queries|q", fault_queries_huge, NULL, EVERYWHERE},
    {"all queries", "queries|q", fault_queries_most, NULL, EVERYWHERE},
    {"2^57 queries", "queries|q", fault_queries_large, NULL, EVERYWHERE},
    {"half of all keys", "keys|k", fault_keys_huge, NULL, ROWS_OF_KEYS},
    {"2^57 keys", "keys|k", fault_keys_large, NULL, ROWS_OF_KEYS},
    {"half of all queries and keys", "queries|q", fault_both_huge, NULL, ROWS_OF_KEYS},
    {"all sequences", "sequences|starts", fault_sequences_huge, NULL, EVERYWHERE},
    {"no query starts", "query_starts", fault_query_starts_null, call_set_packed, EVERYWHERE},
    {"no key starts", "key_starts", fault_key_starts_null, call_set_packed, ROWS_OF_KEYS},
    {"query starts from 1", "query_starts", fault_query_starts_first, call_set_packed, EVERYWHERE},
    {"key starts from -1", "key_starts", fault_key_starts_first, call_set_packed, ROWS_OF_KEYS},
    {"query starts that fall", "query_starts", fault_query_starts_fall, call_set_packed, EVERYWHERE},
    {"key starts that fall", "key_starts", fault_key_starts_fall, call_set_packed, ROWS_OF_KEYS},
    {"query starts below 0", "query_starts", fault_query_starts_negative, call_set_packed, EVERYWHERE},
    {"query starts that end early", "query_starts", fault_query_starts_short, call_set_packed, EVERYWHERE},
    {"key starts that end early", "key_starts", fault_key_starts_short, call_set_packed, ROWS_OF_KEYS},
    {"query starts that end late", "query_starts", fault_query_starts_long, call_set_packed, EVERYWHERE},
    {"key starts that end late", "key_starts", fault_key_starts_long, call_set_packed, ROWS_OF_KEYS},
    {"query starts that leave", "query_starts", fault_query_starts_beyond, call_set_packed, EVERYWHERE},
    {"no q", "q", fault_q_null, NULL, EVERYWHERE},
    {"no k", "k", fault_k_null, NULL, ROWS_OF_KEYS},
    {"no v", "v", fault_v_null, NULL, ROWS_OF_KEYS},
    {"no out", "out", fault_out_null, NULL, EVERYWHERE},
    {"rows of q backwards", "q", fault_q_row_negative, NULL, EVERYWHERE},
    {"heads of q backwards", "q", fault_q_head_negative, NULL, EVERYWHERE},
    {"rows of k backwards", "k", fault_k_row_negative, NULL, ROWS_OF_KEYS},
    {"heads of v backwards", "v", fault_v_head_negative, NULL, ROWS_OF_KEYS},
    {"rows of q too far apart", "q", fault_q_row_huge, NULL, EVERYWHERE},
    {"heads of k too far apart", "k", fault_k_head_huge, NULL, ROWS_OF_KEYS},
    {"rows of out backwards", "out", fault_out_row_negative, NULL, EVERYWHERE},
    {"heads of out backwards", "out", fault_out_head_negative, NULL, EVERYWHERE},
    {"rows of out too far apart", "out", fault_out_row_huge, NULL, EVERYWHERE},
    {"rows of out overlap", "out", fault_out_rows_overlap, NULL, WRITTEN},
    {"rows of out in one place", "out", fault_out_rows_same, NULL, WRITTEN},
    {"heads of out overlap", "out", fault_out_heads_overlap, NULL, WRITTEN},
    {"heads of out in one place", "out", fault_out_heads_same, NULL, WRITTEN},
    {"head-major heads of out overlap", "out", fault_out_major_overlap, NULL, WRITTEN},
    {"rows of out on its heads", "out", fault_out_interleave, NULL, WRITTEN},
    {"out is q", "out", fault_out_is_q, NULL, WRITTEN},
    {"out is k", "out", fault_out_is_k, NULL, FORWARD},
    {"out is v", "out", fault_out_is_v, NULL, FORWARD},
    {"out begins in q", "out", fault_out_at_end_of_q, NULL, WRITTEN},
    {"out ends in v", "out", fault_out_before_v, NULL, FORWARD},
    {"lse in out", "lse", fault_lse_in_out, NULL, WRITTEN},
    {"lse in q", "lse", fault_lse_in_q, NULL, WRITTEN},
    {"lse in the slopes", "lse", fault_lse_in_slopes, call_set_steep, WRITTEN},
    {"lse on the last slope", "lse", fault_lse_at_end_of_slopes, call_set_steep, WRITTEN},
    {"lse in the offsets", "lse", fault_lse_in_offsets, call_set_offsets, FORWARD},
    {"lse in the offsets of queries", "lse", fault_lse_in_query_offsets, call_set_offsets, FORWARD},
    {"visited in out", "visited", fault_visited_in_out, NULL, WRITTEN},
    {"visited in lse", "visited", fault_visited_in_lse, NULL, WRITTEN},
    {"visited in v", "visited", fault_visited_in_v, NULL, FORWARD},
    {"out in the table", "out", fault_out_in_table, call_set_table, WRITTEN},
    {"out in the positions", "out", fault_out_in_positions, call_set_positions, FORWARD},
    {"out in the starts", "out", fault_out_in_starts, call_set_packed, WRITTEN},
    {"visited in the factors", "visited", fault_visited_in_factor, call_set_factors, WRITTEN},
    {"scale not a number", "scale", fault_scale_nan, NULL, EVERYWHERE},
    {"scale infinite", "scale", fault_scale_infinite, NULL, EVERYWHERE},
    {"cap not a number", "soft_cap", fault_cap_nan, NULL, EVERYWHERE},
    {"cap infinite", "soft_cap", fault_cap_infinite, NULL, EVERYWHERE},
    {"cap below 0", "soft_cap", fault_cap_negative, NULL, EVERYWHERE},
    {"tolerance below 0", "tolerance", fault_tolerance_negative, NULL, EVERYWHERE},
    {"tolerance 1", "tolerance", fault_tolerance_1, NULL, EVERYWHERE},
    {"tolerance above 1", "tolerance", fault_tolerance_large, NULL, EVERYWHERE},
    {"tolerance not a number", "tolerance", fault_tolerance_nan, NULL, EVERYWHERE},
    {"window below 0", "window", fault_window_negative, NULL, EVERYWHERE},
    {"least window", "window", fault_window_least, NULL, EVERYWHERE},
    {"equal positions", "query_positions", fault_positions_equal, call_set_positions, ROWS_OF_KEYS},
    {"positions that fall", "key_positions", fault_positions_fall, call_set_positions, ROWS_OF_KEYS},
    {"positions beyond 2^53", "query_positions", fault_positions_far, call_set_positions, ROWS_OF_KEYS},
    {"the least position", "key_positions", fault_positions_far_below, call_set_positions, ROWS_OF_KEYS},
    {"no query positions", "positions", fault_query_positions_null, call_set_positions, ROWS_OF_KEYS},
    {"no key positions", "positions", fault_key_positions_null, call_set_positions, ROWS_OF_KEYS},
    {"bias 99", "kind", fault_kind_99, NULL, EVERYWHERE},
    {"bias -1", "kind", fault_kind_negative, NULL, EVERYWHERE},
    {"a slope not a number", "slopes", fault_slope_nan, call_set_steep, EVERYWHERE},
    {"an infinite slope", "slopes", fault_slope_infinite, call_set_steep, EVERYWHERE},
    {"a slope beyond fp32", "slopes[3]", fault_slope_beyond_fp32, call_set_steep, EVERYWHERE},
    {"something reserved", "bias.reserved[0]", fault_reserved_first, NULL, EVERYWHERE},
    {"the last of what is reserved", "bias.reserved[3]", fault_reserved_last, NULL, EVERYWHERE},
    {"4 heads of 2", "total_heads", fault_total_heads_2, NULL, EVERYWHERE},
    {"heads of -8", "total_heads", fault_total_heads_negative, NULL, EVERYWHERE},
    {"heads of too many", "total_heads", fault_total_heads_huge, NULL, EVERYWHERE},
    {"heads from -1", "head_offset", fault_head_offset_negative, NULL, EVERYWHERE},
    {"heads 5 to 8 of 8", "head_offset|total_heads", fault_head_offset_beyond, NULL, EVERYWHERE},
    {"heads 1 to 4 of 4", "head_offset|total_heads", fault_head_offset_alone, NULL, EVERYWHERE},
    {"heads from far away", "head_offset|total_heads", fault_head_offset_huge, NULL, EVERYWHERE},
    {"exponent below 0", "max_bias", fault_max_bias_negative, NULL, EVERYWHERE},
    {"exponent 101", "max_bias", fault_max_bias_large, NULL, EVERYWHERE},
    {"exponent not a number", "max_bias", fault_max_bias_nan, NULL, EVERYWHERE},
    {"rule 7", "slope_rule", fault_rule_7, NULL, EVERYWHERE},
    {"no table", "added", fault_added_null, call_set_table, EVERYWHERE},
    {"no distances", "distances", fault_distances_0, call_set_table, EVERYWHERE},
    {"distances below 0", "distances", fault_distances_negative, call_set_table, EVERYWHERE},
    {"half of all distances", "distances", fault_distances_huge, call_set_table, EVERYWHERE},
    {"the farthest distance missing", "distance", fault_distances_short, call_set_table, EVERYWHERE},
    {"the nearest distance missing", "distance", fault_lowest_high, call_set_table, EVERYWHERE},
    {"a table far away", "distance|lowest", fault_lowest_most, call_set_table, EVERYWHERE},
    {"a table far away below", "distance|lowest", fault_lowest_least, call_set_table, EVERYWHERE},
    {"no offsets", "offsets", fault_offsets_null, call_set_offsets, ROWS_OF_KEYS},
    {"an infinite offset", "offsets[3]", fault_offsets_infinite, call_set_offsets, ROWS_OF_KEYS},
    {"an offset of -2e38", "offsets[3]", fault_offsets_huge, call_set_offsets, ROWS_OF_KEYS},
    {"an offset of a query that is no number", "query_offsets[5]", fault_query_offsets_nan, call_set_offsets,
     ROWS_OF_KEYS},
    {"no rows", "rows", fault_rows_null, call_set_rows, ROWS_OF_KEYS},
    {"backward without lse", "lse", fault_back_lse_null, NULL, BACKWARD},
    {"backward without visited", "visited", fault_back_visited_null, NULL, BACKWARD},
    {"visited below 0", "visited", fault_back_visited_negative, NULL, BACKWARD},
    {"visited beyond the keys", "visited", fault_back_visited_beyond, NULL, BACKWARD},
    {"visited backwards", "visited", fault_back_visited_backwards, NULL, BACKWARD},
    {"visited beyond a sequence", "visited", fault_back_visited_of_another, call_set_packed, BACKWARD},
    {"gradients of size 0", "size", fault_back_size_0, NULL, BACKWARD},
    {"no dout", "dout", fault_back_dout_null, NULL, BACKWARD},
    {"no dq", "dq", fault_back_dq_null, NULL, BACKWARD},
    {"no dk", "dk", fault_back_dk_null, NULL, BACKWARD},
    {"no dv", "dv", fault_back_dv_null, NULL, BACKWARD},
    {"rows of dout backwards", "dout", fault_back_dout_negative, NULL, BACKWARD},
    {"rows of dq backwards", "dq", fault_back_dq_negative, NULL, BACKWARD},
    {"rows of dq overlap", "dq", fault_back_dq_rows_overlap, NULL, BACKWARD},
    {"heads of dk in one place", "dk", fault_back_dk_heads_same, NULL, BACKWARD},
    {"rows of dv too far apart", "dv", fault_back_dv_row_huge, NULL, BACKWARD},
    {"dq is dk", "dq", fault_back_dq_is_dk, NULL, BACKWARD},
    {"dv is dk", "dv", fault_back_dv_is_dk, NULL, BACKWARD},
    {"dq is q", "dq", fault_back_dq_is_q, NULL, BACKWARD},
    {"dk is dout", "dk", fault_back_dk_is_dout, NULL, BACKWARD},
    {"dv is out", "dv", fault_back_dv_is_out, NULL, BACKWARD},
    {"dv is lse", "dv", fault_back_dv_is_lse, NULL, BACKWARD},
    {"dq in the slopes", "dq", fault_back_dq_in_slopes, call_set_steep, BACKWARD},
    {"dk in the offsets", "dk", fault_back_dk_in_offsets, call_set_offsets, BACKWARD},
    {"dv in the positions", "dv", fault_back_dv_in_positions, call_set_positions, BACKWARD},
    {"offsets' gradient in dk", "offsets", fault_back_offsets_in_dk, call_set_offsets, BACKWARD},
    {"the table's gradient in the table", "added", fault_back_added_in_added, call_set_table, BACKWARD},
};

/* ---- the faults, everywhere ---- */

/* What a call has not written. */
static void spoil_report(call *c)
{
  memset((char *)&c->report + sizeof c->report.size, 0x5a, sizeof c->report - sizeof c->report.size);
}

static call *call_of(const fault *f)
{
  call_options o = input_defaults();
  o.tolerance = ALIBI_TOLERANCE;
  if (f->set) f->set(&o);
  call *c = call_new(&o);
  spoil_report(c);
  return c;
}

static void bad_forward(const fault *f)
{
  call *c = call_of(f);
  snapshot s = snapshot_of(c);
  alibi_error error = {ALIBI_OK, ""};
  f->make(c);
  expect_invalid("forward", alibi_attention_forward(context, &c->a, NULL, 0, &error), &error, f->says);
  assert_int_equal(alibi_attention_forward(context, &c->a, NULL, 0, NULL), ALIBI_INVALID);
  expect_nothing_written(&s);
  size_t bytes = 0;
  alibi_status scratch = alibi_attention_forward_scratch(context, &c->a, &bytes, &error);
  assert_true(scratch == ALIBI_OK || scratch == ALIBI_INVALID);
}

static void bad_backward(const fault *f)
{
  call *c = call_of(f);
  call_forward(c);
  snapshot s = snapshot_of(c);
  alibi_error error = {ALIBI_OK, ""};
  f->make(c);
  expect_invalid("backward", alibi_attention_backward(context, &c->a, &c->g, NULL, 0, &error), &error, f->says);
  assert_int_equal(alibi_attention_backward(context, &c->a, &c->g, NULL, 0, NULL), ALIBI_INVALID);
  expect_nothing_written(&s);
  size_t bytes = 0;
  alibi_status scratch = alibi_attention_backward_scratch(context, &c->a, &c->g, &bytes, &error);
  assert_true(scratch == ALIBI_OK || scratch == ALIBI_INVALID);
}

static void bad_decode(const fault *f)
{
  call *c = call_of(f);
  snapshot s = snapshot_of(c);
  alibi_cache *caches[4] = {NULL};
  alibi_error error = {ALIBI_OK, ""};
  int64_t sequences = formula_sequences(&c->a);
  call_caches(c, 0, c->a.keys, caches);
  f->make(c);
  expect_invalid("decode", alibi_attention_decode(context, &c->a, caches, NULL, 0, &error), &error, f->says);
  assert_int_equal(alibi_attention_decode(context, &c->a, caches, NULL, 0, NULL), ALIBI_INVALID);
  expect_nothing_written(&s);
  size_t bytes = 0;
  alibi_status scratch = alibi_attention_decode_scratch(context, &c->a, caches, &bytes, &error);
  assert_true(scratch == ALIBI_OK || scratch == ALIBI_INVALID);
  call_caches_free(sequences, caches);
}

static void for_every_fault(int where, void (*check)(const fault *f))
{
  for (size_t n = 0; n < sizeof faults / sizeof faults[0]; n++) {
    if (!(faults[n].where & where)) continue;
    snprintf(call_name, sizeof call_name, "%s", faults[n].name);
    check(&faults[n]);
    call_free_all();
  }
}

static void forward_refuses(void **unused)
{
  (void)unused;
  for_every_fault(FORWARD, bad_forward);
}

static void backward_refuses(void **unused)
{
  (void)unused;
  for_every_fault(BACKWARD, bad_backward);
}

static void decode_refuses(void **unused)
{
  (void)unused;
  for_every_fault(DECODE, bad_decode);
}

/* A product of sizes that no address space holds is refused by those who only count, too. */
static void sizes_that_overflow_have_no_scratch(void **unused)
{
  (void)unused;
  void (*const huge[])(call *) = {fault_queries_huge,     fault_queries_most,  fault_both_huge,
                                  fault_heads_huge,       fault_heads_0,       fault_head_size_257,
                                  fault_queries_negative, fault_keys_negative, fault_size_0};
  for (size_t n = 0; n < sizeof huge / sizeof huge[0]; n++) {
    call_options o = input_defaults();
    call *c = call_new(&o);
    size_t bytes = 7;
    snprintf(call_name, sizeof call_name, "huge %zu", n);
    huge[n](c);
    if (alibi_attention_forward_scratch(context, &c->a, &bytes, &call_error) != ALIBI_INVALID)
      fail_msg("%s: forward: expected ALIBI_INVALID, found %zu bytes", call_name, bytes);
    if (alibi_attention_backward_scratch(context, &c->a, &c->g, &bytes, &call_error) != ALIBI_INVALID)
      fail_msg("%s: backward: expected ALIBI_INVALID, found %zu bytes", call_name, bytes);
    call_free_all();
  }
}

/* Positions of two documents are two sequences: the second may begin anew. */
static void positions_fall_within_a_document_only(void **unused)
{
  (void)unused;
  call_options o = input_defaults();
  strcpy(call_name, "packed positions");
  o.positions = true;
  call_set_packed(&o);
  call *c = call_new(&o);
  for (int64_t r = 0; r < 70; r++) STARTS(key_positions)[r] += 1000;
  call_forward(c);
  fault_positions_fall_in_packed(c);
  alibi_error error = {ALIBI_OK, ""};
  expect_invalid("forward", alibi_attention_forward(context, &c->a, NULL, 0, &error), &error, "key_positions");
  call_free_all();
}

/* ---- pointers that are not there; sizes of the structs ---- */

static void nothing_at_all(void **unused)
{
  (void)unused;
  call_options o = input_defaults();
  call *c = call_new(&o);
  alibi_error e;
  size_t bytes = 0;
  strcpy(call_name, "NULL");
  call_forward(c);
  alibi_cache *cache = call_cache(c, 10);
  call_cache_fill(cache, c, 0, 10, 10);
  expect_invalid("forward", alibi_attention_forward(NULL, &c->a, NULL, 0, &e), &e, "context");
  expect_invalid("forward", alibi_attention_forward(context, NULL, NULL, 0, &e), &e, "attention");
  expect_invalid("backward", alibi_attention_backward(NULL, &c->a, &c->g, NULL, 0, &e), &e, "context");
  expect_invalid("backward", alibi_attention_backward(context, NULL, &c->g, NULL, 0, &e), &e, "attention");
  expect_invalid("backward", alibi_attention_backward(context, &c->a, NULL, NULL, 0, &e), &e, "gradients");
  expect_invalid("decode", alibi_attention_decode(NULL, &c->a, &cache, NULL, 0, &e), &e, "context");
  expect_invalid("decode", alibi_attention_decode(context, NULL, &cache, NULL, 0, &e), &e, "attention");
  expect_invalid("decode", alibi_attention_decode(context, &c->a, NULL, NULL, 0, &e), &e, "cache");
  expect_invalid("scratch", alibi_attention_forward_scratch(NULL, &c->a, &bytes, &e), &e, "context");
  expect_invalid("scratch", alibi_attention_forward_scratch(context, NULL, &bytes, &e), &e, "attention");
  expect_invalid("scratch", alibi_attention_forward_scratch(context, &c->a, NULL, &e), &e, "bytes");
  expect_invalid("scratch", alibi_attention_backward_scratch(NULL, &c->a, &c->g, &bytes, &e), &e, "context");
  expect_invalid("scratch", alibi_attention_backward_scratch(context, &c->a, NULL, &bytes, &e), &e, "gradients");
  expect_invalid("scratch", alibi_attention_backward_scratch(context, &c->a, &c->g, NULL, &e), &e, "bytes");
  expect_invalid("scratch", alibi_attention_decode_scratch(NULL, &c->a, &cache, &bytes, &e), &e, "context");
  expect_invalid("scratch", alibi_attention_decode_scratch(context, &c->a, NULL, &bytes, &e), &e, "cache");
  expect_invalid("scratch", alibi_attention_decode_scratch(context, &c->a, &cache, NULL, &e), &e, "bytes");
  alibi_cache_free(cache);
  call_free_all();
}

/* base.h: a longer struct is taken where the bytes beyond are 0, and a shorter one has the defaults in what it
 * lacks. */
static void structs_of_other_versions(void **unused)
{
  (void)unused;
  struct {
    alibi_attention a;
    int64_t beyond;
  } longer;
  call_options o = input_defaults();
  call *plain = call_new(&o), *c = call_new(&o);
  strcpy(call_name, "versions");
  call_forward(plain);
  longer.a = c->a;
  longer.a.size = sizeof longer;
  longer.beyond = 0;
  assert_int_equal(alibi_attention_forward(context, &longer.a, NULL, 0, &call_error), ALIBI_OK);
  call_same_tensor("out", &c->out, &plain->out);
  longer.beyond = 1;
  assert_int_equal(alibi_attention_forward(context, &longer.a, NULL, 0, &call_error), ALIBI_INVALID);
  spoil_report(c);
  alibi_attention_report before = c->report;
  c->a.size = offsetof(alibi_attention, report);
  assert_int_equal(alibi_attention_forward(context, &c->a, NULL, 0, &call_error), ALIBI_OK);
  call_same("report", &c->report, &before, sizeof before);
  call_free_all();
}

/* A report is written as far as its size says: a shorter one not beyond its end, a longer one as far as known. */
static void reports_of_other_versions(void **unused)
{
  (void)unused;
  struct {
    alibi_attention_report known;
    int64_t beyond;
  } given;
  call_options o = input_defaults();
  call *c = call_new(&o);
  strcpy(call_name, "reports");
  call_forward(c);
  for (size_t size = sizeof(size_t); size <= sizeof given; size += sizeof(size_t)) {
    size_t written = size < sizeof c->report ? size : sizeof c->report;
    memset(&given, 0x5a, sizeof given);
    given.known.size = size;
    unsigned char *expected = call_copy(&given, sizeof given, 1);
    memcpy(expected + sizeof size, (char *)&c->report + sizeof size, written - sizeof size);
    call *again = call_new(&o);
    again->a.report = &given.known;
    call_forward(again);
    call_same("a report", &given, expected, sizeof given);
  }
  static const size_t absurd[] = {0, 1, sizeof(alibi_attention_report) - 4, 1 << 20, SIZE_MAX};
  snapshot s = snapshot_of(c);
  for (size_t n = 0; n < sizeof absurd / sizeof absurd[0]; n++) {
    alibi_error e;
    given.known.size = absurd[n];
    c->a.report = &given.known;
    expect_invalid("forward", alibi_attention_forward(context, &c->a, NULL, 0, &e), &e, "alibi_attention_report");
    expect_nothing_written(&s);
  }
  call_backward(c); /* which writes none */
  call_free_all();
}

/* What a call works in, and what it reports to, is nothing that it reads or writes otherwise. */
static void scratch_and_report_of_their_own(void **unused)
{
  (void)unused;
  call_options o = input_defaults();
  call *c = call_new(&o);
  size_t bytes = 0, more = 0;
  alibi_error e;
  strcpy(call_name, "scratch and report");
  assert_int_equal(alibi_attention_forward_scratch(context, &c->a, &bytes, &e), ALIBI_OK);
  assert_int_equal(alibi_attention_backward_scratch(context, &c->a, &c->g, &more, &e), ALIBI_OK);
  size_t floats = (bytes > more ? bytes : more) / sizeof(float) + 2 * c->out.floats;
  float *room = call_numbers(floats, 1, 1), *own = c->a.out.data;
  size_t places[] = {0, c->out.floats, bytes / sizeof(float) - 1};
  for (size_t n = 0; n < 3; n++) {
    c->a.out.data = room + places[n];
    expect_invalid("forward", alibi_attention_forward(context, &c->a, room, floats * sizeof(float), &e), &e,
                   "scratch");
  }
  c->a.out.data = room;
  assert_int_equal(alibi_attention_forward(context, &c->a, room + c->out.floats, bytes, &e), ALIBI_OK);
  c->a.out.data = own;
  expect_invalid("forward", alibi_attention_forward(context, &c->a, c->a.report, bytes, &e), &e, "report|scratch");
  c->a.report = (alibi_attention_report *)(void *)(room + 2);
  alibi_attention_report_init(c->a.report);
  expect_invalid("forward", alibi_attention_forward(context, &c->a, room, bytes, &e), &e, "report");
  c->a.out.data = room;
  expect_invalid("forward", alibi_attention_forward(context, &c->a, NULL, 0, &e), &e, "report");
  c->a.out.data = own;
  c->g.dk.data = room;
  expect_invalid("backward", alibi_attention_backward(context, &c->a, &c->g, room, more, &e), &e, "dk|scratch");
  call_free_all();
}

/* ---- what looks bad and is legal, or may be refused, but must not end the program ---- */

static void positions_as_far_apart_as_can_be(void **unused)
{
  (void)unused;
  static const int64_t offsets[] = {INT64_MAX, INT64_MAX - 69, INT64_MAX - 70, INT64_MIN + 1, INT64_C(1) << 62};
  for (int kind = ALIBI_BIAS_NONE; kind <= ALIBI_BIAS_SLOPE; kind++)
    for (int variant = 0; variant < 4; variant++) {
      call_options o = input_defaults();
      snprintf(call_name, sizeof call_name, "far apart, bias %d, variant %d", kind, variant);
      o.bias = (alibi_bias_kind)kind;
      o.queries = o.keys = 70;
      o.both_sides = variant & 1;
      o.window = variant & 2 ? 1000 : 0;
      call *c = call_new(&o);
      for (size_t n = 0; n < sizeof offsets / sizeof offsets[0]; n++) {
        c->a.query_offset = offsets[n];
        alibi_status found = alibi_attention_forward(context, &c->a, NULL, 0, &call_error);
        assert_true(found == ALIBI_OK || found == ALIBI_INVALID);
      }
      o.positions = true;
      c = call_new(&o);
      STARTS(query_positions)[0] = INT64_MIN;
      STARTS(query_positions)[69] = INT64_MAX;
      STARTS(key_positions)[0] = INT64_MIN + 1;
      STARTS(key_positions)[69] = INT64_MAX - 1;
      alibi_status found = alibi_attention_forward(context, &c->a, NULL, 0, &call_error);
      assert_true(found == ALIBI_OK || found == ALIBI_INVALID);
      if (found == ALIBI_OK) call_backward(c);
      call_free_all();
    }
}

/* What belongs to another kind of bias is not looked at. */
static void fields_of_other_biases_may_hold_anything(void **unused)
{
  (void)unused;
  call_options o = input_defaults();
  call *plain = call_new(&o);
  strcpy(call_name, "fields of other biases");
  call_forward(plain);
  call_backward(plain);
  static const int64_t odd[] = {INT64_MIN, INT64_MAX, -1};
  for (size_t n = 0; n < sizeof odd / sizeof odd[0]; n++) {
    call *c = call_new(&o);
    c->a.bias.lowest = odd[n];
    c->a.bias.distances = odd[2 - n];
    c->a.bias.added = c->a.bias.factor = plain->q.buffer;
    c->a.bias.offsets = c->a.bias.query_offsets = (const double *)(const void *)plain->q.buffer;
    call_forward(c);
    call_backward(c);
    call_same_tensor("out", &c->out, &plain->out);
    call_same_tensor("dk", &c->dk, &plain->dk);
  }
  call_free_all();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(forward_refuses),
      cmocka_unit_test(backward_refuses),
      cmocka_unit_test(decode_refuses),
      cmocka_unit_test(sizes_that_overflow_have_no_scratch),
      cmocka_unit_test(positions_fall_within_a_document_only),
      cmocka_unit_test(nothing_at_all),
      cmocka_unit_test(structs_of_other_versions),
      cmocka_unit_test(reports_of_other_versions),
      cmocka_unit_test(scratch_and_report_of_their_own),
      cmocka_unit_test(positions_as_far_apart_as_can_be),
      cmocka_unit_test(fields_of_other_biases_may_hold_anything),
  };
  return cmocka_run_group_tests(tests, call_setup, call_teardown);
}
