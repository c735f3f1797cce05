/* A communicator: opening and leaving it, and everything that is not a block of floats.  The one idea: the
 * transport is asked whether something has come, never to wait for it; who waits moves the queue of blocks
 * meanwhile and gives the processor away, so that more ranks than processors work too. */
#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "comm/ring.h"

#include "comm_transport_registry.inc"

enum {
  TAG_COLLECT = TRANSPORT_TAGS / 2, /* below: blocks */
  TAG_EXCHANGE,
  PIECE = 1 << 20,            /* bytes of comm_collect at once */
  TURNS_BEFORE_YIELD = 200,   /* of asking: an answer from another processor of this machine comes within */
  TURNS_BEFORE_SLEEP = 100000 /* some 50 ms: a step of training that all take part in does not come so far */
};

/* Seconds between a rank's last sentence and the end of all: mpiexec drops what it has not read by then. */
static const double TIME_TO_BE_HEARD = 0.3;

struct comm {
  const transport_calls *calls; /* NULL: one rank */
  comm *all_ranks;              /* of a group; NULL: this is they */
  transport_world world;
  ring ring;
  bool broken;                 /* the transport failed: there is no way back to the others */
  bool agreed;                 /* the last comm_agree reported a failure */
  char *all;                   /* [ranks, COMM_FEW * 8]: what each brought to a sum */
  char *piece;                 /* [PIECE] of rank 0 */
  transport_request *requests; /* of the exchange */
  size_t request_count, request_capacity;
};

static bool is_alone(const comm *c)
{
  return !c || !c->calls;
}

const char *comm_names(void)
{
  static char names[64];
  size_t used = 0;
  for (int i = 0; i < COMM_TRANSPORT_COUNT && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                             comm_transport_registry[i]->name);
  return names;
}

static status find_transport(const char *name, const comm_transport **found, alibi_error *error)
{
  *found = comm_transport_registry[0];
  for (int i = 0; i < COMM_TRANSPORT_COUNT; i++) {
    const comm_transport *row = comm_transport_registry[i];
    bool wanted = strcmp(name, "auto") == 0 ? row->launched() != 0 : strcmp(name, row->name) == 0;
    if (!wanted) continue;
    *found = row;
    return ALIBI_OK;
  }
  if (strcmp(name, "auto") == 0) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "ranks: expected auto, %s, found '%s'", comm_names(), name);
}

/* A launcher that started several and a transport that sees one: each would train on its own, into the same files.
 */
static status check_world(const comm_transport *row, const transport_world *world, alibi_error *error)
{
  int launched = row->launched();
  if (launched <= 0 || launched == world->ranks) return ALIBI_OK;
  return fail(error, ALIBI_FAILED,
              "%s: the launcher started %d ranks, but %d found each other (is its mpiexec or srun of the MPI that "
              "alibi was "
              "built with?)",
              row->name, launched, world->ranks);
}

status comm_open(const char *name, comm **out, alibi_error *error)
{
  const comm_transport *row;
  comm *c = NULL;
  status result;
  bool opened = false;
  *out = NULL;
  TRY(find_transport(name, &row, error));
  TRY(memory_new(&c, 1, sizeof *c, "a communicator", error));
  c->world = (transport_world){.rank = 0, .ranks = 1, .local_ranks = 1};
  TRY(row->load(&c->calls, error));
  if (c->calls) {
    TRY(c->calls->open(&c->world, error));
    opened = true;
    TRY(check_world(row, &c->world, error));
    TRY(memory_new(&c->all, (size_t)c->world.ranks, COMM_FEW * sizeof(double), "a communicator", error));
    TRY(ring_new(c->calls, &c->world, &c->ring, error));
    if (c->world.ranks == 1) {
      c->calls->close(0);
      c->calls = NULL;
    }
  }
  *out = c;
  return ALIBI_OK;
done:
  if (opened && c->world.ranks == 1) c->calls->close(0);
  if (opened && c->world.ranks > 1) { /* comm_close then ends the others */
    c->broken = true;
    *out = c;
    return result;
  }
  if (c) ring_free(&c->ring);
  if (c) memory_free(c->all);
  memory_free(c);
  return result;
}

