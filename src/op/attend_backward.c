/* Attention backward.  An item is one span of key blocks of one key-value head of one segment, which owns dk and
 * dv of these keys; the heads that share them come one after the other, each tile by tile.  Or it is a short
 * segment with all its spans and heads, in the same order.
 *
 * What several spans add to - dq of a tile, a table - needs an order.  Items are handed out from a segment's last
 * span to its first, and a span is done with a tile only after the span behind it is: `turns` counts the tiles
 * that an item is done with.  The span behind was handed out before, so nobody waits for what has not begun; and
 * neighbours that start together hardly wait, since they meet the same tile some steps apart. */
#include "op/attend.h"

#include <math.h>
#include <string.h>

#include "base/system.h"
#include "op/attend_plan.h"
#include "op/team.h"

enum { SPINS = 2000 };

/* ---- who visits whom ---- */

/* In a segment too short for a proof every row visited all that it sees. */
static bool uses_visited(const op_attention *a, const attention_segment *s)
{
  return a->visited && s->keys > PROOF_FROM * ATTENTION_BLOCK;
}

/* Per block of one head: the first tile that visits it, and the last one + 1. */
static void find_visitors(const op_attention *a, const attend_plan *p, size_t segment, size_t h)
{
  const attention_segment *s = &a->segments[segment];
  size_t blocks = tiles_of(s->keys), tiles = tiles_of(s->rows);
  int32_t *visitors = p->visitors + 2 * (h * p->blocks + p->block_start[segment]);
  for (size_t b = 0; b < blocks; b++) {
    visitors[2 * b] = (int32_t)tiles;
    visitors[2 * b + 1] = 0;
  }
  for (size_t tile = 0; tile < tiles; tile++) {
    int32_t from = INT32_MAX, to = 0;
    for (size_t r = tile * ATTENTION_BLOCK; r < s->rows && r < (tile + 1) * ATTENTION_BLOCK; r++) {
      const int32_t *row = a->visited + 2 * ((s->row + r) * a->heads + h);
      if (row[0] >= row[1]) continue;
      if (row[0] < from) from = row[0];
      if (row[1] > to) to = row[1];
    }
    if (from >= to) continue;
    if (visitors[2 * from + 1] < (int32_t)tile + 1) visitors[2 * from + 1] = (int32_t)tile + 1;
    if (visitors[2 * (to - 1)] > (int32_t)tile) visitors[2 * (to - 1)] = (int32_t)tile;
  }
  for (size_t b = 1; b < blocks; b++) /* who began at an earlier block, or before it, may have come here too */
    if (visitors[2 * b + 1] < visitors[2 * b - 1]) visitors[2 * b + 1] = visitors[2 * b - 1];
  for (size_t b = blocks; b-- > 1;)
    if (visitors[2 * b - 2] > visitors[2 * b]) visitors[2 * b - 2] = visitors[2 * b];
}

/* A place among the items: blocks first .. last of a segment. */
typedef struct key_span {
  size_t segment, group, span, first, last, at; /* at: in the lists of spans */
} key_span;

/* The tiles that may meet a span: a run of them, whose ends never move back from one span to the next. */
static attention_range tiles_meeting(const op_attention *a, const attend_plan *p, const attention_head *head,
                                     const key_span *k, size_t h)
{
  attention_range tiles = {rows_seeing(head, k->first).from / ATTENTION_BLOCK,
                           tiles_of(rows_seeing(head, k->last).to)};
  if (uses_visited(a, &a->segments[k->segment])) {
    const int32_t *visitors = p->visitors + 2 * (h * p->blocks + p->block_start[k->segment]);
    if (tiles.from < (size_t)visitors[2 * k->first]) tiles.from = (size_t)visitors[2 * k->first];
    if (tiles.to > (size_t)visitors[2 * k->last + 1]) tiles.to = (size_t)visitors[2 * k->last + 1];
  }
  if (tiles.from > tiles.to) tiles.from = tiles.to;
  return tiles;
}

