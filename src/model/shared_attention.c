/* Attention over ranks.  The one idea: forward first lets every row see its own rank's keys; that gives most rows
 * all that they can see, and the others a log-sum-exp with which the bound of all keys farther away says how far
 * back they have to look. */
#include "model/shared_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "op/team.h"

/* Memory that grows to what was asked for most. */
typedef struct grown {
  void *memory;
  size_t bytes;
} grown;

struct shared_attention {
  comm *comm;
  int rank, ranks;
  grown scratch;             /* of the operator */
  grown extended, gradients; /* [rows, 2 G D]: keys and values from `from` on, their gradients */
  grown sent, received;      /* [rows, 2 G D] packed */
  grown centres;             /* [sequences, G, PROOF_CLUSTERS, D] */
  grown radii, all_radii;    /* [sequences, G, PROOF_CLUSTERS]; [ranks, ...] */
  grown from, all_from;      /* [sequences] int64; [ranks, sequences] */
  grown segments, reaches;   /* [sequences]; [sequences, H] */
  comm_message *messages;
  size_t message_count, message_capacity;
  uint64_t bytes_sent;
};

static status grow(grown *g, size_t count, size_t size, const char *what, alibi_error *error)
{
  size_t bytes = size_mul(count, size);
  if (bytes <= g->bytes && g->memory) return ALIBI_OK;
  memory_free(g->memory);
  *g = (grown){0};
  status result = memory_new(&g->memory, bytes, 1, what, error);
  if (result == ALIBI_OK) g->bytes = bytes;
  return result;
}

void shared_rows(int ranks, int rank, size_t length, size_t *first, size_t *rows)
{
  size_t blocks = (length + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK, n = (size_t)ranks, r = (size_t)rank;
  size_t from = blocks * r / n * ATTENTION_BLOCK, to = blocks * (r + 1) / n * ATTENTION_BLOCK;
  if (to > length) to = length;
  *first = from;
  *rows = to > from ? to - from : 0;
}

status shared_attention_new(comm *c, shared_attention **shared, alibi_error *error)
{
  status result = memory_new(shared, 1, sizeof **shared, "attention over ranks", error);
  if (result != ALIBI_OK) return result;
  (*shared)->comm = c;
  (*shared)->rank = comm_rank(c);
  (*shared)->ranks = comm_ranks(c);
  return ALIBI_OK;
}

void shared_attention_free(shared_attention *s)
{
  if (!s) return;
  grown *const all[] = {&s->scratch, &s->extended,  &s->gradients, &s->sent,     &s->received, &s->centres,
                        &s->radii,   &s->all_radii, &s->from,      &s->all_from, &s->segments, &s->reaches};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) memory_free(all[i]->memory);
  free(s->messages);
  memory_free(s);
}

/* A rank holds packed rows of lower ranks for itself and its own for higher ones: no row of a sequence twice. */
size_t shared_attention_bytes(const alibi_context *context, const attention_size *size)
{
  size_t row = size_mul(2 * size->kv_heads * size->head_size, sizeof(float));
  size_t packed = size_mul(size_mul(size->keys, row), size->backward ? 2 : 1);
  return size_add(packed, op_attention_bytes(context, size));
}

uint64_t shared_attention_sent(const shared_attention *s)
{
  return s->bytes_sent;
}

/* ---- calls of the operator ---- */

static size_t floats_of(const op_attention *a)
{
  return 2 * a->kv_heads * a->head_size;
}

static status reserve(shared_attention *s, alibi_context *context, const op_attention *a,
                      const attention_segment *segments, size_t count, bool backward, alibi_error *error)
{
  attention_size size = {.segments = count,
                         .heads = a->heads,
                         .kv_heads = a->kv_heads,
                         .head_size = a->head_size,
                         .table_length = a->table_length,
                         .skips = a->tolerance > 0,
                         .backward = backward,
                         .slope_grad = a->slope_grad != NULL,
                         .table_grad = a->table_grad != NULL,
                         .factor_grad = a->factor_grad != NULL};
  for (size_t i = 0; i < count; i++) {
    if (segments[i].row + segments[i].rows > size.queries) size.queries = segments[i].row + segments[i].rows;
    size.keys += segments[i].keys;
  }
  return grow(&s->scratch, op_attention_bytes(context, &size), 1, "attention over ranks", error);
}

