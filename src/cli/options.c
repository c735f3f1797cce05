/* Command lines from tables of fields: --name value, --name=value, --name and --no-name for booleans.
 * One table drives parsing, --help and the suggestion for a mistyped name, so an option is described once, beside
 * the struct that it fills. */
#include "cli/options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/config_file.h"

enum { NAME_SIZE = 128, HELP_COLUMN = 30, HELP_WIDTH = 100 };

struct command_given {
  const void *values;
  const char *name;
  char option[NAME_SIZE]; /* as it was typed */
};

int command_exit_code(status s)
{
  switch (s) {
  case ALIBI_OK: return 0;
  case ALIBI_FAILED: return 1;
  case ALIBI_INVALID: return 2;
  case ALIBI_BAD_INPUT: return 3;
  case ALIBI_CANCELLED: return 130;
  }
  return 1;
}

void command_add_group(command_line *line, const char *title, field_table table, void *values, const char *prefix)
{
  assert(line->group_count < COMMAND_MAX_GROUPS);
  field_init(table, values);
  line->groups[line->group_count++] = (option_group){title, table, values, prefix};
}

void command_add_text(command_line *line, const char *name, const char *placeholder, const char **value,
                      const char *help)
{
  assert(line->text_count < COMMAND_MAX_TEXTS);
  line->texts[line->text_count++] = (text_option){name, placeholder, help, value, NULL, false};
}

void command_add_texts(command_line *line, const char *name, const char *placeholder, text_values *values,
                       bool many, const char *help)
{
  assert(line->text_count < COMMAND_MAX_TEXTS);
  *values = (text_values){0};
  line->texts[line->text_count++] = (text_option){name, placeholder, help, NULL, values, many};
}

status text_values_add(text_values *values, const char *text, alibi_error *error)
{
  status result = memory_grow(&values->items, &values->capacity, values->count + 1, sizeof *values->items,
                              "the values of an option", error);
  if (result == ALIBI_OK) values->items[values->count++] = text;
  return result;
}

bool command_line_given(const command_line *line, const void *values, const char *field_name)
{
  for (size_t i = 0; i < line->given_count; i++)
    if (line->given[i].values == values && strcmp(line->given[i].name, field_name) == 0) return true;
  return false;
}

const char *command_line_given_other(const command_line *line, const char *const *names)
{
  for (size_t i = 0; i < line->given_count; i++) {
    size_t n = 0;
    while (names[n] && strcmp(names[n], line->given[i].name) != 0) n++;
    if (!names[n]) return line->given[i].option;
  }
  return NULL;
}

/* Writes an argument as a shell reads it back. */
static void write_quoted(FILE *stream, const char *argument)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%";
  if (*argument && strspn(argument, plain) == strlen(argument)) {
    fputs(argument, stream);
    return;
  }
  fputc('\'', stream);
  for (; *argument; argument++) {
    if (*argument == '\'') fputs("'\\''", stream);
    else fputc(*argument, stream);
  }
  fputc('\'', stream);
}

char *command_line_text(const command_line *line, const command *c)
{
  char *text = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream) return NULL;
  fprintf(stream, "alibi %s", c->name);
  for (int i = 0; i < line->argument_count; i++) {
    fputc(' ', stream);
    write_quoted(stream, line->arguments[i]);
  }
  if (fclose(stream) == 0) return text;
  free(text);
  return NULL;
}

/* Damerau's distance (optimal string alignment): a letter dropped, added, changed, or two swapped cost one. */
static size_t edit_distance(const char *a, const char *b)
{
  size_t rows = strlen(a), columns = strlen(b);
  size_t d[3][NAME_SIZE + 1];
  if (rows > NAME_SIZE || columns > NAME_SIZE) return rows + columns;
  for (size_t j = 0; j <= columns; j++) d[0][j] = j;
  for (size_t i = 1; i <= rows; i++) {
    size_t *row = d[i % 3], *above = d[(i + 2) % 3], *above2 = d[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= columns; j++) {
      size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
        best = above2[j - 2] + 1;
      row[j] = best;
    }
  }
  return d[rows % 3][columns];
}

