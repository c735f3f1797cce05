/* The cut of the parameters among ranks: arithmetic alone. */
#include "train/parameter_shards.h"

#include "comm/comm.h"

/* Small enough that the first is on its way early in the backward pass; large enough that latency does not count.
 */
enum { SMALLEST_BUCKET = 1 << 12, LARGEST_BUCKET = 1 << 22, BUCKETS = 24, GRAIN = 16 };

shards shards_of(size_t floats, int rank, int ranks)
{
  shards s = {.rank = rank, .ranks = ranks, .floats = floats, .bucket_size = floats, .bucket_count = 1};
  if (ranks == 1) return s;
  size_t size = floats / BUCKETS;
  if (size < SMALLEST_BUCKET) size = SMALLEST_BUCKET;
  if (size > LARGEST_BUCKET) size = LARGEST_BUCKET;
  s.bucket_size = size / GRAIN * GRAIN;
  s.bucket_count = (floats + s.bucket_size - 1) / s.bucket_size;
  return s;
}

shard_span shards_bucket(const shards *s, size_t bucket)
{
  size_t from = bucket * s->bucket_size, left = s->floats - from;
  return (shard_span){from, left < s->bucket_size ? left : s->bucket_size};
}

shard_span shards_own(const shards *s, size_t bucket)
{
  shard_span all = shards_bucket(s, bucket), own;
  comm_chunk(s->ranks, s->rank, all.count, &own.from, &own.count);
  own.from += all.from;
  return own;
}

shard_span shards_common(shard_span a, shard_span b)
{
  size_t from = a.from > b.from ? a.from : b.from;
  size_t a_end = a.from + a.count, b_end = b.from + b.count, end = a_end < b_end ? a_end : b_end;
  return (shard_span){from, end > from ? end - from : 0};
}

size_t shards_place(const shards *s, size_t bucket)
{
  if (bucket == 0) return 0;
  size_t whole = bucket < s->bucket_count ? bucket : s->bucket_count - 1;
  size_t floats = whole ? whole * shards_own(s, 0).count : 0;
  return bucket == s->bucket_count ? floats + shards_own(s, whole).count : floats;
}

size_t shards_most(size_t floats, int ranks)
{
  shards s = shards_of(floats, 0, ranks); /* chunks of the first rank are the largest */
  return shards_place(&s, s.bucket_count);
}
