/* The calls of MPI, in a module of their own: the only file that knows mpi.h.  The one idea: a request of MPI,
 * whatever type it has, is kept as eight bytes, and an error code becomes a sentence where it comes up. */
#include <mpi.h>
#include <string.h>

#include "comm/transport.h"

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request of MPI fits into a handle");

/* Our own: messages of others who use MPI in this process are not ours. */
static MPI_Comm world = MPI_COMM_NULL;
static MPI_Comm groups[TRANSPORT_PLACES]; /* from 1 on */
static bool in_use[TRANSPORT_PLACES];
static bool initialised_here;

static status check(int code, const char *what, alibi_error *error)
{
  if (code == MPI_SUCCESS) return ALIBI_OK;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  for (char *at = text; *at; at++)
    if (*at == '\n') *at = ' ';
  return fail(error, ALIBI_FAILED, "MPI: %s: %s", what, text);
}

static void keep(MPI_Request request, transport_request *kept)
{
  kept->handle = 0;
  memcpy(&kept->handle, &request, sizeof request);
  kept->active = true;
}

static MPI_Comm at(int place)
{
  return place > 0 ? groups[place] : world;
}

static void leave(int place)
{
  int finalised = 0;
  MPI_Finalized(&finalised);
  if (finalised) return;
  for (int i = 1; i < TRANSPORT_PLACES; i++) {
    if (!in_use[i] || (place > 0 && i != place)) continue;
    MPI_Comm_free(&groups[i]);
    in_use[i] = false;
  }
  if (place > 0) return;
  if (world != MPI_COMM_NULL) MPI_Comm_free(&world);
  if (initialised_here) MPI_Finalize();
}

static status join(transport_world *w, alibi_error *error)
{
  status result;
  int initialised = 0, finalised = 0, provided = MPI_THREAD_FUNNELED;
  MPI_Comm local = MPI_COMM_NULL;
  TRY(check(MPI_Initialized(&initialised), "asking whether it runs", error));
  TRY(check(MPI_Finalized(&finalised), "asking whether it runs", error));
  if (finalised) RAISE(error, ALIBI_INVALID, "MPI: it was ended in this process, and cannot be started again");
  if (!initialised) {
    TRY(check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "starting", error));
    initialised_here = true;
  } else {
    TRY(check(MPI_Query_thread(&provided), "asking for its threads", error));
  }
  if (provided < MPI_THREAD_FUNNELED)
    RAISE(error, ALIBI_FAILED, "MPI: this one cannot be used in a program with threads");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  TRY(check(MPI_Comm_dup(MPI_COMM_WORLD, &world), "making a communicator", error));
  MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  TRY(check(MPI_Comm_rank(world, &w->rank), "asking for the rank", error));
  TRY(check(MPI_Comm_size(world, &w->ranks), "asking for the ranks", error));
  TRY(check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &local),
            "asking for the ranks of this machine", error));
  TRY(check(MPI_Comm_size(local, &w->local_ranks), "asking for the ranks of this machine", error));
  MPI_Comm_free(&local);
done:
  return result;
}

static status split(int size, transport_world *g, alibi_error *error)
{
  status result;
  int rank = 0, place = 1;
  while (place < TRANSPORT_PLACES && in_use[place]) place++;
  if (place == TRANSPORT_PLACES)
    RAISE(error, ALIBI_FAILED, "MPI: expected at most %d groups of ranks at once", TRANSPORT_PLACES - 1);
  TRY(check(MPI_Comm_rank(world, &rank), "asking for the rank", error));
  TRY(check(MPI_Comm_split(world, rank / size, rank, &groups[place]), "making a communicator", error));
  in_use[place] = true;
  MPI_Comm_set_errhandler(groups[place], MPI_ERRORS_RETURN);
  *g = (transport_world){.rank = rank % size, .ranks = size, .local_ranks = 1, .place = place};
done:
  return result;
}

static void stop(int exit_code)
{
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

static status send_bytes(int place, const void *data, size_t bytes, int to, int tag, transport_request *request,
                         alibi_error *error)
{
  MPI_Request r;
  status result = check(MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, at(place), &r), "sending", error);
  if (result == ALIBI_OK) keep(r, request);
  return result;
}

static status receive_bytes(int place, void *data, size_t bytes, int from, int tag, transport_request *request,
                            alibi_error *error)
{
  MPI_Request r;
  status result = check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, at(place), &r), "receiving", error);
  if (result == ALIBI_OK) keep(r, request);
  return result;
}

static status gather_all(int place, const void *mine, size_t bytes, void *all, transport_request *request,
                         alibi_error *error)
{
  MPI_Request r;
  int n = (int)bytes;
  status result = check(MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, at(place), &r), "gathering", error);
  if (result == ALIBI_OK) keep(r, request);
  return result;
}

static status spread(int place, void *data, size_t bytes, int from, transport_request *request, alibi_error *error)
{
  MPI_Request r;
  status result = check(MPI_Ibcast(data, (int)bytes, MPI_BYTE, from, at(place), &r), "spreading", error);
  if (result == ALIBI_OK) keep(r, request);
  return result;
}

static status test_request(transport_request *request, bool *done, alibi_error *error)
{
  MPI_Request r;
  int flag = 0;
  memcpy(&r, &request->handle, sizeof r);
  status result = check(MPI_Test(&r, &flag, MPI_STATUS_IGNORE), "waiting for a message", error);
  *done = flag != 0;
  if (flag) request->active = false;
  else keep(r, request);
  return result;
}

extern const transport_calls alibi_transport_calls;

__attribute__((visibility("default")))
const transport_calls alibi_transport_calls = {.version = TRANSPORT_VERSION,
                                               .size = sizeof(transport_calls),
                                               .open = join,
                                               .split = split,
                                               .close = leave,
                                               .stop = stop,
                                               .send = send_bytes,
                                               .receive = receive_bytes,
                                               .all_gather = gather_all,
                                               .broadcast = spread,
                                               .test = test_request};