void nearest_consider(nearest_name *nearest, const char *candidate)
{
  size_t typed = strlen(nearest->typed), length = strlen(candidate);
  size_t distance = edit_distance(nearest->typed, candidate);
  bool beginning = typed >= 2 && typed < length && strncmp(nearest->typed, candidate, typed) == 0;
  if (beginning) distance = 1; /* --lay is short for --layers in the user's mind */
  size_t stem = strspn(candidate, "-");
  size_t limit = (length - stem) / 3;
  if (distance > (limit ? limit : 1)) return;
  if (nearest->best[0] && distance >= nearest->distance) return;
  snprintf(nearest->best, sizeof nearest->best, "%s", candidate);
  nearest->distance = distance;
}

bool command_line_find(const command_line *line, const char *name, found_option *found)
{
  char candidate[NAME_SIZE];
  for (size_t g = 0; g < line->group_count; g++) {
    const option_group *group = &line->groups[g];
    for (size_t i = 0; i < group->table.count; i++) {
      const field *f = &group->table.fields[i];
      field_option(group->prefix, f->name, candidate, sizeof candidate);
      bool same = strcmp(name, candidate) == 0;
      bool negated =
          f->kind == FIELD_BOOLEAN && strncmp(name, "--no-", 5) == 0 && !strcmp(name + 5, candidate + 2);
      if (!same && !negated) continue;
      *found = (found_option){.field = f, .values = group->values, .given_name = f->name, .negated = !same};
      return true;
    }
  }
  for (size_t i = 0; i < line->text_count; i++) {
    const text_option *text = &line->texts[i];
    field_option("", text->name, candidate, sizeof candidate);
    if (strcmp(name, candidate) != 0) continue;
    *found = (found_option){.values = text->values ? (void *)text->values : (void *)text->value,
                            .text = text,
                            .given_name = text->name};
    return true;
  }
  return false;
}

void command_line_nearest(const command_line *line, bool negations, nearest_name *nearest)
{
  char candidate[NAME_SIZE];
  for (size_t g = 0; g < line->group_count; g++)
    for (size_t i = 0; i < line->groups[g].table.count; i++) {
      const field *f = &line->groups[g].table.fields[i];
      field_option(line->groups[g].prefix, f->name, candidate, sizeof candidate);
      nearest_consider(nearest, candidate);
      if (f->kind != FIELD_BOOLEAN || !negations) continue;
      char negation[NAME_SIZE + 8];
      snprintf(negation, sizeof negation, "--no-%s", candidate + 2);
      nearest_consider(nearest, negation);
    }
  for (size_t i = 0; i < line->text_count; i++) {
    field_option("", line->texts[i].name, candidate, sizeof candidate);
    nearest_consider(nearest, candidate);
  }
}

static status unknown_option(const command_line *line, const command *c, const char *name, alibi_error *error)
{
  nearest_name nearest = {.typed = name};
  command_line_nearest(line, true, &nearest);
  if (nearest.best[0])
    return fail(error, ALIBI_INVALID, "%s: unknown option %s; did you mean %s?", c->name, name, nearest.best);
  return fail(error, ALIBI_INVALID, "%s: unknown option %s; alibi %s --help lists the options", c->name, name,
              c->name);
}

status command_line_note(command_line *line, const found_option *found, const char *name, alibi_error *error)
{
  status result = memory_grow(&line->given, &line->given_capacity, line->given_count + 1, sizeof *line->given,
                              "the options", error);
  if (result != ALIBI_OK) return result;
  struct command_given *given = &line->given[line->given_count++];
  *given = (struct command_given){found->values, found->given_name, ""};
  snprintf(given->option, sizeof given->option, "%s", name);
  return ALIBI_OK;
}

/* Sets what `name` names.  value: after '=', or NULL; next: the argument that follows, or NULL.  *used_next: the
 * value was that argument; *more: those after it are values too. */