status comm_split(comm *c, int size, comm **group, alibi_error *error)
{
  comm *g = NULL;
  status result = ALIBI_OK;
  *group = NULL;
  if (size < 1 || comm_ranks(c) % size != 0)
    return fail(error, ALIBI_INVALID, "groups of %d ranks: expected a number that divides the %d ranks", size,
                comm_ranks(c));
  if (size == 1) return ALIBI_OK;
  result = memory_new(&g, 1, sizeof *g, "a communicator", error);
  if (result == ALIBI_OK) {
    g->calls = c->calls;
    g->all_ranks = c;
    result = memory_new(&g->all, (size_t)size, COMM_FEW * sizeof(double), "a communicator", error);
  }
  TRY(comm_agree(c, result, error));
  result = c->calls->split(size, &g->world, error);
  if (result != ALIBI_OK) c->broken = true;
  if (result == ALIBI_OK) result = ring_new(g->calls, &g->world, &g->ring, error);
  TRY(comm_agree(c, result, error));
  *group = g;
  return ALIBI_OK;
done:
  if (g && g->world.place > 0 && !c->broken) g->calls->close(g->world.place);
  if (g) memory_free(g->all);
  memory_free(g);
  return result;
}

/* Where something failed, whoever closes all ranks ends the process. */
static void leave_group(comm *g)
{
  if (!g->broken && !g->all_ranks->broken) g->calls->close(g->world.place);
}

void comm_close(comm *c, status result, int exit_code)
{
  if (!c) return;
  if (c->all_ranks) {
    leave_group(c);
  } else if (c->calls) {
    bool alone = c->broken || (result != ALIBI_OK && !c->agreed);
    if (alone) {
      descriptors_wait(NULL, 0, TIME_TO_BE_HEARD, NULL);
      c->calls->stop(exit_code);
    }
    c->calls->close(0);
  }
  ring_free(&c->ring);
  free(c->requests);
  memory_free(c->piece);
  memory_free(c->all);
  memory_free(c);
}

int comm_rank(const comm *c)
{
  return c ? c->world.rank : 0;
}
int comm_ranks(const comm *c)
{
  return c ? c->world.ranks : 1;
}
int comm_local_ranks(const comm *c)
{
  return c ? c->world.local_ranks : 1;
}
bool comm_is_broken(const comm *c)
{
  return c && (c->broken || (c->all_ranks && c->all_ranks->broken));
}
void comm_break(comm *c)
{
  if (is_alone(c)) return;
  c->broken = true;
  if (c->all_ranks) c->all_ranks->broken = true;
}
comm_cost comm_cost_of(const comm *c)
{
  return c ? c->ring.cost : (comm_cost){0};
}

/* After a failure of the transport, or in the middle of a sum, the others cannot be told. */
static status noted(comm *c, status result)
{
  if (result != ALIBI_OK) comm_break(c);
  return result;
}

/* What can move, of all ranks' blocks too while a group waits. */
static status move(comm *c, bool *moved, alibi_error *error)
{
  bool others = false;
  status result = ring_progress(&c->ring, moved, error);
  if (result == ALIBI_OK && c->all_ranks) result = ring_progress(&c->all_ranks->ring, &others, error);
  *moved = *moved || others;
  return result;
}

/* While others compute: first asks on, then lets other ranks of this machine run, then sleeps. */
static void relax(int *turns)
{
  if (*turns < TURNS_BEFORE_SLEEP) ++*turns;
  if (*turns >= TURNS_BEFORE_SLEEP) descriptors_wait(NULL, 0, 0.0005, NULL);
  else if (*turns > TURNS_BEFORE_YIELD) system_yield();
}

static status await(comm *c, transport_request *request, alibi_error *error)
{
  status result = ALIBI_OK;
  int turns = 0;
  while (request->active) {
    bool done = false, moved;
    TRY(c->calls->test(request, &done, error));
    if (done) break;
    TRY(move(c, &moved, error));
    if (moved) turns = 0;
    else relax(&turns);
  }
done:
  return result;
}

status comm_reduce_begin(comm *c, float *x, size_t count, uint64_t *ticket, alibi_error *error)
{
  if (ticket) *ticket = 0;
  return is_alone(c) ? ALIBI_OK : noted(c, ring_begin(&c->ring, RING_REDUCE, x, count, ticket, error));
}

status comm_gather_begin(comm *c, float *x, size_t count, uint64_t *ticket, alibi_error *error)
{
  if (ticket) *ticket = 0;
  return is_alone(c) ? ALIBI_OK : noted(c, ring_begin(&c->ring, RING_GATHER, x, count, ticket, error));
}

status comm_progress(comm *c, alibi_error *error)
{
  bool moved;
  return is_alone(c) ? ALIBI_OK : noted(c, move(c, &moved, error));
}

status comm_wait(comm *c, uint64_t ticket, alibi_error *error)
{
  if (is_alone(c) || ring_is_done(&c->ring, ticket)) return ALIBI_OK;
  status result = ALIBI_OK;
  double began = system_seconds();
  int turns = 0;
  while (!ring_is_done(&c->ring, ticket)) {
    bool moved;
    TRY(noted(c, move(c, &moved, error)));
    if (moved) turns = 0;
    else relax(&turns);
  }
done:
  c->ring.cost.wait_seconds += system_seconds() - began;
  return result;
}

