/* The progress line.  Rates are averages that forget (time constant 10 s), so that the time left follows a machine
 * that slows down without jumping with every step. */
#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/system.h"
#include "cli/terminal.h"

enum { MAX_ITEMS = 16, LINE_SIZE = 512 };

typedef struct progress_item {
  bool running, started;
  char what[64], unit[24], detail[96];
  double total, done;
  double began, measured; /* seconds: start; last measurement of the rate */
  double measured_done, rate;
  double drawn; /* seconds: its last plain line */
} progress_item;

static struct {
  FILE *stream;
  progress_mode mode;
  double interval, drawn;
  size_t on_screen; /* characters of the line now on the screen */
  progress_item items[MAX_ITEMS];
} state;

void progress_open(FILE *stream, progress_mode mode, double interval)
{
  memset(&state, 0, sizeof state);
  state.stream = stream;
  state.mode = mode;
  state.interval = interval >= 0 ? interval : mode == PROGRESS_TERMINAL ? 0.1 : 10;
  state.drawn = -INFINITY;
}

void progress_format_time(double seconds, char *text, size_t size)
{
  long whole = seconds < 0 ? 0 : seconds > 1e9 ? 1000000000L : lround(seconds);
  if (whole < 3600)
    snprintf(text, size, "%ld:%02ld", whole / 60, whole % 60);
  else
    snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
}

/* Three digits and a letter: 999, 1.23k, 45.6k, 7.89M. */
static void format_rate(double rate, char *text, size_t size)
{
  static const char *const letters[] = {"", "k", "M", "G", "T"};
  size_t letter = 0;
  while (rate >= 999.5 && letter + 1 < sizeof letters / sizeof letters[0]) {
    rate /= 1000;
    letter++;
  }
  int digits = rate >= 99.95 || (letter == 0 && rate >= 10) ? 0 : rate >= 9.995 ? 1 : 2;
  snprintf(text, size, "%.*f%s", digits, rate, letters[letter]);
}

static void append(char *line, const char *text)
{
  size_t used = strlen(line);
  snprintf(line + used, LINE_SIZE - used, "%s", text);
}

/* How much of an item is said: where several do not fit, first the detail goes, then the rate. */
typedef enum verbosity { PERCENT_AND_TIME, WITH_RATE, WITH_DETAIL } verbosity;

static void describe(const progress_item *item, verbosity level, char line[LINE_SIZE])
{
  char part[128], text[32];
  snprintf(line, LINE_SIZE, "%s", item->what);
  if (item->total > 0) {
    snprintf(part, sizeof part, " %3.0f %%", floor(100 * fmin(item->done / item->total, 1)));
    append(line, part);
  }
  if (item->rate > 0) {
    format_rate(item->rate, text, sizeof text);
    snprintf(part, sizeof part, ", %s %s/s", text, item->unit);
    if (level >= WITH_RATE || item->total <= 0) append(line, part);
    if (item->total > 0) {
      progress_format_time((item->total - item->done) / item->rate, text, sizeof text);
      snprintf(part, sizeof part, ", %s left", text);
      append(line, part);
    }
  }
  if (item->detail[0] && level == WITH_DETAIL) {
    append(line, ", ");
    append(line, item->detail);
  }
}

/* Bytes that fit into `columns`, cut between characters of UTF-8; *width: the columns they take. */
static size_t fit(const char *line, size_t columns, size_t *width)
{
  size_t bytes = 0, used = 0;
  while (line[bytes]) {
    bool continues = ((unsigned char)line[bytes] & 0xC0) == 0x80;
    if (!continues && used == columns) break;
    used += !continues;
    bytes++;
  }
  *width = used;
  return bytes;
}

static void join(verbosity level, char joined[LINE_SIZE])
{
  char one[LINE_SIZE];
  joined[0] = '\0';
  for (int i = 0; i < MAX_ITEMS; i++) {
    if (!state.items[i].running) continue;
    describe(&state.items[i], level, one);
    if (joined[0]) append(joined, " | ");
    append(joined, one);
  }
}

static void draw_terminal(void)
{
  char joined[LINE_SIZE];
  int columns = terminal_columns(state.stream, 80);
  size_t room = columns > 1 ? (size_t)columns - 1 : 1, width, bytes;
  int level = WITH_DETAIL;
  do {
    join((verbosity)level, joined);
    bytes = fit(joined, room, &width);
  } while (joined[bytes] && level-- > PERCENT_AND_TIME);
  fprintf(state.stream, "\r%.*s", (int)bytes, joined);
  for (size_t i = width; i < state.on_screen; i++) fputc(' ', state.stream);
  fputc('\r', state.stream);
  fflush(state.stream);
  state.on_screen = width;
}

void progress_clear(void)
{
  if (state.mode != PROGRESS_TERMINAL || !state.on_screen) return;
  fprintf(state.stream, "\r%*s\r", (int)state.on_screen, "");
  fflush(state.stream);
  state.on_screen = 0;
  state.drawn = -INFINITY;
}

static void draw(progress_item *item)
{
  double now = system_seconds();
  if (state.mode == PROGRESS_TERMINAL && now - state.drawn >= state.interval) {
    draw_terminal();
    state.drawn = now;
  } else if (state.mode == PROGRESS_LINES && now - item->drawn >= state.interval) {
    char line[LINE_SIZE];
    describe(item, WITH_DETAIL, line);
    fprintf(state.stream, "%s\n", line);
    fflush(state.stream);
    item->drawn = now;
  }
}

int progress_begin(const char *what, double total, const char *unit)
{
  int number = 0;
  while (number < MAX_ITEMS && state.items[number].running) number++;
  if (number == MAX_ITEMS) return -1; /* more side by side than a line can show: not shown */
  progress_item *item = &state.items[number];
  *item = (progress_item){.running = true, .total = total, .began = system_seconds()};
  item->drawn = item->began;
  snprintf(item->what, sizeof item->what, "%s", what);
  snprintf(item->unit, sizeof item->unit, "%s", unit);
  return number;
}

static void measure(progress_item *item, double done)
{
  double now = system_seconds(), elapsed = now - item->measured;
  item->done = done;
  if (!item->started) {
    item->started = true;
    item->measured = now;
    item->measured_done = done;
  } else if (elapsed >= 0.5 && done > item->measured_done) {
    double rate = (done - item->measured_done) / elapsed, weight = 1 - exp(-elapsed / 10);
    item->rate = item->rate > 0 ? item->rate + weight * (rate - item->rate) : rate;
    item->measured = now;
    item->measured_done = done;
  }
}

void progress_update(int number, double done, const char *detail)
{
  if (number < 0 || !state.items[number].running) return;
  progress_item *item = &state.items[number];
  measure(item, done);
  if (detail) snprintf(item->detail, sizeof item->detail, "%s", detail);
  draw(item);
}

void progress_end(int number, const char *summary)
{
  if (number < 0 || !state.items[number].running) return;
  state.items[number].running = false;
  if (state.mode == PROGRESS_SILENT) return;
  progress_clear();
  if (summary) fprintf(state.stream, "%s\n", summary);
  fflush(state.stream);
}

void progress_note(const char *format, ...)
{
  FILE *stream = state.stream ? state.stream : stderr;
  char sentence[1536];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  progress_clear();
  fprintf(stream, "%s\n", sentence);
  fflush(stream);
}