/* Segments without rows are left out. */
static status attend(shared_attention *s, alibi_context *context, op_attention a, attention_segment *segments,
                     size_t count, bool backward, alibi_error *error)
{
  size_t used = 0;
  for (size_t i = 0; i < count; i++)
    if (segments[i].rows > 0) segments[used++] = segments[i];
  if (used == 0) return ALIBI_OK;
  a.segments = segments;
  a.segment_count = used;
  status result = reserve(s, context, &a, segments, used, backward, error);
  if (result != ALIBI_OK) return result;
  if (backward) op_attention_backward(context, &a, s->scratch.memory);
  else op_attention_forward(context, &a, s->scratch.memory);
  return ALIBI_OK;
}

/* Rows that see their own rank's keys alone, from row `redone` on. */
static void own_segments(const shared_sequence *sequences, size_t count, const shared_reach *reach,
                         attention_segment *segments)
{
  for (size_t i = 0; i < count; i++) {
    const shared_sequence *q = &sequences[i];
    size_t skip = reach ? reach[i].redone : 0;
    segments[i] = (attention_segment){.row = q->row + skip,
                                      .rows = q->rows - skip,
                                      .first = (ptrdiff_t)skip,
                                      .key_row = q->row,
                                      .keys = q->rows};
  }
}

static size_t extended_keys(const shared_sequence *q, const shared_reach *r)
{
  return r->redone > 0 ? q->first - r->from + r->redone : 0;
}

/* The others, whose keys lie in `extended`, sequence after sequence. */
static void extended_segments(const shared_sequence *sequences, size_t count, const shared_reach *reach,
                              attention_segment *segments)
{
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    size_t keys = extended_keys(&sequences[i], &reach[i]);
    segments[i] = (attention_segment){.row = sequences[i].row,
                                      .rows = reach[i].redone,
                                      .first = (ptrdiff_t)(sequences[i].first - reach[i].from),
                                      .key_row = at,
                                      .keys = keys};
    at += keys;
  }
}

static op_attention with_extended(const shared_attention *s, const op_attention *a)
{
  op_attention e = *a;
  size_t half = a->kv_heads * a->head_size;
  float *keys = s->extended.memory, *gradients = s->gradients.memory;
  e.k = (op_heads){keys, 2 * half, a->head_size};
  e.v = (op_heads){keys + half, 2 * half, a->head_size};
  e.dk = (op_heads_out){gradients, 2 * half, a->head_size};
  e.dv = (op_heads_out){gradients ? gradients + half : NULL, 2 * half, a->head_size};
  return e;
}

/* ---- how far back ---- */

static bool can_prove(const alibi_context *context, const op_attention *a)
{
  if (a->tolerance <= 0 || a->bias != BIAS_SLOPE || !context->kernel->proof_clusters) return false;
  for (size_t h = 0; h < a->heads; h++)
    if (!(a->slopes[h] > 0)) return false;
  return true;
}

static const float *row_of(const op_heads *x, size_t row, size_t head)
{
  return x->data + row * x->row_stride + head * x->head_stride;
}

static double product(size_t d, const float *x, const float *y)
{
  enum { LANES = 8 };
  float part[LANES] = {0}, rest = 0;
  size_t c = 0;
  for (; c + LANES <= d; c += LANES)
    for (size_t l = 0; l < LANES; l++) part[l] += x[c + l] * y[c + l];
  for (; c < d; c++) rest += x[c] * y[c];
  double sum = rest;
  for (size_t l = 0; l < LANES; l++) sum += part[l];
  return sum;
}