status comm_finish(comm *c, alibi_error *error)
{
  return comm_wait(c, UINT64_MAX, error);
}

status comm_all_gather(comm *c, const void *mine, size_t bytes, void *all, alibi_error *error)
{
  if (is_alone(c)) {
    memcpy(all, mine, bytes);
    return ALIBI_OK;
  }
  transport_request request = {0};
  status result;
  TRY(c->calls->all_gather(c->world.place, mine, bytes, all, &request, error));
  TRY(await(c, &request, error));
done:
  return noted(c, result);
}

static status all_gather(comm *c, const void *mine, size_t bytes, alibi_error *error)
{
  return comm_all_gather(c, mine, bytes, c->all, error);
}

status comm_sum_doubles(comm *c, double *x, size_t n, alibi_error *error)
{
  if (is_alone(c)) return ALIBI_OK;
  if (n > COMM_FEW)
    return fail(error, ALIBI_INVALID, "sum over ranks: expected at most %d numbers, found %zu", COMM_FEW, n);
  status result = all_gather(c, x, n * sizeof *x, error);
  if (result != ALIBI_OK) return result;
  const double *all = (const double *)(const void *)c->all;
  for (size_t i = 0; i < n; i++) {
    x[i] = all[i];
    for (int r = 1; r < c->world.ranks; r++) x[i] += all[(size_t)r * n + i];
  }
  return ALIBI_OK;
}

status comm_sum_integers(comm *c, int64_t *x, size_t n, alibi_error *error)
{
  if (is_alone(c)) return ALIBI_OK;
  if (n > COMM_FEW)
    return fail(error, ALIBI_INVALID, "sum over ranks: expected at most %d numbers, found %zu", COMM_FEW, n);
  status result = all_gather(c, x, n * sizeof *x, error);
  if (result != ALIBI_OK) return result;
  const int64_t *all = (const int64_t *)(const void *)c->all;
  for (size_t i = 0; i < n; i++) {
    x[i] = 0;
    for (int r = 0; r < c->world.ranks; r++) x[i] += all[(size_t)r * n + i];
  }
  return ALIBI_OK;
}

status comm_largest(comm *c, int64_t *x, alibi_error *error)
{
  if (is_alone(c)) return ALIBI_OK;
  status result = all_gather(c, x, sizeof *x, error);
  if (result != ALIBI_OK) return result;
  const int64_t *all = (const int64_t *)(const void *)c->all;
  for (int r = 0; r < c->world.ranks; r++)
    if (all[r] > *x) *x = all[r];
  return ALIBI_OK;
}

status comm_broadcast(comm *c, void *data, size_t bytes, int from, alibi_error *error)
{
  if (is_alone(c)) return ALIBI_OK;
  status result = ALIBI_OK;
  for (size_t at = 0; at < bytes;) {
    size_t n = bytes - at < TRANSPORT_LARGEST ? bytes - at : TRANSPORT_LARGEST;
    transport_request request = {0};
    TRY(c->calls->broadcast(c->world.place, (char *)data + at, n, from, &request, error));
    TRY(await(c, &request, error));
    at += n;
  }
done:
  return noted(c, result);
}

status comm_barrier(comm *c, alibi_error *error)
{
  if (is_alone(c)) return ALIBI_OK;
  char nothing = 0;
  return all_gather(c, &nothing, 1, error);
}

/* What all ranks brought to an agreement. */
typedef struct verdict {
  int from;      /* the rank whose failure counts; -1: none failed */
  bool all_same; /* all brought the same */
} verdict;

static verdict judge(const comm *c)
{
  verdict v = {.from = -1, .all_same = true};
  int32_t first = ALIBI_OK, worst = ALIBI_OK;
  for (int r = 0; r < c->world.ranks; r++) {
    int32_t code;
    memcpy(&code, c->all + (size_t)r * sizeof code, sizeof code);
    if (r == 0) first = code;
    if (code != first) v.all_same = false;
    if (code == ALIBI_OK || (worst != ALIBI_OK && (worst != ALIBI_CANCELLED || code == ALIBI_CANCELLED))) continue;
    worst = code;
    v.from = r;
  }
  return v;
}