/* ---- one item ---- */

static attention_head backward_head(const op_attention *a, const attend_plan *p, size_t segment, size_t h)
{
  const attention_segment *s = &a->segments[segment];
  size_t group = h / (a->heads / a->kv_heads);
  attention_head head = attend_head(a, segment, h);
  if (!uses_visited(a, s)) head.visited = NULL;
  head.delta = p->delta + s->row * a->heads + h;
  head.dout = a->dout.data + s->row * a->dout.row_stride + h * a->dout.head_stride;
  head.dout_stride = a->dout.row_stride;
  head.dq = a->dq.data + s->row * a->dq.row_stride + h * a->dq.head_stride;
  head.dk = a->dk.data + s->key_row * a->dk.row_stride + group * a->dk.head_stride;
  head.dv = a->dv.data + s->key_row * a->dv.row_stride + group * a->dv.head_stride;
  head.dq_stride = a->dq.row_stride;
  head.dk_stride = a->dk.row_stride;
  head.dv_stride = a->dv.row_stride;
  /* a segment's part of a table lies reversed, too: its largest distance first */
  size_t part = h * p->parts + p->part_start[segment];
  ptrdiff_t zero = (ptrdiff_t)attend_distances(a, s).to - 1;
  if (p->row_sums) head.row_sums = p->row_sums + 2 * (s->row * a->heads + h);
  if (a->table_grad) head.table_grad = p->table_parts + part + zero;
  if (a->factor_grad) head.factor_grad = p->factor_parts + part + zero;
  if (a->offset_grad) head.offset_grad = a->offset_grad + s->key_row * a->heads + h;
  return head;
}

static void wait_for(const atomic_size_t *turn, size_t target)
{
  for (int spins = 0; atomic_load_explicit(turn, memory_order_acquire) < target; spins++)
    if (spins >= SPINS) system_yield();
}

/* How many tiles the span behind must be done with before this one is with `tile`: dq needs that tile; a table
 * also those after it that reach the same distances from there; with positions any tile may. */
static size_t turn_needed(const op_attention *a, size_t span_blocks, size_t tile, size_t tiles)
{
  size_t beyond = a->table_grad || a->factor_grad ? 2 * span_blocks : 0;
  if (beyond > 0 && a->key_positions) return tiles;
  return tiles - tile > beyond + 1 ? tile + beyond + 1 : tiles;
}

static void backward_span(alibi_context *context, const op_attention *a, const attend_plan *p,
                          const key_span *span, float *scratch)
{
  const kernel_table *k = context->kernel;
  const attention_segment *s = &a->segments[span->segment];
  size_t share = a->heads / a->kv_heads, tiles = tiles_of(s->rows), span_blocks = k->attention_span(a->head_size);
  atomic_size_t *turn = p->turns + span->group * p->blocks + span->at;
  bool last = span->last + 1 == tiles_of(s->keys);
  /* A table is shared by spans that meet no tile in common: then a turn speaks for all spans from here on. */
  bool ordered = !last && (a->table_grad || a->factor_grad);
  for (size_t i = 0; i < share; i++) {
    size_t h = span->group * share + i, done = i * tiles;
    attention_head head = backward_head(a, p, span->segment, h);
    attention_range met = tiles_meeting(a, p, &head, span, h);
    if (a->slope_grad) {
      head.slope_grad = p->slope_parts + h * p->blocks + span->at;
      *head.slope_grad = 0;
    }
    if (i == 0) k->attention_open(&head, span->span, scratch);
    if (ordered) wait_for(turn + 1, done + met.from);
    for (size_t tile = met.from; tile < met.to; tile++) {
      atomic_store_explicit(turn, done + tile, memory_order_release);
      if (a->stops_when_cancelled && context_cancelled(context)) break;
      bool any = k->attention_meet(&head, span->span, tile, scratch);
      if (!last) wait_for(turn + 1, done + turn_needed(a, span_blocks, tile, tiles));
      if (any) k->attention_give(&head, span->span, tile, scratch);
    }
    if (ordered) wait_for(turn + 1, done + tiles);
    atomic_store_explicit(turn, done + tiles, memory_order_release);
    if (i + 1 == share) k->attention_close(&head, span->span, scratch);
  }
}