static double distance(size_t d, const float *x, const float *y)
{
  double square = 0;
  for (size_t c = 0; c < d; c++) square += ((double)x[c] - y[c]) * ((double)x[c] - y[c]);
  return sqrt(square);
}

/* Of the first block of each sequence, which rank 0 has: any centres are right, these are good. */
static status find_centres(shared_attention *s, const alibi_context *context, const op_attention *a,
                           const shared_sequence *sequences, size_t count, alibi_error *error)
{
  size_t floats = PROOF_CLUSTERS * a->head_size, all = count * a->kv_heads * floats;
  float *turned = NULL, *centres = s->centres.memory;
  status result = ALIBI_OK;
  memset(centres, 0, all * sizeof *centres);
  if (s->rank == 0) {
    result = memory_new(&turned, ATTENTION_BLOCK * a->head_size, sizeof *turned, "a block of keys", error);
    for (size_t i = 0; result == ALIBI_OK && i < count; i++)
      for (size_t g = 0; g < a->kv_heads && sequences[i].rows >= ATTENTION_BLOCK; g++) {
        context->kernel->attention_turn(ATTENTION_BLOCK, a->head_size, row_of(&a->k, sequences[i].row, g),
                                        a->k.row_stride, turned);
        context->kernel->proof_clusters(a->head_size, turned, centres + (i * a->kv_heads + g) * floats);
      }
    memory_free(turned);
  }
  TRY(comm_agree(s->comm, result, error));
  TRY(comm_broadcast(s->comm, centres, all * sizeof *centres, 0, error));
done:
  return result;
}

/* The largest distance of the rank's keys from the centre that each is nearest to, rounded up; what is not finite
 * stays so. */
static void find_radii(shared_attention *s, const op_attention *a, const shared_sequence *sequences, size_t count)
{
  size_t d = a->head_size, items = count * a->kv_heads;
  const float *centres = s->centres.memory;
  float *radii = s->radii.memory;
  for (size_t item = 0; item < items; item++) {
    const shared_sequence *q = &sequences[item / a->kv_heads];
    double largest[PROOF_CLUSTERS] = {0};
    for (size_t j = 0; j < q->rows; j++) {
      const float *key = row_of(&a->k, q->row + j, item % a->kv_heads);
      double nearest = INFINITY;
      size_t owner = 0;
      for (size_t c = 0; c < PROOF_CLUSTERS; c++) {
        double apart = distance(d, key, centres + (item * PROOF_CLUSTERS + c) * d);
        if (apart < nearest) nearest = apart, owner = c;
      }
      if (nearest > largest[owner]) largest[owner] = nearest; /* infinite where no distance is a number */
    }
    for (size_t c = 0; c < PROOF_CLUSTERS; c++)
      radii[item * PROOF_CLUSTERS + c] = (float)(largest[c] * (1 + 0x1p-20));
  }
}

/* The logarithm of what the keys of lower ranks weigh at most, were there no slope.  centres, radii
 * [PROOF_CLUSTERS]. */
static double score_bound(const op_attention *a, const float *q, const float *centres, const float *radii)
{
  size_t d = a->head_size;
  double reach = fabs((double)a->scale) * sqrt(product(d, q, q)) * (1 + 0x1p-16), bound = -INFINITY, farthest = 0;
  for (size_t c = 0; c < PROOF_CLUSTERS; c++) {
    const float *centre = centres + c * d;
    double norm = sqrt(product(d, centre, centre)), score = a->scale * product(d, q, centre) + reach * radii[c];
    if (!(norm <= farthest)) farthest = norm;
    if (!(score <= bound)) bound = score; /* a NaN stays */
  }
  bound += reach * farthest * 0x1p-16 + 2e-3; /* rounding, as in docs/attention.md */
  if (a->cap > 0 && bound < 0) bound = 0;
  if (a->cap > 0 && bound > a->cap) bound = a->cap * 1.00001 + 1e-3;
  return bound;
}

