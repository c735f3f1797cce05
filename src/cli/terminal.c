/* What the operating system knows about the terminal.  The one place of the command that asks it. */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <strings.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is(FILE *stream)
{
  return isatty(fileno(stream)) == 1;
}

int terminal_columns(FILE *stream, int otherwise)
{
  struct winsize window;
  if (!terminal_is(stream) || ioctl(fileno(stream), TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
    return otherwise;
  return window.ws_col;
}

bool terminal_utf8(void)
{
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    if (!value || !*value) continue; /* the first that is set decides */
    const char *charset = strchr(value, '.');
    return charset && (strcasecmp(charset, ".utf-8") == 0 || strcasecmp(charset, ".utf8") == 0);
  }
  return false;
}

void terminal_guard_descriptors(void)
{
  for (int descriptor = 0; descriptor <= 2; descriptor++) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    /* The wrong direction on purpose: using it stays the error that it was when it was closed. */
    int opened = open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
    if (opened != descriptor && opened >= 0) close(opened);
  }
}
