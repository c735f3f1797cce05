/* What every drawing needs: growing text, clean Unicode, numbers, the list of lines with labels and colours.
 * Text may come from a user's file names and so be any bytes; it becomes valid UTF-8 here, once, before it
 * reaches JSON, CSV, gnuplot or HTML. */
#include "report/drawing.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"

void draft_put(draft *d, const char *bytes, size_t size)
{
  if (d->failed) return;
  size_t needed = size_add(d->used, size_add(size, 1));
  if (memory_grow(&d->data, &d->capacity, needed, 1, "a report", NULL) != ALIBI_OK) {
    d->failed = true;
    return;
  }
  memcpy(d->data + d->used, bytes, size);
  d->used += size;
  d->data[d->used] = '\0';
}

void draft_add(draft *d, const char *format, ...)
{
  char small[512];
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = number_print_list(small, sizeof small, format, arguments);
  if (size < 0) d->failed = true;
  if (size >= 0 && (size_t)size < sizeof small) draft_put(d, small, (size_t)size);
  if (size >= 0 && (size_t)size >= sizeof small) {
    char *large = malloc((size_t)size + 1);
    if (large) {
      number_print_list(large, (size_t)size + 1, format, again);
      draft_put(d, large, (size_t)size);
    } else {
      d->failed = true;
    }
    free(large);
  }
  va_end(again);
  va_end(arguments);
}

size_t utf8_length(const char *s, size_t left)
{
  const unsigned char *u = (const unsigned char *)s;
  if (left == 0) return 0;
  if (u[0] < 0x80) return 1;
  size_t size = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
  if (u[0] < 0xc2 || u[0] > 0xf4 || left < size) return 0;
  for (size_t i = 1; i < size; i++)
    if ((u[i] & 0xc0) != 0x80) return 0;
  /* Overlong forms, surrogates and what lies beyond U+10FFFF. */
  if (u[0] == 0xe0 && u[1] < 0xa0) return 0;
  if (u[0] == 0xed && u[1] > 0x9f) return 0;
  if (u[0] == 0xf0 && u[1] < 0x90) return 0;
  if (u[0] == 0xf4 && u[1] > 0x8f) return 0;
  return size;
}

size_t utf8_columns(const char *s)
{
  size_t columns = 0;
  for (; *s; s++) columns += ((unsigned char)*s & 0xc0) != 0x80;
  return columns;
}

static void add_text(draft *d, const char *s, bool entities)
{
  size_t left = s ? strlen(s) : 0;
  while (left > 0) {
    size_t size = utf8_length(s, left);
    unsigned char first = (unsigned char)*s;
    bool control = first < 0x20 || first == 0x7f;
    /* U+0080..U+009F are control characters, U+FFFE and U+FFFF no characters: none is legal in HTML. */
    if (size == 2 && first == 0xc2 && (unsigned char)s[1] < 0xa0) control = true;
    if (size == 3 && first == 0xef && (unsigned char)s[1] == 0xbf && (unsigned char)s[2] >= 0xbe) control = true;
    const char *instead = NULL;
    if (first == '\n' || first == '\t' || first == '\r') instead = entities && first == '\n' ? "\n" : " ";
    else if (size == 0 || control) instead = "\xef\xbf\xbd";
    else if (entities && first == '&') instead = "&amp;";
    else if (entities && first == '<') instead = "&lt;";
    else if (entities && first == '>') instead = "&gt;";
    else if (entities && first == '"') instead = "&quot;";
    else if (entities && first == '\'') instead = "&#39;";
    if (size == 0) size = 1;
    if (instead) draft_put(d, instead, strlen(instead));
    else draft_put(d, s, size);
    s += size;
    left -= size;
  }
}

void draft_add_clean(draft *d, const char *s)
{
  add_text(d, s, false);
}

void draft_add_escaped(draft *d, const char *s)
{
  add_text(d, s, true);
}

void draft_add_quoted(draft *d, const char *s, size_t size, bool marks)
{
  for (size_t i = 0; i < size; i++) {
    if (s[i] == '\'') draft_add(d, "''");
    else if (s[i] == '`') draft_add(d, "''");
    else if (marks && strchr("\\^_{}@&~", s[i])) draft_add(d, "\\%c", s[i]);
    else draft_put(d, s + i, 1);
  }
}

char *draft_take(draft *d)
{
  draft_put(d, "", 0);
  char *text = d->data;
  if (d->failed) {
    free(text);
    text = NULL;
  }
  *d = (draft){0};
  return text;
}