status comm_agree(comm *c, status own, alibi_error *error)
{
  if (is_alone(c) || (comm_is_broken(c) && own != ALIBI_OK)) return own;
  if (comm_is_broken(c)) return fail(error, ALIBI_FAILED, "the other ranks cannot be reached");
  alibi_error said;
  alibi_error_init(&said);
  int32_t code = (int32_t)own;
  status result = all_gather(c, &code, sizeof code, error);
  if (result != ALIBI_OK) return result;
  verdict v = judge(c);
  c->agreed = v.from >= 0;
  if (v.from < 0) return ALIBI_OK;
  if (v.from == c->world.rank) {
    const char *sentence = error ? error->message : "";
    said.status = own;
    if (own == ALIBI_CANCELLED || v.all_same) snprintf(said.message, sizeof said.message, "%s", sentence);
    else
      snprintf(said.message, sizeof said.message, "rank %d: %.*s", v.from, (int)sizeof said.message - 32,
               sentence);
  }
  result = comm_broadcast(c, &said, sizeof said, v.from, error);
  if (result != ALIBI_OK) return result;
  if (error) *error = said;
  return said.status;
}

static status receive_pieces(comm *c, int from, size_t bytes, comm_sink sink, void *user, status *sunk,
                             alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t at = 0; at < bytes;) {
    size_t n = bytes - at < PIECE ? bytes - at : PIECE;
    transport_request request = {0};
    TRY(c->calls->receive(c->world.place, c->piece, n, from, TAG_COLLECT, &request, error));
    TRY(await(c, &request, error));
    if (*sunk == ALIBI_OK) *sunk = sink(user, c->piece, n, error);
    at += n;
  }
done:
  return noted(c, result);
}

static status send_pieces(comm *c, const char *data, size_t bytes, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t at = 0; at < bytes;) {
    size_t n = bytes - at < PIECE ? bytes - at : PIECE;
    transport_request request = {0};
    TRY(c->calls->send(c->world.place, data + at, n, 0, TAG_COLLECT, &request, error));
    TRY(await(c, &request, error));
    at += n;
  }
done:
  return noted(c, result);
}

status comm_collect(comm *c, const void *data, size_t bytes, comm_sink sink, void *user, alibi_error *error)
{
  if (is_alone(c)) return bytes ? sink(user, data, bytes, error) : ALIBI_OK;
  bool first = c->world.rank == 0;
  uint64_t size = bytes;
  status result = ALIBI_OK, sunk = ALIBI_OK;
  if (first && !c->piece) result = memory_new(&c->piece, PIECE, 1, "what other ranks send", error);
  TRY(comm_agree(c, result, error));
  TRY(all_gather(c, &size, sizeof size, error));
  if (first && bytes) sunk = sink(user, data, bytes, error);
  if (!first) TRY(send_pieces(c, data, bytes, error));
  for (int r = 1; first && r < c->world.ranks; r++) {
    memcpy(&size, c->all + (size_t)r * sizeof size, sizeof size);
    TRY(receive_pieces(c, r, (size_t)size, sink, user, &sunk, error));
  }
  result = comm_agree(c, sunk, error);
done:
  return result;
}

status comm_exchange_begin(comm *c, const comm_message *messages, size_t count, alibi_error *error)
{
  if (is_alone(c)) return count == 0 ? ALIBI_OK : fail(error, ALIBI_INVALID, "exchange: there is one rank only");
  if (c->request_count) return fail(error, ALIBI_INVALID, "exchange: expected the one before to be finished");
  status result =
      memory_grow(&c->requests, &c->request_capacity, count, sizeof *c->requests, "an exchange", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < count; i++)
    if (messages[i].bytes > TRANSPORT_LARGEST || messages[i].rank < 0 || messages[i].rank >= c->world.ranks ||
        messages[i].rank == c->world.rank)
      return fail(error, ALIBI_INVALID,
                  "exchange: message %zu: expected another rank below %d and at most %d bytes", i, c->world.ranks,
                  TRANSPORT_LARGEST);
  for (size_t i = 0; i < count; i++) {
    const comm_message *m = &messages[i];
    transport_request *request = &c->requests[c->request_count++];
    *request = (transport_request){0};
    if (m->send) TRY(c->calls->send(c->world.place, m->data, m->bytes, m->rank, TAG_EXCHANGE, request, error));
    else TRY(c->calls->receive(c->world.place, m->data, m->bytes, m->rank, TAG_EXCHANGE, request, error));
  }
done:
  return noted(c, result);
}

status comm_exchange_finish(comm *c, alibi_error *error)
{
  if (is_alone(c)) return ALIBI_OK;
  status result = ALIBI_OK;
  for (size_t i = 0; i < c->request_count; i++) TRY(await(c, &c->requests[i], error));
  c->request_count = 0;
done:
  return noted(c, result);
}
