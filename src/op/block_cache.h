/* op/block_cache.h - keys and values that stay: lists of blocks of ATTENTION_BLOCK positions, with what the proof
 * of skipping needs.
 *
 * A list belongs to one layer and key-value head.  A key block is turned, [D, block], so that neither decoding nor
 * prefill turns it again; a value block is [block, D padded to ATTENTION_PAD].  Whole blocks may be shared between
 * caches: they lie in a store that lives as long as one of them.
 *
 * Blocks and tables are laid out alike for all instruction sets, which only copy into the one and allow for the
 * rounding of any in the other: a context may read a cache that was filled for another one's.
 *
 * A cache with a pool holds fewer blocks than its positions have.  When the pool is empty the list that is least
 * likely to miss it loses its oldest block (block_cache_reserve).  The table of the newest block that is gone
 * stays, so that a row still finds whether it stops there; those before it go with their blocks.  What a position
 * costs for ever is its part of the lists of blocks: 16 bytes for ATTENTION_BLOCK positions of the capacity, and 8
 * for each head with offsets.
 *
 * Offsets (BIAS_KEY) are stored, shared and dropped with their keys.  Where there is a pool they rise from key to
 * key, as running sums of gates do. */
#ifndef OP_BLOCK_CACHE_H
#define OP_BLOCK_CACHE_H

#include "base/context.h"
#include "base/error.h"
#include "base/memory.h"
#include "kernel/kernel.h"

typedef struct block_store {
  size_t users;
  struct block_store *parent; /* where the shared blocks lie; held by this one */
  arena memory;
} block_store;

typedef struct block_cache {
  const kernel_table *kernel;
  size_t lists, head_size, capacity;  /* capacity in positions */
  size_t blocks;                      /* of each list */
  float **key_blocks, **value_blocks; /* [lists][blocks]; NULL where there is none */
  size_t *first_block;                /* [lists] blocks before it were dropped */
  block_store *store;
  size_t pool;         /* blocks of all lists together; 0: every list has all of its own */
  size_t free_count;
  float **free_blocks; /* [pool] */
  size_t gates;        /* heads of each list whose keys have an offset: [gates, ATTENTION_BLOCK] double a block */
  double *ends;        /* [lists][gates][blocks] the offset of a full block's last key; outlives the block */
  arena memory;        /* of the lists */
  /* The proof of skipping, for `share` heads that read each list; 0: none. */
  size_t share;
  float *clusters;     /* [lists][PROOF_CLUSTERS, D], once block 0 is full */
  float *tables;       /* [room][share, PROOF_TABLE], the share of a list [share][its room, PROOF_TABLE] */
  size_t room;         /* of all lists, in blocks: with a pool, twice as many as have a table */
  size_t *table_at;    /* [lists + 1] where the room of a list begins */
  size_t *first_table; /* [lists] the block whose table lies there */
  float *slopes;       /* [lists][share] that the tables were made with; 0 with offsets */
  size_t *proved;      /* [lists]: blocks that have a table, or had one before they were dropped */
  /* With a pool: how far behind a row the nearest key was of the last block that a head visited, at most so far,
   * in positions, with offsets in what they fell by; and what the weights say that |scale| |q| |k| cannot exceed,
   * INFINITY where they say nothing, for rows with this tolerance. */
  double *reach;       /* [lists][share] */
  double *score_limit; /* [lists] */
  double log_tolerance;
  arena proof_memory;
} block_cache;

/* gates: heads of each list whose keys have an offset; 0: none. */
status block_cache_new(const kernel_table *kernel, size_t lists, size_t head_size, size_t gates, size_t capacity,
                       block_cache **cache, alibi_error *error);
void block_cache_free(block_cache *cache);

/* A cache with a pool of `kept` blocks for each list on average, at least PROOF_FROM + 1; for `share` heads a list
 * that skip with this tolerance, by kernels that can; gates: 0 or share. */
status block_cache_new_pool(const kernel_table *kernel, size_t lists, size_t head_size, size_t gates,
                            size_t capacity, size_t kept, size_t share, double tolerance, block_cache **cache,
                            alibi_error *error);

/* A cache that begins with the first `length` positions of another: whole blocks are shared, the rest is
 * copied. */
status block_cache_share(block_cache *from, size_t length, size_t capacity, block_cache **cache,
                         alibi_error *error);

/* The same into a cache with a pool, from one with or without: everything is copied that `from` has and the pool
 * can hold.  `from` has room for the proof. */
status block_cache_copy(block_cache *from, size_t length, size_t capacity, size_t kept, double tolerance,
                        block_cache **cache, alibi_error *error);

/* With a pool: blocks for `count` positions from `first` on in every list, where rows at `first` and later will
 * ask.  ALIBI_FAILED where no list may lose one.  Nothing is allocated. */
status block_cache_reserve(block_cache *cache, size_t first, size_t count, alibi_error *error);

/* With a pool: a row of a head at this position visited the blocks from `block` on. */
void block_cache_saw(block_cache *cache, size_t list, size_t head, size_t position, size_t block);

/* Blocks that all lists together hold, of those that positions below `length` have. */
size_t block_cache_held(const block_cache *cache, size_t length);

/* To be called when positions are to be stored again from 0: what is shared is left to the others. */
status block_cache_restart(block_cache *cache, alibi_error *error);

/* Keys and values of `count` positions from `first` on into one list; below capacity, and all before `first` are
 * there.  Bits do not depend on how positions are cut into calls. */
void block_cache_store(block_cache *cache, size_t list, size_t first, size_t count, const float *k,
                       size_t k_stride, const float *v, size_t v_stride);

/* The same for offsets [count, gates], rows `stride` apart. */
void block_cache_store_offsets(block_cache *cache, size_t list, size_t first, size_t count, const double *offsets,
                               size_t stride);
/* Of a position that is stored, in a block that was not dropped or at the end of any. */
double block_cache_offset(const block_cache *cache, size_t list, size_t head, size_t position);

/* Makes room for the proof, where there is none for as many heads a list. */
status block_cache_prepare_proof(block_cache *cache, size_t share, alibi_error *error);

/* Brings the tables of a list up to its first `blocks` blocks, which are full, for heads with these slopes
 * [share], which are always the same where there is a pool; NULL: no bias, or the offsets of a cache that has
 * them.  Without room for the proof: does nothing. */
void block_cache_prove(block_cache *cache, size_t list, size_t blocks, const float *slopes);

static inline float *block_cache_clusters(const block_cache *c, size_t list)
{
  return c->clusters + list * PROOF_CLUSTERS * c->head_size;
}

/* The oldest block of a list that has a table: one before those that are there. */
static inline size_t block_cache_oldest_table(const block_cache *c, size_t list)
{
  return c->first_block[list] > 0 ? c->first_block[list] - 1 : 0;
}

/* The table of block b lies at b * PROOF_TABLE, from the oldest one on; what lies before it may be read, and says
 * nothing. */
static inline float *block_cache_tables(const block_cache *c, size_t list, size_t head)
{
  size_t start = c->table_at[list], room = c->table_at[list + 1] - start;
  ptrdiff_t zero = (ptrdiff_t)(start * c->share + head * room) - (ptrdiff_t)c->first_table[list];
  return c->tables + zero * PROOF_TABLE;
}

/* That of block b at [b]. */
static inline double *block_cache_ends(const block_cache *c, size_t list, size_t head)
{
  return c->ends + (list * c->gates + head) * c->blocks;
}

#endif