status draft_write(draft *d, const char *directory, const char *name, alibi_error *error)
{
  size_t size = d->used;
  char *text = draft_take(d);
  char *path = path_join(directory, name);
  status result = text && path ? file_write_atomic(path, text, size, error)
                               : fail(error, ALIBI_FAILED, "not enough memory to write %s/%s", directory, name);
  free(path);
  free(text);
  return result;
}

void number_exact(double value, char *text, size_t size)
{
  char exact[NUMBER_SIZE] = "";
  if (isfinite(value)) number_text(value, exact);
  snprintf(text, size, "%s", exact);
}

void number_short(double value, char *text, size_t size)
{
  if (isnan(value)) snprintf(text, size, "nan");
  else if (fabs(value) >= 1e7) number_print(text, size, "%.2e", value);
  else number_print(text, size, "%.*f", fabs(value) < 999.995 ? 2 : 0, value);
}

void number_grouped(double value, char *text, size_t size)
{
  char digits[64];
  if (!isfinite(value) || fabs(value) >= 1e18) {
    number_print(text, size, isfinite(value) ? "%.3e" : "-", value);
    return;
  }
  number_print(digits, sizeof digits, "%.0f", value);
  size_t count = strlen(digits), used = 0;
  size_t sign = digits[0] == '-';
  for (size_t i = 0; i < count && used + 8 < size; i++) {
    if (i > sign && (count - i) % 3 == 0) {
      memcpy(text + used, "\xe2\x80\xaf", 3); /* U+202F, a narrow space where no line breaks */
      used += 3;
    }
    text[used++] = digits[i];
  }
  text[used] = '\0';
}

void number_tick(double value, char *text, size_t size)
{
  number_print(text, size, "%.6g", value);
  char *plus = strstr(text, "e+");
  if (!plus && value >= 1e6) {
    number_print(text, size, "%.3e", value);
    plus = strstr(text, "e+");
  }
  if (!plus) return;
  int power = atoi(plus + 2);
  number_print(text, size, "%.4ge%d", value / pow(10, power), power);
}

const char *results_spelling(const char *name)
{
  static const char *const spellings[][2] = {
      {"alibi", "ALiBi"}, {"rope", "RoPE"}, {"t5", "T5"},     {"ntk", "NTK"},       {"yarn", "YaRN"},
      {"xpos", "xPos"},   {"none", "none"}, {"fire", "FIRE"}, {"kerple", "KERPLE"}, {"cope", "CoPE"},
  };
  for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
    if (strcmp(name, spellings[i][0]) == 0) return spellings[i][1];
  return name;
}

/* Okabe and Ito's palette (told apart with every kind of colour vision) without yellow and black, which are lost
 * on white and on a dark page; the first is alibi's. */
static const char *const palette[] = {"#0072B2", "#D55E00", "#009E73", "#E69F00",
                                      "#CC79A7", "#56B4E9", "#7F7F7F", "#8B5A2B"};

const char *method_colour(const study_results *results, const char *name, int *round)
{
  size_t others = sizeof palette / sizeof palette[0] - 1, next = 0;
  if (round) *round = 0;
  if (strcmp(name, "alibi") == 0) return palette[0];
  for (size_t i = 0; i < results->method_count; i++) {
    const char *other = results->methods[i].name;
    bool seen = strcmp(other, "alibi") == 0;
    for (size_t j = 0; j < i && !seen; j++) seen = strcmp(results->methods[j].name, other) == 0;
    if (strcmp(other, name) == 0) break;
    next += !seen;
  }
  if (round) *round = (int)(next / others);
  return palette[1 + next % others];
}

enum { SHOWN = 90, BEGINNING = 78 }; /* bytes of an extension's text that a table bears */

static bool begin_alike(const char *extend, const char *other)
{
  return strlen(other) > SHOWN && strncmp(other, extend, BEGINNING) == 0;
}

/* Does this extension stand in no curve before the `last` one of this method? */
static bool is_first(const study_results *results, size_t method, size_t last, const char *extend)
{
  for (size_t i = 0; i <= method; i++)
    for (size_t j = 0; j < (i < method ? results->methods[i].curve_count : last); j++)
      if (strcmp(results->methods[i].curves[j].extend, extend) == 0) return false;
  return true;
}

/* Where an extension's text is longer than a table bears: its beginning, and a number where others begin like it,
 * in the order of the results. */
