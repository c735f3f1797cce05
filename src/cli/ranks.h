/* cli/ranks.h - a command that several processes run together (mpirun -n 4 alibi train ...). */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include "comm/comm.h"

/* Joins the others, as --ranks says (comm_open).  From then on all but rank 0 are silent, and where the ranks of a
 * machine may use the same processors, each has its share of them as threads.  Once in a process; ranks_close is
 * called by main. */
status ranks_open(const char *name, alibi_error *error);
/* Cuts sequences among groups of `size` ranks (comm_split), after ranks_open. */
status ranks_split(int64_t size, alibi_error *error);
comm *ranks_comm(void);
comm *ranks_sequence_comm(void); /* NULL: sequences are whole */
/* Is this the rank that writes and speaks? */
bool ranks_lead(void);

/* At the end, when a failure has been said. */
void ranks_close(status result, int exit_code);

#endif
