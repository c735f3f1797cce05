/* ranks_case.h - what every test among ranks begins and ends with: a communicator of as many ranks as its argument
 * says. Include after cmocka.h and the headers of the house, among them comm/comm.h. */
#ifndef MPI_RANKS_CASE_H
#define MPI_RANKS_CASE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static comm *c;
static int rank, ranks;
static alibi_error error;

static inline void expect_ok(status result)
{
  if (result != ALIBI_OK) fail_msg("rank %d: %s", rank, error.message);
}

static inline void near(double found, double expected, double tolerance, const char *what)
{
  if (!(fabs(found - expected) <= tolerance * fabs(expected)))
    fail_msg("%s: expected %.12g, found %.12g", what, expected, found);
}

/* At the beginning of main.  Not among as many ranks as were asked for: exits. */
static inline void ranks_open(int count, char **arguments)
{
  int expected = count > 1 ? atoi(arguments[1]) : 1;
  status opened = comm_open("auto", &c, &error);
  rank = comm_rank(c);
  ranks = comm_ranks(c);
  if (opened == ALIBI_OK && ranks == expected) return;
  fprintf(stderr, "expected %d ranks, found %d: %s\n", expected, ranks, error.message);
  exit(1);
}

/* At its end: failed tests end all ranks. */
static inline int ranks_close(int failed)
{
  comm_close(c, failed ? ALIBI_FAILED : ALIBI_OK, 1);
  return failed ? 1 : 0;
}

#endif
