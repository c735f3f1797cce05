/* A program for tests/mpi/check_failures.sh: ranks of which one ends in the way that is asked for, while the
 * others wait for it. usage: fail_rank agreed|alone|killed|launcher */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "comm/comm.h"

enum { COUNT = 1 << 16 };

int main(int count, char **arguments)
{
  static float x[COUNT];
  const char *how = count > 1 ? arguments[1] : "";
  comm *c = NULL;
  alibi_error error;
  alibi_error_init(&error);
  status result = comm_open("auto", &c, &error);
  if (result == ALIBI_OK) {
    bool last = comm_rank(c) == comm_ranks(c) - 1;
    if (strcmp(how, "agreed") == 0) {
      if (last) result = fail(&error, ALIBI_BAD_INPUT, "a damaged shard");
      result = comm_agree(c, result, &error);
    } else if (last && strcmp(how, "alone") == 0) {
      result = fail(&error, ALIBI_FAILED, "rank %d: no memory", comm_rank(c));
    } else if (last && strcmp(how, "killed") == 0) {
      raise(SIGKILL);
    } else {
      result = comm_reduce_begin(c, x, COUNT, NULL, &error);
      if (result == ALIBI_OK) result = comm_finish(c, &error); /* for ever, but for the launcher */
    }
  }
  if (result != ALIBI_OK && (comm_rank(c) == 0 || strcmp(how, "alone") == 0))
    fprintf(stderr, "fail_rank: %s\n", error.message);
  int code = result == ALIBI_OK ? 0 : result == ALIBI_BAD_INPUT ? 3 : 1;
  comm_close(c, result, code);
  return code;
}