/* How many positions back from a row the nearest key must be that can be left out with all before it. */
static double depth_needed(const op_attention *a, size_t h, double bound, double lse)
{
  double slope = a->slopes[h],
         all = bound - log1p(-exp(-slope)) - lse; /* the sum of exp(-slope t) from t = 0 on */
  double depth = (all + 0x1p-20 * (fabs(bound) + fabs(lse)) + 2e-3 - log(a->tolerance)) / slope;
  return depth > 0 ? depth : depth <= 0 ? 0 : INFINITY;
}

/* From a head's rows: where its keys must begin, and behind which row nothing is missing. */
static void find_reach_of(const shared_attention *s, const op_attention *a, const shared_sequence *q,
                          size_t sequence, size_t h, const float *radii, shared_reach *reach)
{
  size_t g = h / (a->heads / a->kv_heads);
  const float *centres =
      (const float *)s->centres.memory + (sequence * a->kv_heads + g) * PROOF_CLUSTERS * a->head_size;
  for (size_t r = 0; r < q->rows; r++) {
    double bound = score_bound(a, row_of(&a->q, q->row + r, h), centres, radii);
    double depth = depth_needed(a, h, bound, a->lse[(q->row + r) * a->heads + h]);
    if (depth <= (double)r + 1) continue; /* the nearest key of a lower rank is that far away */
    double from = (double)(q->first + r) - depth;
    size_t first = from > 0 ? (size_t)from : 0;
    if (first < reach->from) reach->from = first;
    if (r + 1 > reach->redone) reach->redone = r + 1;
  }
}

/* After forward over the rank's own keys. */
static status find_reach(shared_attention *s, alibi_context *context, const op_attention *a,
                         const shared_sequence *sequences, size_t count, shared_reach *reach, alibi_error *error)
{
  size_t entries = count * a->kv_heads * PROOF_CLUSTERS, share = a->heads / a->kv_heads;
  status result;
  TRY(find_centres(s, context, a, sequences, count, error));
  find_radii(s, a, sequences, count);
  TRY(comm_all_gather(s->comm, s->radii.memory, entries * sizeof(float), s->all_radii.memory, error));
  float *radii = s->radii.memory; /* of all lower ranks */
  memset(radii, 0, entries * sizeof *radii);
  for (int r = 0; r < s->rank; r++)
    for (size_t e = 0; e < entries; e++) {
      float other = ((const float *)s->all_radii.memory)[(size_t)r * entries + e];
      if (!(other <= radii[e])) radii[e] = other;
    }
  if (s->rank == 0) goto done;
  shared_reach *heads = s->reaches.memory;
  double operations = 8.0 * (double)(sequences[0].rows * count * a->heads * a->head_size);
  OP_FOR_ITEMS(context, dynamic, count * a->heads, operations, {
    size_t i = item / a->heads, h = item % a->heads;
    heads[item] = (shared_reach){sequences[i].first, 0};
    find_reach_of(s, a, &sequences[i], i, h, radii + (i * a->kv_heads + h / share) * PROOF_CLUSTERS, &heads[item]);
  });
  for (size_t item = 0; item < count * a->heads; item++) {
    shared_reach *all = &reach[item / a->heads];
    if (heads[item].from < all->from) all->from = heads[item].from;
    if (heads[item].redone > all->redone) all->redone = heads[item].redone;
  }
done:
  return result;
}

/* Whole blocks of rows and keys, so that no block is seen in two cuts; and nothing beyond the window. */
static void round_reach(const shared_sequence *q, size_t window, shared_reach *r)
{
  if (window > 0 && q->first >= window && r->from <= q->first - window) r->from = q->first - window + 1;
  r->from = r->from / ATTENTION_BLOCK * ATTENTION_BLOCK;
  r->redone = size_round_up(r->redone, ATTENTION_BLOCK);
  if (r->redone > q->rows) r->redone = q->rows;
}

/* ---- keys on their way ---- */

