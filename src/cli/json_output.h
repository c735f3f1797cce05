/* cli/json_output.h - what commands print with --json. */
#ifndef CLI_JSON_OUTPUT_H
#define CLI_JSON_OUTPUT_H

#include "file/json.h"

/* One line on standard output; frees the node. */
status print_node(json_node *node, alibi_error *error);

#endif
