/* Notes are for people and change nothing, so a note that finds no memory is let go. */
#include "model/families/family_notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

void family_note(family_notes *notes, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  char *line = size >= 0 ? malloc((size_t)size + 1) : NULL;
  if (!line) return;
  va_start(arguments, format);
  vsnprintf(line, (size_t)size + 1, format, arguments);
  va_end(arguments);
  if (memory_grow(&notes->lines, &notes->capacity, notes->count + 1, sizeof *notes->lines, "notes", NULL) !=
      ALIBI_OK) {
    free(line);
    return;
  }
  notes->lines[notes->count++] = line;
}

void family_notes_free(family_notes *notes)
{
  for (size_t i = 0; i < notes->count; i++) free(notes->lines[i]);
  free(notes->lines);
  *notes = (family_notes){0};
}
