/* allocations.h - counts the program's allocations, where its allocator can be replaced.  In one file of each. */
#ifndef UNIT_ALLOCATIONS_H
#define UNIT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdlib.h>

#if defined(__has_feature)
#define CLANG_SANITIZES (__has_feature(address_sanitizer))
#else
#define CLANG_SANITIZES 0
#endif
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !CLANG_SANITIZES
#define COUNTS_ALLOCATIONS 1
/* The program's own allocator: glibc's, counted. */
static size_t volatile allocations;
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size);
#define COUNTED(declaration, call)                                                                            \
  declaration                                                                                                 \
  {                                                                                                           \
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);                                                    \
    return call;                                                                                              \
  }
COUNTED(void *malloc(size_t size), __libc_malloc(size))
COUNTED(void *calloc(size_t count, size_t size), __libc_calloc(count, size))
COUNTED(void *realloc(void *pointer, size_t size), __libc_realloc(pointer, size))
COUNTED(void *aligned_alloc(size_t alignment, size_t size), __libc_memalign(alignment, size))
COUNTED(void *memalign(size_t alignment, size_t size), __libc_memalign(alignment, size))
#else
#define COUNTS_ALLOCATIONS 0
static size_t volatile allocations;
#endif


static inline bool allocations_are_counted(void)
{
  size_t before = allocations;
  void *volatile something = malloc(1); /* volatile: or the compiler sees through it */
  free(something);
  return allocations > before;
}

#endif
