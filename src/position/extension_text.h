/* position/extension_text.h - an extension with its settings as text: NAME[:key=value[,key=value]...], such as
 * "yarn:factor=4,beta_fast=32".  One syntax wherever a user names one: options, lists of a study, a model's
 * settings. */
#ifndef POSITION_EXTENSION_TEXT_H
#define POSITION_EXTENSION_TEXT_H

#include "position/position.h"

enum { EXTENSION_TEXT_SIZE = 2 * ALIBI_EXTENSION_OPTIONS_SIZE };

typedef struct extension_choice {
  const position_extension *extension; /* NULL: none */
  union {
    max_align_t align;
    unsigned char bytes[ALIBI_EXTENSION_OPTIONS_SIZE];
  } options;
} extension_choice;

/* Settings that the text does not name have their initial values.  option: how the user knows it, "--extend". */
status extension_text_read(const char *option, const char *method, const char *text, extension_choice *choice,
                           alibi_error *error);
/* The text that is read back to the same: the name and the settings that are not initial.  "" for none. */
void extension_text_write(const extension_choice *choice, char *text, size_t size);

bool extension_choice_equal(const extension_choice *a, const extension_choice *b);

/* The name alone, cut to the buffer. */
void extension_text_name(const char *text, char *name, size_t size);

/* The next extension of a list: "ntk,yarn:factor=4,beta_fast=16,linear" has three.  After a comma, a word with '='
 * and without ':' before it is one more setting of the name it follows.  Blanks around items do not count.  Cut
 * out of *list; false at the end; *length: what its text has, where it did not fit in size - 1 bytes too. */
bool extension_text_next(const char **list, char *text, size_t size, size_t *length);

#endif
