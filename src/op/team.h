/* op/team.h - sharing the items of an operation among a team of threads: only here the library meets OpenMP. */
#ifndef OP_TEAM_H
#define OP_TEAM_H

#include <omp.h>
#include <stddef.h>

#include "base/context.h"

/* Work is cut into fixed pieces, whose number no thread changes: here one of them. */
typedef struct op_piece {
  size_t start, count;
} op_piece;

static inline size_t op_pieces_of(size_t n, size_t size)
{
  return (n + size - 1) / size;
}

static inline op_piece op_piece_at(size_t n, size_t size, size_t item)
{
  size_t start = item * size;
  return (op_piece){start, n - start < size ? n - start : size};
}

/* Threads for `items` pieces of work of `operations` multiply-adds or so together: all or the calling one, and no
 * bits depend on which.  Never some: libgomp ends the threads that a smaller team leaves over and makes them anew
 * for the next. */
static inline int op_threads(const alibi_context *context, size_t items, double operations)
{
  return items <= 1 || operations < context->worth_a_team ? 1 : context->threads;
}

/* Tells apart the threads that run at the same time, from 0. */
static inline size_t op_worker(void)
{
  return (size_t)omp_get_thread_num();
}

#define OP_PRAGMA(text) _Pragma(#text)

/* Runs the block at the end for every `item` below `items`; `worker` tells apart those that run at the same time.
 * `kind` is an OpenMP schedule.  The block is there twice, because even a parallel region of one thread costs a
 * visit to the runtime, and because inside a caller's own region omp_get_thread_num() is not ours. */
#define OP_FOR_ITEMS(context, kind, items, operations, ...)                                                   \
  do {                                                                                                        \
    const size_t items_ = (items);                                                                            \
    const int team_ = op_threads(context, items_, operations);                                                \
    if (team_ == 1) {                                                                                         \
      for (size_t item = 0; item < items_; item++) {                                                          \
        const size_t worker = 0;                                                                              \
        (void)worker;                                                                                         \
        __VA_ARGS__                                                                                           \
      }                                                                                                       \
    } else {                                                                                                  \
      OP_PRAGMA(omp parallel for num_threads(team_) schedule(kind))                                           \
      for (size_t item = 0; item < items_; item++) {                                                          \
        const size_t worker = op_worker();                                                                    \
        (void)worker;                                                                                         \
        __VA_ARGS__                                                                                           \
      }                                                                                                       \
    }                                                                                                         \
    if ((context)->between) (context)->between((context)->between_user);                                      \
  } while (0)

#endif