static void extend_name(const study_results *results, const char *extend, char *name, size_t size)
{
  size_t count = 0, number = 0;
  if (strlen(extend) <= SHOWN) {
    snprintf(name, size, "%s", extend);
    return;
  }
  for (size_t i = 0; i < results->method_count; i++)
    for (size_t j = 0; j < results->methods[i].curve_count; j++) {
      const char *other = results->methods[i].curves[j].extend;
      if (!begin_alike(extend, other) || !is_first(results, i, j, other)) continue;
      count++;
      if (strcmp(other, extend) == 0) number = count;
    }
  if (count > 1) snprintf(name, size, "%.*s... (%zu)", BEGINNING, extend, number);
  else snprintf(name, size, "%.*s...", BEGINNING, extend);
}

void method_label(const study_results *results, const method_result *m, const char *extend, char *label,
                  size_t size)
{
  char trained[48] = "";
  if (m->train_length != results->train_length)
    snprintf(trained, sizeof trained, ", trained at %lld", (long long)m->train_length);
  char shown[RESULT_NAME_SIZE + 64];
  extend_name(results, extend, shown, sizeof shown);
  snprintf(label, size, "%s%s%s%s", results_spelling(m->name), extend[0] ? " + " : "", results_spelling(shown),
           trained);
}

static void series_name(series *line, const study_results *results)
{
  const method_result *m = line->method;
  const char *extend = line->curve->extend;
  char at[32] = "", shown[RESULT_NAME_SIZE + 64];
  if (m->train_length != results->train_length) snprintf(at, sizeof at, "@%lld", (long long)m->train_length);
  method_label(results, m, extend, line->label, sizeof line->label);
  extend_name(results, extend, shown, sizeof shown);
  snprintf(line->plain, sizeof line->plain, "%.63s%s%.120s%s", m->name, extend[0] ? "+" : "", shown, at);
}

series *series_list(const study_results *results, const char *protocol, size_t *count)
{
  *count = 0;
  for (size_t i = 0; i < results->method_count; i++)
    for (size_t j = 0; j < results->methods[i].curve_count; j++)
      *count += strcmp(results->methods[i].curves[j].protocol, protocol) == 0;
  series *lines = *count ? calloc(*count, sizeof *lines) : NULL;
  if (!lines) return NULL;
  size_t k = 0;
  for (size_t i = 0; i < results->method_count; i++) {
    const method_result *m = &results->methods[i];
    for (size_t j = 0; j < m->curve_count; j++) {
      if (strcmp(m->curves[j].protocol, protocol) != 0) continue;
      series *line = &lines[k++];
      line->method = m;
      line->curve = &m->curves[j];
      line->colour = method_colour(results, m->name, &line->round);
      for (series *s = lines; s < line; s++) line->dash += strcmp(s->method->name, m->name) == 0;
      line->main_method = strcmp(m->name, "alibi") == 0 && line->dash == 0;
      series_name(line, results);
    }
  }
  return lines;
}

static const struct protocol_words {
  const char *name, *title, *meaning;
} protocol_words[] = {
    {"sliding", "Sliding window",
     "The window moves on by a part of its length and only its newest tokens count, so every counted token has a "
     "long stretch of text before it; this is how a model reads a long document carefully."},
    {"fixed-target", "Fixed targets",
     "The very same tokens are predicted at every length, each time with exactly that much text before them, so "
     "the only thing that changes along the curve is how much text the model may look at."},
    {"nonoverlapping", "Nonoverlapping windows",
     "The text is cut into separate windows and every token counts, also the first ones of a window, which have "
     "little text before them; longer windows can look better for that reason alone."},
    {"streaming", "Streaming",
     "The text is read piece by piece behind a cache that is carried on, as a chat is; old entries of the cache "
     "know of text farther back than the window, so this is not the sliding window."},
};
enum { PROTOCOL_WORDS = sizeof protocol_words / sizeof protocol_words[0] };

const char *protocol_title(const char *protocol)
{
  for (int i = 0; i < PROTOCOL_WORDS; i++)
    if (strcmp(protocol, protocol_words[i].name) == 0) return protocol_words[i].title;
  return protocol;
}

const char *protocol_meaning(const char *protocol)
{
  for (int i = 0; i < PROTOCOL_WORDS; i++)
    if (strcmp(protocol, protocol_words[i].name) == 0) return protocol_words[i].meaning;
  return "";
}

