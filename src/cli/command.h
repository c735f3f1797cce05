/* cli/command.h - a subcommand is one const `command` with its option tables; main.c finds it, parses, runs it.
 *
 * To add one: write cmd_<verb>.c with `const command command_<verb>` and put the verb into CMakeLists.txt. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "base/error.h"
#include "base/field.h"

/* Where a group of options is stored: the table of fields says the names (--field-name), `values` the struct. */
typedef struct option_group {
  const char *title; /* heading in --help */
  field_table table;
  void *values;
  const char *prefix; /* "" or "alibi-": put before every option name of the group */
} option_group;

/* A text of any length, for what a field of fixed size cannot hold: a path, a list.  *value is borrowed from argv,
 * or from the command line's file of settings. */
typedef struct text_option {
  const char *name;        /* "out": the option is --out */
  const char *placeholder; /* "DIR" */
  const char *help;
  const char **value;
  struct text_values *values; /* instead of value: the option may be given again */
  bool many;                  /* and takes all arguments up to the next option */
} text_option;

/* Texts of one option, in their order; borrowed as above. */
typedef struct text_values {
  const char **items;
  size_t count, capacity;
} text_values;

enum { COMMAND_MAX_GROUPS = 32, COMMAND_MAX_TEXTS = 32 };

typedef struct command_line {
  option_group groups[COMMAND_MAX_GROUPS];
  size_t group_count;
  text_option texts[COMMAND_MAX_TEXTS];
  size_t text_count;
  const char **operands; /* what is no option, in order; "--" ends options */
  size_t operand_count;
  /* which fields were given on the command line: command_line_given(line, values, "steps") */
  struct command_given *given;
  size_t given_count, given_capacity;
  /* as typed, after the command's name */
  char *const *arguments;
  int argument_count;
  /* what the file of settings gave (--config): texts that live as long as the line */
  char **file_texts;
  size_t file_text_count, file_text_capacity;
} command_line;

typedef struct command {
  const char *name;     /* "study" */
  const char *summary;  /* one line for `alibi --help` */
  const char *operands; /* "TEXT...", or NULL where the command takes none */
  const char *details;  /* paragraphs of --help, or NULL */
  /* Points the groups at its (static) structs and sets them to their initial values. */
  void (*options)(command_line *line);
  /* Does the work.  Output to stdout, progress to stderr; returns the status that decides the exit code. */
  status (*run)(command_line *line, alibi_error *error);
} command;

/* Given as an option or in the file of settings?  For a text option, `values` is the address of its pointer, or of
 * its text_values. */
bool command_line_given(const command_line *line, const void *values, const char *field_name);

/* The first option that was given and is not in the NULL-terminated list of names, as it was typed: "--steps";
 * NULL where there is none. */
const char *command_line_given_other(const command_line *line, const char *const *names);

/* "alibi study --steps 100 'my text.txt'": the command line as it could be typed again.  malloc'd, NULL when
 * memory is out. */
char *command_line_text(const command_line *line, const command *c);

/* Adds a group during `options`: initialises the values (field_init). */
void command_add_group(command_line *line, const char *title, field_table table, void *values, const char *prefix);

/* Adds --name PLACEHOLDER.  What *value holds now is the default that --help shows (NULL: none). */
void command_add_text(command_line *line, const char *name, const char *placeholder, const char **value,
                      const char *help);

/* The same for an option that may be given again: --extend ntk --extend yarn.  many: --text a.txt b.txt takes all
 * arguments up to the next option; --text=a.txt takes one.  *values is empty at first. */
void command_add_texts(command_line *line, const char *name, const char *placeholder, text_values *values,
                       bool many, const char *help);

/* Adds --config FILE: a JSON object whose keys are the names of this command's options with '_' for '-', and
 * "texts" for the operands.  What is typed wins over the file.  *path is set by the parser, which also reads the
 * file. */
void command_add_config(command_line *line, const char **path);

/* Exit code for a status: 0, 1 failed, 2 usage, 3 bad input file, 130 interrupted. */
int command_exit_code(status s);

#endif
