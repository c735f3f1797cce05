/* cli/bench_attention_command.h - `alibi bench attention`: its options, and its run. */
#ifndef CLI_BENCH_ATTENTION_COMMAND_H
#define CLI_BENCH_ATTENTION_COMMAND_H

#include "cli/command.h"

void bench_attention_add_options(command_line *line);
status bench_attention_command(const command_line *line, bool json, alibi_error *error);

#endif