static void protocol_note(const char **names, size_t *count, size_t most, const char *name)
{
  for (size_t i = 0; i < *count; i++)
    if (strcmp(names[i], name) == 0) return;
  if (*count < most) names[(*count)++] = name;
}

size_t protocol_list(const study_results *results, const char **names, size_t most)
{
  size_t count = 0;
  for (int known = 0; known <= PROTOCOL_WORDS; known++)
    for (size_t i = 0; i < results->method_count; i++)
      for (size_t j = 0; j < results->methods[i].curve_count; j++) {
        const char *name = results->methods[i].curves[j].protocol;
        if (known == PROTOCOL_WORDS || strcmp(name, protocol_words[known].name) == 0)
          protocol_note(names, &count, most, name);
      }
  return count;
}

static int compare_lengths(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

int64_t *length_list(const study_results *results, const char *protocol, size_t *count)
{
  size_t lines = 0, all = 0;
  *count = 0;
  series *list = series_list(results, protocol, &lines);
  for (size_t i = 0; list && i < lines; i++) all += list[i].curve->count;
  *count = list ? all : lines;
  int64_t *lengths = all ? calloc(all, sizeof *lengths) : NULL;
  size_t k = 0;
  for (size_t i = 0; lengths && i < lines; i++)
    for (size_t j = 0; j < list[i].curve->count; j++) lengths[k++] = list[i].curve->points[j].length;
  free(list);
  if (!lengths) return NULL;
  qsort(lengths, all, sizeof *lengths, compare_lengths);
  *count = 1;
  for (size_t i = 1; i < all; i++)
    if (lengths[i] != lengths[*count - 1]) lengths[(*count)++] = lengths[i];
  return lengths;
}

bool point_measured(const curve_point *p)
{
  return p && !p->error[0] && isfinite(p->perplexity) && p->perplexity > 0;
}

int64_t curve_end(const curve *c, const char **why)
{
  int64_t first_failed = INT64_MAX, last = 0;
  *why = NULL;
  for (size_t i = 0; i < c->count; i++) {
    const curve_point *p = &c->points[i];
    if (!p->error[0] || p->length >= first_failed) continue;
    first_failed = p->length;
    *why = p->error;
  }
  for (size_t i = 0; i < c->count && *why; i++) {
    const curve_point *p = &c->points[i];
    if (point_measured(p) && p->length < first_failed && p->length > last) last = p->length;
  }
  return last;
}

bool series_range(const series *lines, size_t count, double *low, double *high)
{
  bool any = false;
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < lines[i].curve->count; j++) {
      const curve_point *p = &lines[i].curve->points[j];
      if (!point_measured(p)) continue;
      if (!any || p->perplexity < *low) *low = p->perplexity;
      if (!any || p->perplexity > *high) *high = p->perplexity;
      any = true;
    }
  return any;
}

void axis_open(double *low, double *high)
{
  double room = 0.06 * log(*high / *low);
  if (!(room > 0.02)) room = 0.02;
  *low *= exp(-room);
  *high *= exp(room);
}

/* Steps of 1, 2, 2.5, 5 times a power of ten, for a range too short to see the logarithm in it. */
static size_t even_ticks(double low, double high, double *ticks, size_t most)
{
  static const double steps[] = {1, 2, 2.5, 5, 10};
  double power = pow(10, floor(log10((high - low) / 6))), step = power * 10;
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
    if ((high - low) / (steps[i] * power) <= 7) {
      step = steps[i] * power;
      break;
    }
  size_t count = 0;
  for (double k = ceil(low / step); k * step <= high && count < most; k++) ticks[count++] = k * step;
  return count;
}

size_t axis_ticks(double low, double high, double *ticks, size_t most)
{
  static const double sets[][10] = {{1}, {1, 3}, {1, 2, 5}, {1, 2, 3, 5, 7}, {1, 1.5, 2, 3, 4, 5, 6, 8}};
  if (!(low > 0) || !(high > low) || !isfinite(high) || most == 0) return 0;
  for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
    size_t count = 0;
    for (double power = floor(log10(low)); power <= log10(high); power++)
      for (size_t i = 0; i < 10 && sets[s][i] > 0; i++) {
        double tick = sets[s][i] * pow(10, power);
        if (tick >= low && tick <= high && count < most) ticks[count++] = tick;
      }
    if (count >= 5) return count;
  }
  return even_ticks(low, high, ticks, most);
}