/* What rank `to` wants of sequence i from rank `from`; false: nothing. */
static bool wanted(const shared_attention *s, const shared_sequence *q, size_t i, size_t count, int from, int to,
                   size_t *first, size_t *end)
{
  size_t own, own_rows, other, other_rows;
  shared_rows(s->ranks, from, q->length, &own, &own_rows);
  shared_rows(s->ranks, to, q->length, &other, &other_rows);
  size_t begin = (size_t)((const int64_t *)s->all_from.memory)[(size_t)to * count + i];
  *first = begin > own ? begin : own;
  *end = own + own_rows;
  return to > from && *first < *end;
}

/* A large one in pieces: both sides cut alike. */
static status add_message(shared_attention *s, comm_message message, alibi_error *error)
{
  const size_t LARGEST = (size_t)1 << 28;
  if (message.send) s->bytes_sent += message.bytes;
  for (size_t left = message.bytes; left > 0; left -= message.bytes) {
    status result = memory_grow(&s->messages, &s->message_capacity, s->message_count + 1, sizeof *s->messages,
                                "messages between ranks", error);
    if (result != ALIBI_OK) return result;
    message.bytes = left < LARGEST ? left : LARGEST;
    s->messages[s->message_count++] = message;
    message.data = (char *)message.data + message.bytes;
  }
  return ALIBI_OK;
}

static void pack(const op_attention *a, size_t row, size_t rows, float *packed)
{
  size_t half = a->kv_heads * a->head_size, d = a->head_size;
  for (size_t r = 0; r < rows; r++)
    for (size_t g = 0; g < a->kv_heads; g++) {
      memcpy(packed + r * 2 * half + g * d, row_of(&a->k, row + r, g), d * sizeof *packed);
      memcpy(packed + r * 2 * half + half + g * d, row_of(&a->v, row + r, g), d * sizeof *packed);
    }
}

static size_t rows_wanted(const shared_attention *s, const shared_sequence *sequences, size_t count)
{
  size_t rows = 0, first, end;
  for (size_t i = 0; i < count; i++)
    for (int to = s->rank + 1; to < s->ranks; to++)
      if (wanted(s, &sequences[i], i, count, s->rank, to, &first, &end)) rows += end - first;
  return rows;
}

/* Messages between this rank's packed rows (there, at `packed`) and the others, and between `extended` and the
 * owners of its foreign rows.  keys: packed rows are sent, foreign rows come; else gradients go the other way. */
static status make_messages(shared_attention *s, const op_attention *a, const shared_sequence *sequences,
                            size_t count, const shared_reach *reach, bool keys, float *packed, float *extended,
                            alibi_error *error)
{
  size_t floats = floats_of(a), first, end, at = 0;
  status result = ALIBI_OK;
  s->message_count = 0;
  for (size_t i = 0; i < count; i++)
    for (int to = s->rank + 1; to < s->ranks; to++) {
      if (!wanted(s, &sequences[i], i, count, s->rank, to, &first, &end)) continue;
      size_t rows = end - first;
      TRY(add_message(s, (comm_message){to, keys, packed + at * floats, rows * floats * sizeof(float)}, error));
      at += rows;
    }
  at = 0;
  for (size_t i = 0; i < count; i++) {
    for (int from = 0; from < s->rank; from++) {
      if (!wanted(s, &sequences[i], i, count, from, s->rank, &first, &end)) continue;
      float *place = extended + (at + first - reach[i].from) * floats;
      TRY(add_message(s, (comm_message){from, !keys, place, (end - first) * floats * sizeof(float)}, error));
    }
    at += extended_keys(&sequences[i], &reach[i]);
  }
done:
  return result;
}