static status set_option(command_line *line, const command *c, const char *name, const char *value,
                         const char *next, bool *used_next, text_values **more, alibi_error *error)
{
  found_option found;
  if (!command_line_find(line, name, &found)) return unknown_option(line, c, name, error);
  bool again = command_line_given(line, found.values, found.given_name),
       repeats = found.text && found.text->values;
  if (again && !repeats) return fail(error, ALIBI_INVALID, "%s: given more than once", name);
  status result = again ? ALIBI_OK : command_line_note(line, &found, name, error);
  if (result != ALIBI_OK) return result;
  bool is_switch = found.field && found.field->kind == FIELD_BOOLEAN;
  if (is_switch && (found.negated || !value)) {
    if (value) return fail(error, ALIBI_INVALID, "%s: takes no value, found '%s'", name, value);
    return field_set_text(found.field, found.values, name, found.negated ? "false" : "true", error);
  }
  if (!value) {
    if (!next) return fail(error, ALIBI_INVALID, "%s: expected a value after it", name);
    if (strncmp(next, "--", 2) == 0)
      return fail(error, ALIBI_INVALID,
                  "%s: expected a value after it, found the option %s (a value that begins "
                  "with -- is written %s=VALUE)",
                  name, next, name);
    value = next;
    *used_next = true;
  }
  const char *kind = found.text ? found.text->placeholder : found.field->kind == FIELD_TEXT ? "a text" : NULL;
  if (kind && !*value) return fail(error, ALIBI_INVALID, "%s: expected %s, found an empty text", name, kind);
  if (*used_next && repeats && found.text->many) *more = found.text->values;
  if (repeats) return text_values_add(found.text->values, value, error);
  if (found.text) {
    *found.text->value = value;
    return ALIBI_OK;
  }
  return field_set_text(found.field, found.values, name, value, error);
}

static bool is_option(const char *argument)
{
  return argument[0] == '-' && argument[1] != '\0';
}

status command_line_parse(command_line *line, const command *c, int count, char **arguments, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t room = (size_t)count + 1;
  line->operands = calloc(room, sizeof *line->operands);
  if (!line->operands) RAISE(error, ALIBI_FAILED, "not enough memory for %d arguments", count);
  line->arguments = arguments;
  line->argument_count = count;
  bool options_end = false;
  text_values *more = NULL;
  for (int i = 0; i < count; i++) {
    const char *argument = arguments[i];
    if (!options_end && strcmp(argument, "--") == 0) {
      options_end = true;
    } else if (more && !options_end && !is_option(argument)) {
      TRY(text_values_add(more, argument, error));
    } else if (options_end || !is_option(argument)) {
      if (!c->operands) RAISE(error, ALIBI_INVALID, "%s: takes options only, found '%s'", c->name, argument);
      line->operands[line->operand_count++] = argument;
    } else {
      char name[NAME_SIZE];
      size_t length = strcspn(argument, "=");
      snprintf(name, sizeof name, "%.*s", (int)(length < NAME_SIZE ? length : NAME_SIZE - 1), argument);
      const char *value = argument[length] ? argument + length + 1 : NULL;
      bool used_next = false;
      const char *next = i + 1 < count ? arguments[i + 1] : NULL;
      more = NULL;
      TRY(set_option(line, c, name, value, next, &used_next, &more, error));
      i += used_next;
    }
  }
  TRY(config_file_read(line, c, error));
done:
  return result;
}

void command_line_free(command_line *line)
{
  free(line->operands);
  free(line->given);
  for (size_t i = 0; i < line->text_count; i++) {
    text_values *values = line->texts[i].values;
    if (!values) continue;
    free(values->items);
    *values = (text_values){0};
  }
  for (size_t i = 0; i < line->file_text_count; i++) free(line->file_texts[i]);
  free(line->file_texts);
  *line = (command_line){0};
}

/* Text wrapped between two columns, the cursor at `at`. */
static void write_wrapped(FILE *stream, const char *text, size_t at, size_t indent)
{
  for (; at < indent; at++) fputc(' ', stream);
  while (*text) {
    size_t word = strcspn(text, " ");
    if (at > indent && at + word > HELP_WIDTH) {
      fprintf(stream, "\n%*s", (int)indent, "");
      at = indent;
    }
    fprintf(stream, "%.*s", (int)word, text);
    at += word;
    text += word;
    size_t spaces = strspn(text, " ");
    if (!spaces) break;
    text += spaces;
    if (*text && at + 1 + strcspn(text, " ") <= HELP_WIDTH) {
      fputc(' ', stream);
      at++;
    } else if (*text) {
      fprintf(stream, "\n%*s", (int)indent, "");
      at = indent;
    }
  }
  fputc('\n', stream);
}

static void help_line(FILE *stream, const char *left, const char *right)
{
  size_t at = 2 + strlen(left);
  fprintf(stream, "  %s", left);
  if (at + 2 > HELP_COLUMN) {
    fputc('\n', stream);
    at = 0;
  }
  write_wrapped(stream, right, at, HELP_COLUMN);
}

