/* comm/comm.h - several processes at work on one thing.
 *
 * A communicator of one rank costs nothing: every call returns at once, and NULL is one.  With more ranks, every
 * rank makes the same calls in the same order.  All calls come from one thread.
 *
 * Sums.  Blocks of floats are summed by a ring: the sum of chunk k over n ranks is
 * ((x[k+1] + x[k+2]) + ... + x[n-1] + x[0] + ...) + x[k], ranks modulo n: an order that depends on n and k alone,
 * so the same ranks give the same bits in every run.  Rank k ends with the sum of chunk k, and only of that.
 * Doubles and integers are summed in the order of the ranks, and every rank has the result.
 *
 * Blocks are queued by comm_reduce_begin and comm_gather_begin and move whenever a call of this header is made:
 * comm_progress between two pieces of work lets them.  They are completed in the order in which they were begun.
 *
 * Failures.  A status that one rank has reaches the others at the next comm_agree: all then return, with one
 * sentence.  A rank that cannot go on to one (comm_close with a failure that was not agreed on) ends all the
 * others.  A rank that dies is noticed by the launcher, which ends the others (mpiexec does; srun with
 * --kill-on-bad-exit=1). */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct comm comm;

/* name: "self", "mpi", or "auto": mpi where this process was started as one of several, else self.  ALIBI_INVALID
 * where the name is unknown, ALIBI_FAILED where the ranks do not find each other. */
status comm_open(const char *name, comm **c, alibi_error *error);
/* result: how the work ended on this rank.  A failure that comm_agree did not report ends all ranks, with the exit
 * code, and this call does not return then: say the sentence before. */
void comm_close(comm *c, status result, int exit_code);

/* All ranks make this call: each gets the group of `size` neighbouring ranks that it is in, for which all calls
 * here hold, with ranks counted in the group.  Blocks of all ranks move while a group waits.  A failure that a
 * group agreed on is unknown to others.  NULL where size is 1; ALIBI_INVALID where it does not divide the ranks.
 * comm_close leaves a group, before all ranks are left. */
status comm_split(comm *c, int size, comm **group, alibi_error *error);

/* Names of the registry, "self, mpi", for sentences. */
const char *comm_names(void);

int comm_rank(const comm *c);
int comm_ranks(const comm *c);
int comm_local_ranks(const comm *c); /* on this machine */

/* The chunk of a block of `count` floats that a rank owns: *from is a multiple of 16; *n may be 0. */
void comm_chunk(int ranks, int rank, size_t count, size_t *from, size_t *n);

/* Queues the sum of a block over the ranks, in place: when it is done, the own chunk holds the sum, the rest is in
 * between. ticket (may be NULL) is for comm_wait. */
status comm_reduce_begin(comm *c, float *x, size_t count, uint64_t *ticket, alibi_error *error);
/* Queues a block whose every chunk goes from its owner to all. */
status comm_gather_begin(comm *c, float *x, size_t count, uint64_t *ticket, alibi_error *error);
/* Moves what can move, and returns. */
status comm_progress(comm *c, alibi_error *error);
/* Until the block, and those before it, are done; all that were begun. */
status comm_wait(comm *c, uint64_t ticket, alibi_error *error);
status comm_finish(comm *c, alibi_error *error);

/* x [n] of every rank becomes the sum, in the order of the ranks; n at most COMM_FEW. */
enum { COMM_FEW = 64 };
status comm_sum_doubles(comm *c, double *x, size_t n, alibi_error *error);
status comm_sum_integers(comm *c, int64_t *x, size_t n, alibi_error *error);

/* *x becomes the largest of all ranks. */
status comm_largest(comm *c, int64_t *x, alibi_error *error);

/* all [ranks, bytes]: mine of every rank; bytes is the same on all. */
status comm_all_gather(comm *c, const void *mine, size_t bytes, void *all, alibi_error *error);
status comm_broadcast(comm *c, void *data, size_t bytes, int from, alibi_error *error);
status comm_barrier(comm *c, alibi_error *error);

/* The ranks' own work failed in a place where the others could not be told: comm_close will end them all. */
bool comm_is_broken(const comm *c);
/* Says that this is so. */
void comm_break(comm *c);

/* ALIBI_OK where all ranks bring it.  Otherwise every rank returns the same failure, that of the lowest rank that
 * has one, the interruption of a rank only where nothing worse happened.  "rank 2: no space left" where only some
 * ranks failed; the plain sentence where all did, and of an interruption. */
status comm_agree(comm *c, status result, alibi_error *error);

/* Bytes of every rank, rank after rank, to rank 0, which hands them to sink piece by piece.  Ends as comm_agree: a
 * sink that fails is called no more, and every rank returns its failure. */
typedef status (*comm_sink)(void *user, const void *data, size_t bytes, alibi_error *error);
status comm_collect(comm *c, const void *data, size_t bytes, comm_sink sink, void *user, alibi_error *error);

/* Messages between pairs of ranks, all at once: begin starts them, finish waits for all.  What a rank sends to
 * another in one exchange that one receives in the same order, in messages of the same sizes.  One exchange at a
 * time. */
typedef struct comm_message {
  int rank; /* the other one */
  bool send;
  void *data; /* not changed where sent */
  size_t bytes;
} comm_message;
status comm_exchange_begin(comm *c, const comm_message *messages, size_t count, alibi_error *error);
status comm_exchange_finish(comm *c, alibi_error *error);

/* What moving blocks has cost this rank so far. */
typedef struct comm_cost {
  double wait_seconds; /* in comm_wait and comm_finish */
  double add_seconds;  /* adding what came */
  uint64_t bytes_sent, blocks;
} comm_cost;
comm_cost comm_cost_of(const comm *c);

#endif
