/* base/memory.h - checked sizes, aligned memory, arenas. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { MEMORY_ALIGNMENT = 64 }; /* a cache line, and the widest vector */

/* a*b and a+b; SIZE_MAX where the true value does not fit, which no allocation grants. */
size_t size_mul(size_t a, size_t b);
size_t size_add(size_t a, size_t b);
size_t size_round_up(size_t value, size_t multiple);

/* count objects of `size` bytes, aligned, zeroed.  `what` names them in the error.  Free with memory_free. */
status memory_new(void *pointer_out, size_t count, size_t size, const char *what, alibi_error *error);
void memory_free(void *pointer);

/* Grows *pointer (from malloc/realloc; free() it) so that it holds at least `count` objects. */
status memory_grow(void *pointer_inout, size_t *capacity, size_t count, size_t size, const char *what,
                   alibi_error *error);

/* An arena hands out pieces of one block.  With base == NULL it only counts, so one layout function first
 * sizes the block and then, run again, hands out the pointers. */
typedef struct arena {
  char *base;
  size_t used, size;
} arena;

void *arena_take(arena *a, size_t count, size_t size);
static inline float *arena_floats(arena *a, size_t count) { return arena_take(a, count, sizeof(float)); }

/* Call after a counting pass: allocates a->used bytes and rewinds.  arena_free releases the block. */
status arena_allocate(arena *a, const char *what, alibi_error *error);
/* The same, but not zeroed: its pages become real as they are written. */
status arena_allocate_untouched(arena *a, const char *what, alibi_error *error);
void arena_free(arena *a);

#endif