/* Fills `extended`: foreign keys and values, and after them the own ones that the redone rows see. */
static status fetch(shared_attention *s, const op_attention *a, const shared_sequence *sequences, size_t count,
                    const shared_reach *reach, bool gradients, alibi_error *error)
{
  size_t floats = floats_of(a), rows = 0, first, end, at = 0;
  int64_t *from = s->from.memory;
  status result;
  for (size_t i = 0; i < count; i++) {
    from[i] = (int64_t)reach[i].from;
    rows += extended_keys(&sequences[i], &reach[i]);
  }
  TRY(comm_all_gather(s->comm, from, count * sizeof *from, s->all_from.memory, error));
  size_t others = rows_wanted(s, sequences, count);
  result = grow(&s->extended, rows * floats, sizeof(float), "keys and values of other ranks", error);
  if (result == ALIBI_OK)
    result = grow(&s->sent, others * floats, sizeof(float), "keys and values for other ranks", error);
  if (result == ALIBI_OK && gradients)
    result = grow(&s->gradients, rows * floats, sizeof(float), "gradients of keys of other ranks", error);
  if (result == ALIBI_OK)
    result = make_messages(s, a, sequences, count, reach, true, s->sent.memory, s->extended.memory, error);
  TRY(comm_agree(s->comm, result, error));
  float *packed = s->sent.memory, *extended = s->extended.memory;
  for (size_t i = 0; i < count; i++)
    for (int to = s->rank + 1; to < s->ranks; to++) {
      if (!wanted(s, &sequences[i], i, count, s->rank, to, &first, &end)) continue;
      pack(a, sequences[i].row + first - sequences[i].first, end - first, packed + at * floats);
      at += end - first;
    }
  TRY(comm_exchange_begin(s->comm, s->messages, s->message_count, error));
  for (size_t i = 0, place = 0; i < count; i++) {
    size_t foreign = sequences[i].first - reach[i].from;
    if (reach[i].redone > 0) pack(a, sequences[i].row, reach[i].redone, extended + (place + foreign) * floats);
    place += extended_keys(&sequences[i], &reach[i]);
  }
  TRY(comm_exchange_finish(s->comm, error));
done:
  return result;
}

/* ---- the two directions ---- */

static status prepare(shared_attention *s, const op_attention *a, size_t count, alibi_error *error)
{
  size_t entries = size_mul(size_mul(count, a->kv_heads), PROOF_CLUSTERS), ranks = (size_t)s->ranks;
  status result;
  TRY(grow(&s->segments, count, sizeof(attention_segment), "attention over ranks", error));
  TRY(grow(&s->reaches, size_mul(count, a->heads), sizeof(shared_reach), "attention over ranks", error));
  TRY(grow(&s->from, count, sizeof(int64_t), "attention over ranks", error));
  TRY(grow(&s->all_from, size_mul(count, ranks), sizeof(int64_t), "attention over ranks", error));
  TRY(grow(&s->centres, size_mul(entries, a->head_size), sizeof(float), "attention over ranks", error));
  TRY(grow(&s->radii, entries, sizeof(float), "attention over ranks", error));
  TRY(grow(&s->all_radii, size_mul(entries, ranks), sizeof(float), "attention over ranks", error));
done:
  return comm_agree(s->comm, result, error);
}

status shared_attention_forward(shared_attention *s, alibi_context *context, const op_attention *a,
                                const shared_sequence *sequences, size_t count, shared_reach *reach,
                                alibi_error *error)
{
  status result = prepare(s, a, count, error);
  if (result != ALIBI_OK) return result;
  attention_segment *segments = s->segments.memory;
  bool proves = can_prove(context, a);
  for (size_t i = 0; i < count; i++) {
    const shared_sequence *q = &sequences[i];
    reach[i] = (shared_reach){q->first, 0};
    if (proves || s->rank == 0) continue;
    reach[i].redone = q->rows;
    if (q->rows > 0) reach[i].from = 0;
  }
  own_segments(sequences, count, reach, segments);
  TRY(attend(s, context, *a, segments, count, false, error));
  if (proves) TRY(find_reach(s, context, a, sequences, count, reach, error));
  for (size_t i = 0; i < count; i++) round_reach(&sequences[i], a->window, &reach[i]);
  TRY(fetch(s, a, sequences, count, reach, false, error));
  extended_segments(sequences, count, reach, segments);
  TRY(attend(s, context, with_extended(s, a), segments, count, false, error));
done:
  return result;
}

