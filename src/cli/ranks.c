/* The ranks of this command.  They are left in main, after the last sentence: a rank that fails alone ends the
 * others then. */
#include "cli/ranks.h"

#include "base/system.h"
#include "cli/progress.h"
#include "cli/run.h"

static comm *joined, *group;

/* Processors that a launcher has not dealt out are shared: then the first one of all ranks is the same. */
static status share_processors(alibi_error *error)
{
  int64_t first = system_first_processor(), last = -first;
  status result = comm_largest(joined, &first, error);
  if (result == ALIBI_OK) result = comm_largest(joined, &last, error);
  if (result == ALIBI_OK && first == -last) cli_share_threads(comm_local_ranks(joined));
  return result;
}

status ranks_open(const char *name, alibi_error *error)
{
  status result = comm_open(name, &joined, error);
  if (result != ALIBI_OK || comm_ranks(joined) == 1) return result;
  if (!ranks_lead()) {
    cli_be_quiet();
    progress_open(stderr, PROGRESS_SILENT, -1);
  }
  return share_processors(error);
}

status ranks_split(int64_t size, alibi_error *error)
{
  int ranks = comm_ranks(joined);
  if (size > 1 && ranks == 1)
    return fail(error, ALIBI_INVALID,
                "--sequence-ranks %lld: expected as many processes, or a multiple (mpirun -n %lld alibi ...), "
                "found this one alone",
                (long long)size, (long long)size);
  if (size > ranks || ranks % size != 0)
    return fail(error, ALIBI_INVALID, "--sequence-ranks %lld: expected a number that divides the %d ranks",
                (long long)size, ranks);
  return comm_split(joined, (int)size, &group, error);
}

comm *ranks_sequence_comm(void)
{
  return group;
}

comm *ranks_comm(void)
{
  return joined;
}

bool ranks_lead(void)
{
  return comm_rank(joined) == 0;
}

void ranks_close(status result, int exit_code)
{
  comm_close(group, result, exit_code);
  comm_close(joined, result, exit_code);
  joined = group = NULL;
}
