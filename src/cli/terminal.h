/* cli/terminal.h - the terminal that the command may or may not be talking to. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

bool terminal_is(FILE *stream);

/* Columns of the terminal behind `stream`; `otherwise` where it is none or does not tell. */
int terminal_columns(FILE *stream, int otherwise);

/* Does the locale of the environment say UTF-8? */
bool terminal_utf8(void);

/* Fills closed descriptors 0 to 2, so that a file opened later never becomes standard output by accident. */
void terminal_guard_descriptors(void);

#endif