static void zero_rows(const op_heads_out *x, size_t heads, size_t head_size, size_t row, size_t rows)
{
  for (size_t r = row; r < row + rows; r++)
    for (size_t h = 0; h < heads; h++)
      memset(x->data + r * x->row_stride + h * x->head_stride, 0, head_size * sizeof *x->data);
}

/* dk, dv of rows from `row` on += packed. */
static void unpack_add(const op_attention *a, size_t row, size_t rows, const float *packed)
{
  size_t half = a->kv_heads * a->head_size, d = a->head_size;
  for (size_t r = 0; r < rows; r++)
    for (size_t g = 0; g < a->kv_heads; g++) {
      float *dk = a->dk.data + (row + r) * a->dk.row_stride + g * a->dk.head_stride;
      float *dv = a->dv.data + (row + r) * a->dv.row_stride + g * a->dv.head_stride;
      for (size_t c = 0; c < d; c++) dk[c] += packed[r * 2 * half + g * d + c];
      for (size_t c = 0; c < d; c++) dv[c] += packed[r * 2 * half + half + g * d + c];
    }
}

/* Gradients of foreign keys go to their owners; those that come are added, lower ranks' first. */
static status give_back(shared_attention *s, const op_attention *a, const shared_sequence *sequences, size_t count,
                        const shared_reach *reach, alibi_error *error)
{
  size_t floats = floats_of(a), first, end, at = 0;
  float *gradients = s->gradients.memory;
  status result = grow(&s->received, rows_wanted(s, sequences, count) * floats, sizeof(float),
                       "gradients of other ranks", error);
  if (result == ALIBI_OK)
    result = make_messages(s, a, sequences, count, reach, false, s->received.memory, gradients, error);
  TRY(comm_agree(s->comm, result, error));
  TRY(comm_exchange_begin(s->comm, s->messages, s->message_count, error));
  for (size_t i = 0, place = 0; i < count; i++) {
    size_t foreign = sequences[i].first - reach[i].from;
    unpack_add(a, sequences[i].row, reach[i].redone, gradients + (place + foreign) * floats);
    place += extended_keys(&sequences[i], &reach[i]);
  }
  TRY(comm_exchange_finish(s->comm, error));
  const float *received = s->received.memory;
  for (size_t i = 0; i < count; i++)
    for (int to = s->rank + 1; to < s->ranks; to++) {
      if (!wanted(s, &sequences[i], i, count, s->rank, to, &first, &end)) continue;
      unpack_add(a, sequences[i].row + first - sequences[i].first, end - first, received + at * floats);
      at += end - first;
    }
done:
  return result;
}

status shared_attention_backward(shared_attention *s, alibi_context *context, const op_attention *given,
                                 const shared_sequence *sequences, size_t count, const shared_reach *reach,
                                 alibi_error *error)
{
  status result = prepare(s, given, count, error);
  if (result != ALIBI_OK) return result;
  op_attention a = *given;
  attention_segment *segments = s->segments.memory;
  for (size_t i = 0; a.overwrites && i < count; i++) {
    zero_rows(&a.dq, a.heads, a.head_size, sequences[i].row, sequences[i].rows);
    zero_rows(&a.dk, a.kv_heads, a.head_size, sequences[i].row, sequences[i].rows);
    zero_rows(&a.dv, a.kv_heads, a.head_size, sequences[i].row, sequences[i].rows);
  }
  a.overwrites = false;
  TRY(fetch(s, &a, sequences, count, reach, true, error));
  own_segments(sequences, count, reach, segments);
  TRY(attend(s, context, a, segments, count, true, error));
  extended_segments(sequences, count, reach, segments);
  memset(s->gradients.memory, 0, s->gradients.bytes);
  TRY(attend(s, context, with_extended(s, &a), segments, count, true, error));
  TRY(give_back(s, &a, sequences, count, reach, error));
done:
  return result;
}
