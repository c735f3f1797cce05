/* cli/options.h - what main.c needs of the option tables: parsing a command line, writing --help. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdio.h>

#include "cli/command.h"

/* Reads the arguments after the command's name into the structs behind the groups.  line: its groups added.
 * The sentence of a failure (ALIBI_INVALID) names the option.  Release with command_line_free. */
status command_line_parse(command_line *line, const command *c, int count, char **arguments, alibi_error *error);
void command_line_free(command_line *line);

/* What a word names: a field of a group, or a text option. */
typedef struct found_option {
  const field *field;
  void *values;
  const text_option *text;
  const char *given_name; /* as command_line_given knows it */
  bool negated;           /* --no-name */
} found_option;

/* name: "--train-length". */
bool command_line_find(const command_line *line, const char *name, found_option *found);

/* The nearest option to what was typed. */
typedef struct nearest_name nearest_name;
void command_line_nearest(const command_line *line, bool negations, nearest_name *nearest);

/* One more text of an option that may be given again. */
status text_values_add(text_values *values, const char *text, alibi_error *error);

/* From now on command_line_given is true for it. */
status command_line_note(command_line *line, const found_option *found, const char *name, alibi_error *error);

/* --help, from the tables. */
void command_help(const command *c, const command_line *line, FILE *stream);

/* Keeps the candidate nearest to `typed`: call for each, start with best NULL and distance 0.  What is too far to
 * be a slip of the fingers leaves best as it is. */
struct nearest_name {
  const char *typed;
  char best[128]; /* "" where nothing is near */
  size_t distance;
};

void nearest_consider(nearest_name *nearest, const char *candidate);

#endif
