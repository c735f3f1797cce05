/* comm/transport.h - how ranks reach each other: a table of calls that move bytes, and the registry of such
 * tables.
 *
 * A transport moves bytes and adds nothing up: sums, their order and their progress are comm's own (comm/ring.h).
 * All calls come from one thread.  Nothing blocks but open and close: what is begun is tested until it is done. */
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
  TRANSPORT_LARGEST = 1 << 30, /* bytes of one message */
  TRANSPORT_TAGS = 32768,      /* tags are below */
  TRANSPORT_PLACES = 8,        /* all ranks, and groups of them, at once */
  TRANSPORT_VERSION = 2
};

/* Something on its way.  {0} is done. */
typedef struct transport_request {
  uint64_t handle;
  bool active;
} transport_request;

typedef struct transport_world {
  int rank, ranks;
  int local_ranks; /* on this machine, with this one */
  int place;       /* 0: all ranks; else a group, whose messages and ranks are its own */
} transport_world;

typedef struct transport_calls {
  uint32_t version, size; /* of this table: a module of another build is refused */

  /* Joins the other ranks; once in a process. */
  status (*open)(transport_world *world, alibi_error *error);
  /* All ranks together: groups of `size` neighbouring ranks, which divides their number. */
  status (*split)(int size, transport_world *group, alibi_error *error);
  /* Leaves a group, or all, together with the others. */
  void (*close)(int place);
  /* Ends all ranks, and this process, with an exit code. */
  void (*stop)(int exit_code);

  /* Messages between two ranks with the same tag arrive in the order in which they were sent. */
  status (*send)(int place, const void *data, size_t bytes, int to, int tag, transport_request *request,
                 alibi_error *error);
  status (*receive)(int place, void *data, size_t bytes, int from, int tag, transport_request *request,
                    alibi_error *error);
  /* all [ranks, bytes]: mine of every rank. */
  status (*all_gather)(int place, const void *mine, size_t bytes, void *all, transport_request *request,
                       alibi_error *error);
  status (*broadcast)(int place, void *data, size_t bytes, int from, transport_request *request,
                      alibi_error *error);
  /* Moves what can move; done: nothing is on its way any more. */
  status (*test)(transport_request *request, bool *done, alibi_error *error);
} transport_calls;

/* A row of the registry. */
typedef struct comm_transport {
  const char *name;
  /* Ranks that a launcher started, as far as the environment tells: 0 none, -1 some. */
  int (*launched)(void);
  /* NULL calls: this process is alone. */
  status (*load)(const transport_calls **calls, alibi_error *error);
} comm_transport;

#endif
