/* A node as a line of standard output. */
#include "cli/json_output.h"

#include <stdio.h>
#include <stdlib.h>

status print_node(json_node *node, alibi_error *error)
{
  char *text = node_to_text(node);
  node_free(node);
  if (!text) return fail(error, ALIBI_FAILED, "not enough memory for the JSON text");
  printf("%s\n", text);
  free(text);
  return ALIBI_OK;
}
