/* cli/bench_train_command.h - `alibi bench train`: its options, and its run. */
#ifndef CLI_BENCH_TRAIN_COMMAND_H
#define CLI_BENCH_TRAIN_COMMAND_H

#include "cli/command.h"

void bench_train_add_options(command_line *line);
status bench_train_command(const command_line *line, bool json, alibi_error *error);

#endif
