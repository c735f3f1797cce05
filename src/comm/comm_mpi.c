/* MPI, as far as it concerns a process that may never need it: who was started as one of several, and loading the
 * module that holds the calls.  The one idea: mpi.h is in the module alone (mpi_calls.c), so a program that is
 * built with MPI starts as fast as one that is not, and runs where no MPI is installed. */
#include <stdlib.h>

#include "base/module.h"
#include "base/number.h"
#include "comm/transport.h"

extern const comm_transport comm_transport_mpi;

/* Variables in which launchers say how many they started: Hydra (MPICH, Intel MPI, MVAPICH) and PMI 1 and 2, Open
 * MPI, and a step of Slurm, whatever its PMI.  SLURM_NTASKS is none: a batch script has it too. */
static const char *const counts[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "MPI_WORLD_SIZE",
                                     "SLURM_STEP_NUM_TASKS"};
/* Set for a rank by launchers that do not say how many there are. */
static const char *const signs[] = {"PMI_RANK", "PMIX_RANK"};

static int launched(void)
{
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    const char *text = getenv(counts[i]);
    int64_t ranks;
    if (!text || !integer_read(text, &ranks) || ranks < 1 || ranks > 1 << 24) continue;
    /* The batch script of a job is a step of one task itself. */
    if (ranks > 1 || i + 1 < sizeof counts / sizeof counts[0]) return (int)ranks;
  }
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
    if (getenv(signs[i])) return -1;
  return 0;
}

static status load(const transport_calls **calls, alibi_error *error)
{
#ifdef COMM_MPI_FOLDER
  static const char *const folders[] = {".", COMM_MPI_FOLDER, "alibi", NULL};
  void *found = NULL;
  status result =
      module_load("MPI", "ALIBI_MPI_MODULE", "alibi_mpi.so", folders, "alibi_transport_calls", &found, error);
  if (result != ALIBI_OK) return result;
  const transport_calls *table = found;
  if (table->version != TRANSPORT_VERSION || table->size != sizeof *table)
    return fail(error, ALIBI_FAILED,
                "MPI: alibi_mpi.so is of another version of alibi (set ALIBI_MPI_MODULE to its path)");
  *calls = table;
  return ALIBI_OK;
#else
  *calls = NULL;
  return fail(error, ALIBI_FAILED, "MPI: this alibi was built without it%s",
              launched() ? ", and was started as one of several (--ranks self: each for itself)" : "");
#endif
}

const comm_transport comm_transport_mpi = {.name = "mpi", .launched = launched, .load = load};
