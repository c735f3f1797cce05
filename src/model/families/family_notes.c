/* Notes are for people and change nothing, so a note that finds no memory is let go. */
#include "model/families/family_notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { NOTE_SIZE = 1024 };

void family_note(family_notes *notes, const char *format, ...)
{
  char text[NOTE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  char *line = malloc(strlen(text) + 1);
  if (!line) return;
  if (memory_grow(&notes->lines, &notes->capacity, notes->count + 1, sizeof *notes->lines, "notes", NULL) != ALIBI_OK) {
    free(line);
    return;
  }
  notes->lines[notes->count++] = strcpy(line, text);
}

void family_notes_free(family_notes *notes)
{
  for (size_t i = 0; i < notes->count; i++) free(notes->lines[i]);
  free(notes->lines);
  *notes = (family_notes){0};
}