static void join_choices(const field *f, const char *separator, char *text, size_t size)
{
  text[0] = '\0';
  for (int i = 0; f->choices[i]; i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i ? separator : "", f->choices[i]);
  }
}

/* "1 to 1024", "at least 1", or nothing to say. */
static void range_text(const field *f, char *text, size_t size)
{
  const double boundless = 1e12;
  bool low = f->minimum > -boundless, high = f->maximum < boundless;
  if (low && high) snprintf(text, size, "%.10g to %.10g, ", f->minimum, f->maximum);
  else if (low) snprintf(text, size, "at least %.10g, ", f->minimum);
  else if (high) snprintf(text, size, "at most %.10g, ", f->maximum);
  else text[0] = '\0';
}

static void help_field(FILE *stream, const option_group *group, const field *f)
{
  char name[NAME_SIZE], left[1024], initial[128], detail[1024] = "", right[2048];
  field_option(group->prefix, f->name, name, sizeof name);
  if (f->initial_text && f->kind != FIELD_TEXT) snprintf(initial, sizeof initial, "%s", f->initial_text);
  else field_get_text(f, group->values, initial, sizeof initial);
  switch (f->kind) {
  case FIELD_BOOLEAN: {
    bool on = strcmp(initial, "true") == 0;
    snprintf(left, sizeof left, on ? "--[no-]%s" : "--%s", name + 2);
    if (on) snprintf(detail, sizeof detail, " (default on)");
    break;
  }
  case FIELD_CHOICE: {
    char list[512];
    join_choices(f, "|", list, sizeof list);
    bool fits = strlen(name) + strlen(list) + 1 <= HELP_COLUMN - 4;
    snprintf(left, sizeof left, "%s %s", name, fits ? list : "NAME");
    join_choices(f, ", ", list, sizeof list);
    snprintf(detail, sizeof detail, " (%s%sdefault %s)", fits ? "" : list, fits ? "" : "; ", initial);
    break;
  }
  case FIELD_INTEGER:
  case FIELD_REAL: {
    char range[128];
    range_text(f, range, sizeof range);
    snprintf(left, sizeof left, "%s %s", name, f->kind == FIELD_INTEGER ? "N" : "X");
    snprintf(detail, sizeof detail, " (%sdefault %s)", range, initial);
    break;
  }
  case FIELD_TEXT:
    snprintf(left, sizeof left, "%s TEXT", name);
    if (initial[0]) snprintf(detail, sizeof detail, " (default %s)", initial);
    break;
  }
  snprintf(right, sizeof right, "%s%s", f->help, detail);
  help_line(stream, left, right);
}

/* Line by line: a long one is wrapped, one that begins with a space stands as it is. */
static void write_paragraphs(FILE *stream, const char *text)
{
  while (*text) {
    size_t length = strcspn(text, "\n");
    char line[2048];
    snprintf(line, sizeof line, "%.*s", (int)length, text);
    if (line[0] == ' ') fprintf(stream, "%s\n", line);
    else write_wrapped(stream, line, 0, 0);
    text += length;
    if (*text) text++;
  }
}

void command_help(const command *c, const command_line *line, FILE *stream)
{
  fprintf(stream, "usage: alibi %s [options]%s%s\n\n", c->name, c->operands ? " " : "",
          c->operands ? c->operands : "");
  write_wrapped(stream, c->summary, 0, 0);
  if (c->details) fputc('\n', stream);
  if (c->details) write_paragraphs(stream, c->details);
  if (line->text_count) fprintf(stream, "\nFiles and lists:\n");
  for (size_t i = 0; i < line->text_count; i++) {
    const text_option *text = &line->texts[i];
    char name[NAME_SIZE], left[NAME_SIZE + 64], right[2048];
    field_option("", text->name, name, sizeof name);
    snprintf(left, sizeof left, "%s %s", name, text->placeholder);
    if (text->value && *text->value) snprintf(right, sizeof right, "%s (default %s)", text->help, *text->value);
    else snprintf(right, sizeof right, "%s", text->help);
    help_line(stream, left, right);
  }
  for (size_t g = 0; g < line->group_count; g++) {
    fprintf(stream, "\n%s:\n", line->groups[g].title);
    for (size_t i = 0; i < line->groups[g].table.count; i++)
      help_field(stream, &line->groups[g], &line->groups[g].table.fields[i]);
  }
}
