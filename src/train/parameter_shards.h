/* train/parameter_shards.h - who owns which weights, where several ranks train.
 *
 * The block of parameters is cut into buckets of one size, and each bucket into chunks, one for each rank
 * (comm_chunk).  A rank holds the moments of its chunks alone, one after the other in the order of the parameters,
 * and updates these weights.  Buckets depend on the number of parameters only.  One rank owns one bucket:
 * everything, laid out as the parameters are. */
#ifndef TRAIN_PARAMETER_SHARDS_H
#define TRAIN_PARAMETER_SHARDS_H

#include <stddef.h>

typedef struct shards {
  int rank, ranks;
  size_t floats;      /* of the block of parameters */
  size_t bucket_size; /* floats; the last bucket may be smaller */
  size_t bucket_count;
} shards;

/* Floats from .. from + count - 1 of the block of parameters. */
typedef struct shard_span {
  size_t from, count;
} shard_span;

shards shards_of(size_t floats, int rank, int ranks);
shard_span shards_bucket(const shards *s, size_t bucket);
/* What of a bucket this rank owns. */
shard_span shards_own(const shards *s, size_t bucket);
/* What two spans have in common; count 0: nothing. */
shard_span shards_common(shard_span a, shard_span b);
/* Floats that this rank owns in all buckets before this one: where its moments of the bucket lie.  bucket_count:
 * all. */
size_t shards_place(const shards *s, size_t bucket);
/* Floats that the rank which owns most owns: no rank needs more memory. */
size_t shards_most(size_t floats, int ranks);

#endif
