/* The ranks of this command.  They are left in main, after the last sentence: a rank that fails alone ends the
 * others then. */
#include "cli/ranks.h"

#include "base/system.h"
#include "cli/progress.h"
#include "cli/run.h"

static comm *joined;

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
  comm_close(joined, result, exit_code);
  joined = NULL;
}
