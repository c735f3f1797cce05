/* cli/config_file.h - a command's settings in a file: a JSON object whose keys are the names of the options, with
 * '_' for '-' ("train_length", "rope_base"), and "texts" for the operands.  One table describes both, so a value
 * is checked by the same rule wherever it stands. */
#ifndef CLI_CONFIG_FILE_H
#define CLI_CONFIG_FILE_H

#include "cli/command.h"
#include "file/json.h"

/* Reads the file of --config where that was given.  An option that was typed keeps what was typed, and operands
 * that were typed replace those of the file.  Lists may be arrays.  ALIBI_BAD_INPUT names the file and the key. */
status config_file_read(command_line *line, const command *c, alibi_error *error);

/* For work that goes on: `record` is what config_file_node wrote for its first part.  What was typed must say the
 * same, apart from the NULL-terminated list `free_names` (fields and texts): ALIBI_INVALID names the first that
 * differs.  Then all that was not typed is set from the record, operands too.  what: where it was found, for
 * sentences. */
status config_file_agree(command_line *line, const json_node *record, const char *what,
                         const char *const *free_names, alibi_error *error);

/* The values of this command line as such a file.  wanted(values, name): does this field or text belong there?
 * NULL texts never do. */
json_node *config_file_node(const command_line *line, bool (*wanted)(const void *values, const char *name));

#endif