/* ---- the call ---- */

static void prepare_head(const alibi_context *context, const op_attention *a, const attend_plan *p, size_t segment,
                         size_t h)
{
  attention_head head = backward_head(a, p, segment, h);
  context->kernel->attention_delta(&head, 0, head.queries, (float *)head.delta);
  if (uses_visited(a, &a->segments[segment])) find_visitors(a, p, segment, h);
  for (size_t r = 0; p->row_sums && r < head.queries; r++)
    head.row_sums[2 * r * a->heads] = head.row_sums[2 * r * a->heads + 1] = 0;
}

/* Heads first .. first + heads - 1. */
static void zero_rows(const op_heads_out *x, size_t first, size_t heads, size_t head_size, size_t row, size_t rows)
{
  size_t runs = heads, run = head_size;
  if (x->head_stride == head_size) { /* side by side: many calls for little would cost more than the zeros */
    runs = heads > 0;
    run = heads * head_size;
  }
  for (size_t r = row; r < row + rows; r++)
    for (size_t i = 0; i < runs; i++)
      memset(x->data + r * x->row_stride + (first + i) * x->head_stride, 0, run * sizeof *x->data);
}

/* dq of some heads, and dk and dv of the groups that begin among them. */
static void zero_gradients(const op_attention *a, const attention_segment *s, size_t first, size_t heads)
{
  size_t share = a->heads / a->kv_heads, group = (first + share - 1) / share, d = a->head_size;
  size_t groups = (first + heads + share - 1) / share - group;
  zero_rows(&a->dq, first, heads, d, s->row, s->rows);
  zero_rows(&a->dk, group, groups, d, s->key_row, s->keys);
  zero_rows(&a->dv, group, groups, d, s->key_row, s->keys);
}

/* The sum of the spans' parts and of each row's correction (kernel/kernel.h, row_sums). */
static double slope_gradient(const op_attention *a, const attend_plan *p, size_t h, size_t spans)
{
  double sum = 0;
  for (size_t i = 0; i < spans; i++) sum += p->slope_parts[h * p->blocks + i];
  for (size_t s = 0; s < a->segment_count; s++)
    for (size_t r = a->segments[s].row; r < a->segments[s].row + a->segments[s].rows; r++) {
      const float *row = p->row_sums + 2 * (r * a->heads + h);
      sum += (double)row[0] * row[1];
    }
  return sum;
}

/* Parts of the segments and spans, in order. */
static void add_parts(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t length = a->table_length, spans = p->span_start[a->segment_count];
  for (size_t h = 0; a->slope_grad && h < a->heads; h++) a->slope_grad[h] += slope_gradient(a, p, h, spans);
  OP_FOR_ITEMS(context, static, a->heads, (double)(a->heads * p->part_start[a->segment_count]), {
    for (size_t s = 0; s < a->segment_count; s++) {
      distance_range range = attend_distances(a, &a->segments[s]);
      size_t part = item * p->parts + p->part_start[s], count = (size_t)(range.to - range.from);
      size_t first = item * length + (size_t)(a->lowest + (int64_t)length - range.to); /* the largest distance's */
      if (count == 0) continue;
      if (a->table_grad) context->kernel->add(count, p->table_parts + part, a->table_grad + first);
      if (a->factor_grad) context->kernel->add(count, p->factor_parts + part, a->factor_grad + first);
    }
  });
}

