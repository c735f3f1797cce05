/* model/shared_attention.h - attention of sequences that lie over several ranks, each of which holds a run of
 * their rows.
 *
 * A rank needs keys and values of lower ranks only as far back as its rows can see.  With slopes that fall, that
 * is what cannot be proven to weigh less than the tolerance (docs/attention.md): ranks first tell each other how
 * far their keys lie from a few centres, each finds how far back its rows go, and only these keys travel.  What is
 * left out so counts once more beside what the operator leaves out: a row loses at most twice the tolerance.
 * Without such slopes, or with tolerance 0, all lower ranks' keys come, or those of the window.  Backward asks for
 * the same keys again, and sends their gradients back, which are added in the order of the ranks: the same bits in
 * every run.
 *
 * All ranks make the same calls with the same number of segments, as comm.h says.  Causal, without caches,
 * positions and offsets of keys. */
#ifndef MODEL_SHARED_ATTENTION_H
#define MODEL_SHARED_ATTENTION_H

#include "comm/comm.h"
#include "op/attend.h"

/* Rows of a sequence of `length` that a rank holds: whole blocks of ATTENTION_BLOCK, but at the end. */
void shared_rows(int ranks, int rank, size_t length, size_t *first, size_t *rows);

/* A sequence: the rank's rows of it, at rows row .. row + rows - 1 of q, k, v, out. */
typedef struct shared_sequence {
  size_t length;           /* of the whole */
  size_t row, first, rows; /* first, rows: as shared_rows says */
} shared_sequence;

/* What forward found and backward needs: keys from position `from` on were used by the first `redone` rows, the
 * others saw the rank's own keys alone. */
typedef struct shared_reach {
  size_t from, redone;
} shared_reach;

typedef struct shared_attention shared_attention;

status shared_attention_new(comm *c, shared_attention **shared, alibi_error *error);
void shared_attention_free(shared_attention *shared);

/* As op_attention_forward, with the sequences for a's segments; a->lse is wanted.  reach [count] is set.  Memory
 * is taken in the first calls and kept. */
status shared_attention_forward(shared_attention *shared, alibi_context *context, const op_attention *a,
                                const shared_sequence *sequences, size_t count, shared_reach *reach,
                                alibi_error *error);
/* As op_attention_backward; reach as forward set it. */
status shared_attention_backward(shared_attention *shared, alibi_context *context, const op_attention *a,
                                 const shared_sequence *sequences, size_t count, const shared_reach *reach,
                                 alibi_error *error);

/* Of memory, at most, where all keys travel: size is of a rank's rows, its keys those of the whole sequences. */
size_t shared_attention_bytes(const alibi_context *context, const attention_size *size);

/* Bytes of keys, values and their gradients that this rank has sent. */
uint64_t shared_attention_sent(const shared_attention *shared);

#endif
