/* cli/data_synthetic.h - `alibi data synthetic`: training sets of ids that an evaluation task makes. */
#ifndef CLI_DATA_SYNTHETIC_H
#define CLI_DATA_SYNTHETIC_H

#include "cli/command.h"

void data_synthetic_add_options(command_line *line);
/* An option of these that was given, as it was typed; NULL: none. */
const char *data_synthetic_given(const command_line *line);
/* vocabulary 0: not given. */
status data_synthetic(const command_line *line, const char *out, int64_t vocabulary, alibi_error *error);

#endif