static key_span span_at(const alibi_context *context, const op_attention *a, const attend_plan *p, size_t segment,
                        size_t span, size_t group)
{
  size_t most = context->kernel->attention_span(a->head_size), blocks = tiles_of(a->segments[segment].keys);
  size_t end = (span + 1) * most < blocks ? (span + 1) * most : blocks;
  return (key_span){segment, group, span, span * most, end - 1, p->span_start[segment] + span};
}

static void fetch_segment(const op_attention *a, size_t segment)
{
  attend_fetch_segment(a, segment);
  if (segment >= a->segment_count) return;
  const attention_segment *s = &a->segments[segment];
  op_heads dq = attend_read(&a->dq), dk = attend_read(&a->dk), dv = attend_read(&a->dv);
  attend_fetch(&a->dout, a->heads, a->head_size, s->row, s->rows);
  if (a->overwrites) return; /* zeros come as they lie by themselves */
  attend_fetch(&dq, a->heads, a->head_size, s->row, s->rows);
  attend_fetch(&dk, a->kv_heads, a->head_size, s->key_row, s->keys);
  attend_fetch(&dv, a->kv_heads, a->head_size, s->key_row, s->keys);
}

/* An item is a segment. */
static void backward_segments(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  double operations = 5 * attend_operations(a);
  size_t team = (size_t)op_threads(context, a->segment_count, operations);
  OP_FOR_ITEMS(context, dynamic, a->segment_count, operations, {
    fetch_segment(a, item + team); /* most likely this thread's next */
    if (a->overwrites) zero_gradients(a, &a->segments[item], 0, a->heads);
    for (size_t h = 0; h < a->heads; h++) prepare_head(context, a, p, item, h);
    for (size_t span = p->span_start[item + 1] - p->span_start[item]; span-- > 0;)
      for (size_t group = 0; group < a->kv_heads; group++) {
        key_span place = span_at(context, a, p, item, span, group);
        backward_span(context, a, p, &place, p->scratch + worker * p->scratch_floats);
      }
  });
}

/* An item is a span and a group; item 0 the last span of all. */
static void backward_spans(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t spans = p->span_start[a->segment_count], heads = a->segment_count * a->heads;
  OP_FOR_ITEMS(context, dynamic, heads, attend_operations(a) / ATTENTION_BLOCK, {
    size_t segment = item / a->heads, h = item % a->heads;
    if (a->overwrites) zero_gradients(a, &a->segments[segment], h, 1);
    prepare_head(context, a, p, segment, h);
  });
  OP_FOR_ITEMS(context, monotonic : dynamic, spans * a->kv_heads, 5 * attend_operations(a), {
    size_t at = spans - 1 - item / a->kv_heads, segment = attend_segment_of(p->span_start, a->segment_count, at);
    key_span place = span_at(context, a, p, segment, at - p->span_start[segment], item % a->kv_heads);
    backward_span(context, a, p, &place, p->scratch + worker * p->scratch_floats);
  });
}

void op_attention_backward(alibi_context *context, const op_attention *a, void *memory)
{
  attend_plan p = attend_begin(context, a, true, memory);
  size_t tables = a->heads * p.parts;
  if (a->table_grad) memset(p.table_parts, 0, tables * sizeof *p.table_parts);
  if (a->factor_grad) memset(p.factor_parts, 0, tables * sizeof *p.factor_parts);
  for (size_t i = 0; i < a->kv_heads * p.blocks; i++) atomic_init(&p.turns[i], 0);
  (attend_whole_segments(context, a) ? backward_segments : backward_spans)(context, a, &p);
  if (a->slope_grad || a->table_grad || a->factor_grad) add_parts(context, a, &p);
  for (size_t s = 0; a->query_offset_grad && s < a->segment_count; s++)
    for (size_t i = a->segments[s].row * a->heads; i < (a->segments[s].row + a->segments[s].rows) * a->heads; i++)
      a->query_offset_grad[i] = p.row_sums[2 * i];
}
