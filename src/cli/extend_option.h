/* cli/extend_option.h - --extend and --beyond: how a trained model is run beyond its length. */
#ifndef CLI_EXTEND_OPTION_H
#define CLI_EXTEND_OPTION_H

#include "cli/command.h"
#include "model/config.h"

typedef struct extend_option {
  const char *extend; /* "yarn:factor=4"; NULL: not given */
  const char *beyond; /* "error", "clamp", "wrap" */
} extend_option;

void extend_option_add(command_line *line, extend_option *option);

/* *text: the extension that the library is to be given, or NULL.  Its name and settings are right for the model.
 */
status extend_option_read(const extend_option *option, const alibi_model_config *config, const char **text,
                          alibi_error *error);

/* --beyond alone: *name, an extension of absolute methods, or NULL for "error". */
status extend_option_beyond(const char *beyond, const char **name, alibi_error *error);

#endif
