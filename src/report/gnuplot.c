/* gnuplot as a child process.  It may be missing, and it can end well without having drawn: a picture counts when
 * it is whole, and only then takes its name. */
#include "report/gnuplot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"

/* Is this a whole picture?  gnuplot can end well after a full disk. */
static bool picture_whole(const char *path)
{
  mapped_file file;
  if (mapped_file_open(path, &file, NULL) != ALIBI_OK) return false;
  bool whole = file.size > 200;
  if (whole && file.data[0] == 0x89) {
    whole = memcmp(file.data + file.size - 8, "IEND", 4) == 0;
  } else if (whole) {
    size_t end = file.size;
    while (end > 6 && (file.data[end - 1] == '\n' || file.data[end - 1] == ' ')) end--;
    whole = memcmp(file.data + end - 6, "</svg>", 6) == 0;
  }
  mapped_file_close(&file);
  return whole;
}

/* Runs gnuplot for one picture.  What it says is kept from the terminal; its first line goes to `said`. */
static gnuplot_outcome run_gnuplot(const char *script, const char *directory, const char *name, bool plain,
                                   char *said, size_t size)
{
  child_process child;
  child_result ended;
  size_t used = 0;
  char *argv[] = {
      "sh",         "-c",    "exec gnuplot \"$@\" 2>&3", "sh", "-d", "-c", (char *)script, (char *)directory,
      (char *)name, ".part", plain ? "1" : "0",          NULL};
  said[0] = '\0';
  if (child_start(argv, 3, true, &child, NULL) != ALIBI_OK) return GNUPLOT_MISSING;
  for (char part[512];;) {
    long got = descriptor_read(child.report, part, sizeof part);
    if (got <= 0) break;
    for (long i = 0; i < got; i++)
      if (used + 1 < size && (used > 0 || (unsigned char)part[i] > ' ')) said[used++] = part[i];
  }
  said[used] = '\0';
  said[strcspn(said, "\n")] = '\0';
  if (child_wait(&child, &ended, NULL) != ALIBI_OK) {
    if (used == 0) snprintf(said, size, "its end is not known");
    return GNUPLOT_FAILED;
  }
  if (used == 0 && ended.exit_code > 128) snprintf(said, size, "it was ended by signal %d", ended.exit_code - 128);
  else if (used == 0) snprintf(said, size, "it ended with exit code %d and said nothing", ended.exit_code);
  return ended.exit_code == 127 ? GNUPLOT_MISSING : ended.exit_code == 0 ? GNUPLOT_DRAWN : GNUPLOT_FAILED;
}

gnuplot_outcome gnuplot_draw(const char *script, const char *directory, const char *name, bool plain, char *said,
                             size_t size)
{
  char part_name[512];
  snprintf(part_name, sizeof part_name, "%s.part", name);
  char *path = path_join(directory, name), *part = path_join(directory, part_name);
  gnuplot_outcome drawn = GNUPLOT_FAILED;
  if (path && part && strlen(name) + sizeof ".part" <= sizeof part_name) {
    drawn = run_gnuplot(script, directory, name, plain, said, size);
    if (drawn == GNUPLOT_DRAWN && !picture_whole(part)) {
      snprintf(said, size, "it wrote no whole picture; is the disk full, or a file too large?");
      drawn = GNUPLOT_FAILED;
    }
    if (drawn == GNUPLOT_DRAWN && rename(part, path) != 0) {
      snprintf(said, size, "%s cannot be replaced", name);
      drawn = GNUPLOT_FAILED;
    }
    if (drawn != GNUPLOT_DRAWN) {
      remove(part);
      remove(path);
    }
  }
  free(path);
  free(part);
  return drawn;
}

status gnuplot_pictures(draft *data, draft *script, const char *directory, const char *stem, bool *made,
                        alibi_error *error)
{
  status result;
  char *path = NULL, name[64], said[200] = "";
  *made = false;
  snprintf(name, sizeof name, "%s.dat", stem);
  TRY(draft_write(data, directory, name, error));
  snprintf(name, sizeof name, "%s.gp", stem);
  TRY(draft_write(script, directory, name, error));
  /* A directory that begins with '-' must not look like an option. */
  draft_add(script, "%s%s/%s", directory[0] == '/' ? "" : "./", directory, name);
  path = draft_take(script);
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for the pictures");
  snprintf(name, sizeof name, "%s.svg", stem);
  gnuplot_outcome svg = gnuplot_draw(path, directory, name, false, said, sizeof said);
  if (svg == GNUPLOT_FAILED)
    RAISE(error, ALIBI_FAILED, "gnuplot could not draw %s/%s: %s", directory, name, said);
  snprintf(name, sizeof name, "%s.png", stem);
  if (gnuplot_draw(path, directory, name, false, said, sizeof said) == GNUPLOT_FAILED)
    gnuplot_draw(path, directory, name, true, said, sizeof said);
  *made = svg == GNUPLOT_DRAWN;
done:
  free(path);
  return result;
}
