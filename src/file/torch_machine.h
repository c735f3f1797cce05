/* file/torch_machine.h - the machine under file/torch_pickle.h: it runs the opcodes of a pickle, and leaves a flat
 * table of values that refer to each other by number.  A call is remembered, not made; a name that is not one of
 * torch_globals is refused. */
#ifndef FILE_TORCH_MACHINE_H
#define FILE_TORCH_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "file/tensor_type.h"

typedef enum value_kind {
  VALUE_NONE,
  VALUE_BOOLEAN,
  VALUE_INTEGER,
  VALUE_REAL,
  VALUE_TEXT,
  VALUE_TUPLE,
  VALUE_LIST,
  VALUE_DICTIONARY,
  VALUE_GLOBAL,
  VALUE_STORAGE, /* a persistent id: its tuple */
  VALUE_CALL     /* of a global with a tuple */
} value_kind;

extern const char *const torch_kind_names[]; /* "a text", for sentences */

/* The names that are known; what a storage or a type means is its row. */
typedef enum global_kind {
  GLOBAL_TENSOR_V2,
  GLOBAL_TENSOR_V3,
  GLOBAL_PARAMETER,
  GLOBAL_ORDERED,
  GLOBAL_STORAGE,
  GLOBAL_BYTES,
  GLOBAL_TYPE
} global_kind;

typedef struct global_row {
  const char *module, *name;
  global_kind kind;
  tensor_type type;
} global_row;

extern const global_row torch_globals[];

typedef uint32_t handle; /* of a value */

typedef struct value {
  value_kind kind;
  handle first, second; /* TUPLE: place in items, count; DICTIONARY: first and last pair, from 1, 0: none;
                           GLOBAL: row; STORAGE: tuple; CALL: row, tuple */
  union {
    int64_t integer;
    size_t text; /* TEXT: place in the pickle; its size is `first` */
  } as;
} value;

typedef struct pair {
  handle key, value, next; /* next: from 1, 0: none */
} pair;

/* A list that grows. */
#define LIST(type)                                                                                                \
  struct {                                                                                                        \
    type *at;                                                                                                     \
    size_t count, capacity;                                                                                       \
  }

typedef struct machine {
  const char *path;
  const unsigned char *data;
  size_t size, place; /* of the next opcode's argument */
  size_t opcode;      /* its place */
  LIST(value) values;
  LIST(handle) items; /* of tuples */
  LIST(pair) pairs;
  LIST(handle) stack;
  LIST(size_t) marks; /* heights of the stack */
  LIST(handle) memo;  /* 0: nothing, else the handle + 1 */
  alibi_error *error;
} machine;

/* Runs all of m->data; m begins with path, data, size and error set.  *root: the value that is left.  Time and
 * memory are linear in m->size, which is below 4 GB.  ALIBI_BAD_INPUT where an opcode is not one of those that
 * torch writes, or finds not what it needs.  Free in any case. */
status torch_machine_run(machine *m, handle *root);
void torch_machine_free(machine *m);

/* Is that text of the pickle (not NUL-terminated) the wanted one? */
bool torch_text_is(const unsigned char *text, size_t size, const char *wanted);

#endif
