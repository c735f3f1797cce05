/* model/families/family_notes.h - what a user may want to know about how a model was opened: keys without effect,
 * keys ignored as asked, what is not read.  Sentences, in order. */
#ifndef MODEL_FAMILIES_FAMILY_NOTES_H
#define MODEL_FAMILIES_FAMILY_NOTES_H

#include <stddef.h>

typedef struct family_notes {
  char **lines;
  size_t count, capacity;
} family_notes;

/* A note for which there is no memory is lost. */
void family_note(family_notes *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));
void family_notes_free(family_notes *notes);

#endif
