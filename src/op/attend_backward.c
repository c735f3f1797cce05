/* Attention backward: an item is one block of keys of one key-value head of one segment, which owns dk and dv of these
 * keys; the heads that share them come one after the other, each tile by tile.
 *
 * What several blocks add to - dq of a tile, a table - needs an order.  Items are handed out from a segment's last block
 * to its first, and a block adds to a tile only after the block behind it has: `turns` counts how many tiles an item is
 * done with.  The block behind was handed out before, so nobody waits for what has not begun; and two neighbours that
 * start together never wait, since they meet the same tile one step apart. */
#include "op/attend.h"

#include <math.h>
#include <string.h>

#include "base/system.h"
#include "op/attend_plan.h"
#include "op/team.h"

enum { SPINS = 2000 };

/* ---- who visits whom ---- */

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

static attention_range tiles_meeting(const op_attention *a, const attend_plan *p, const attention_head *head,
                                     size_t segment, size_t h, size_t block)
{
  attention_range rows = rows_seeing(head, block);
  attention_range tiles = {rows.from / ATTENTION_BLOCK, tiles_of(rows.to)};
  if (a->visited) {
    const int32_t *visitors = p->visitors + 2 * (h * p->blocks + p->block_start[segment] + block);
    if (tiles.from < (size_t)visitors[0]) tiles.from = (size_t)visitors[0];
    if (tiles.to > (size_t)visitors[1]) tiles.to = (size_t)visitors[1];
  }
  if (tiles.from > tiles.to) tiles.from = tiles.to;
  return tiles;
}

/* ---- one item ---- */

static attention_head backward_head(const op_attention *a, const attend_plan *p, size_t segment, size_t h)
{
  const attention_segment *s = &a->segments[segment];
  size_t group = h / (a->heads / a->kv_heads), part = (segment * a->heads + h) * a->table_length;
  attention_head head = attend_head(a, segment, h);
  head.delta = p->delta + s->row * a->heads + h;
  head.dout = a->dout.data + s->row * a->dout.row_stride + h * a->dout.head_stride;
  head.dout_stride = a->dout.row_stride;
  head.dq = a->dq.data + s->row * a->dq.row_stride + h * a->dq.head_stride;
  head.dk = a->dk.data + s->key_row * a->dk.row_stride + group * a->dk.head_stride;
  head.dv = a->dv.data + s->key_row * a->dv.row_stride + group * a->dv.head_stride;
  head.dq_stride = a->dq.row_stride;
  head.dk_stride = a->dk.row_stride;
  head.dv_stride = a->dv.row_stride;
  ptrdiff_t zero = (ptrdiff_t)a->table_length - 1 + a->lowest;
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

/* How many tiles the block behind must have done before this one adds to `tile`: dq needs that tile; a table the two
 * tiles after it as well, which reach the same distances from there; with positions any tile may. */
static size_t turn_needed(const op_attention *a, size_t tile, size_t tiles)
{
  if (!a->table_grad && !a->factor_grad) return tile + 1;
  if (a->key_positions) return tiles;
  return tile + 3 < tiles ? tile + 3 : tiles;
}

static void backward_block(alibi_context *context, const op_attention *a, const attend_plan *p, size_t segment,
                           size_t group, size_t block, float *scratch)
{
  const kernel_table *k = context->kernel;
  const attention_segment *s = &a->segments[segment];
  size_t share = a->heads / a->kv_heads, tiles = tiles_of(s->rows), at = p->block_start[segment] + block;
  atomic_size_t *turn = p->turns + group * p->blocks + at;
  bool last = block + 1 == tiles_of(s->keys);
  for (size_t i = 0; i < share; i++) {
    size_t h = group * share + i, done = i * tiles;
    attention_head head = backward_head(a, p, segment, h);
    attention_range met = tiles_meeting(a, p, &head, segment, h, block);
    if (a->slope_grad) {
      head.slope_grad = p->slope_parts + h * p->blocks + at;
      *head.slope_grad = 0;
    }
    if (i == 0) k->attention_open(&head, block, scratch);
    for (size_t tile = met.from; tile < met.to; tile++) {
      atomic_store_explicit(turn, done + tile, memory_order_release);
      if (a->stops_when_cancelled && context_cancelled(context)) break;
      if (!k->attention_meet(&head, block, tile, scratch)) continue;
      if (!last) wait_for(turn + 1, done + turn_needed(a, tile, tiles));
      k->attention_give(&head, block, tile, scratch);
    }
    atomic_store_explicit(turn, done + tiles, memory_order_release);
    if (i + 1 == share) k->attention_close(&head, block, scratch);
  }
}

/* ---- the call ---- */

static void prepare(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t items = a->segment_count * a->heads;
  for (size_t i = 0; i < a->kv_heads * p->blocks; i++) atomic_init(&p->turns[i], 0);
  OP_FOR_ITEMS(context, dynamic, items, attend_operations(a) / ATTENTION_BLOCK, {
    size_t segment = item / a->heads, h = item % a->heads;
    attention_head head = backward_head(a, p, segment, h);
    context->kernel->attention_delta(&head, 0, head.queries, (float *)head.delta);
    if (a->visited) find_visitors(a, p, segment, h);
  });
}

/* Parts of the segments and blocks, in order. */
static void add_parts(alibi_context *context, const op_attention *a, const attend_plan *p)
{
  size_t length = a->table_length, blocks = p->block_start[a->segment_count];
  for (size_t h = 0; a->slope_grad && h < a->heads; h++)
    for (size_t b = 0; b < blocks; b++) a->slope_grad[h] += p->slope_parts[h * p->blocks + b];
  OP_FOR_ITEMS(context, static, a->heads, (double)(a->segment_count * a->heads * length), {
    for (size_t s = 0; s < a->segment_count; s++) {
      size_t part = (s * a->heads + item) * length;
      if (a->table_grad) context->kernel->add(length, p->table_parts + part, a->table_grad + item * length);
      if (a->factor_grad) context->kernel->add(length, p->factor_parts + part, a->factor_grad + item * length);
    }
  });
}

void op_attention_backward(alibi_context *context, const op_attention *a, void *memory)
{
  attend_plan p = attend_begin(context, a, true, memory);
  size_t blocks = p.block_start[a->segment_count], tables = a->segment_count * a->heads * a->table_length;
  if (a->table_grad) memset(p.table_parts, 0, tables * sizeof *p.table_parts);
  if (a->factor_grad) memset(p.factor_parts, 0, tables * sizeof *p.factor_parts);
  prepare(context, a, &p);
  size_t items = blocks * a->kv_heads;
  OP_FOR_ITEMS(context, monotonic : dynamic, items, 5 * attend_operations(a), {
    size_t group = item % a->kv_heads, place = blocks - 1 - item / a->kv_heads;
    size_t segment = attend_segment_of(&p, a->segment_count, place);
    backward_block(context, a, &p, segment, group, place - p.block_start[segment],
                   p.scratch + worker * p.scratch_floats);
  });
  if (a->slope_grad || a->table_grad || a->factor_grad) add_parts(context, a, &p);
}
