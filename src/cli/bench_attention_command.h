/* cli/bench_attention_command.h - `alibi bench attention`: its options, and its run. */
#ifndef CLI_BENCH_ATTENTION_COMMAND_H
#define CLI_BENCH_ATTENTION_COMMAND_H

#include "cli/command.h"

void bench_attention_add_options(command_line *line);
status bench_attention_command(const command_line *line, bool json, alibi_error *error);

/* Words that `bench train` knows too; 0 or NULL where they were not given. */
typedef struct bench_attention_shared {
  int64_t heads, repeats;
  int threads;
  const char *model, *tolerances;
  double tolerance; /* for the one who reads it: where tolerances is NULL */
} bench_attention_shared;

bench_attention_shared bench_attention_shared_options(const command_line *line);
/* A list of at most `most` tolerances, none twice. */
status bench_attention_tolerances(const char *list, size_t most, double *tolerances, size_t *count,
                                  alibi_error *error);

#endif
