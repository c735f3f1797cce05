/* log.jsonl: the table of its keys, the writer, the reader.  The one idea: a line is true once its newline is
 * there. So the writer puts a line out in one piece, and after a failure throws away what has no newline before it
 * goes on; the reader passes over a last line without one. */
#include "file/training_log.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/json.h"

#define KEY(key, its_kind)                                                                                        \
  {                                                                                                               \
    .name = #key, .kind = its_kind, .offset = offsetof(training_step, key), .minimum = 0, .maximum = MOST         \
  }
#define MOST (double)(1LL << 53) /* integers beyond would not survive JSON */

static const field step_fields[] = {
    KEY(step, FIELD_INTEGER),
    {.name = "loss",
     .kind = FIELD_REAL,
     .offset = offsetof(training_step, loss),
     .minimum = -1e300,
     .maximum = 1e300},
    {.name = "gradient_norm",
     .kind = FIELD_REAL,
     .offset = offsetof(training_step, gradient_norm),
     .minimum = 0,
     .maximum = 1e300},
    KEY(learning_rate, FIELD_REAL),
    KEY(tokens, FIELD_INTEGER),
    KEY(tokens_done, FIELD_INTEGER),
    KEY(length, FIELD_INTEGER),
    KEY(tokens_per_second, FIELD_REAL),
    KEY(share_of_peak, FIELD_REAL),
    KEY(seconds, FIELD_REAL),
};

field_table training_step_fields(void)
{
  return (field_table)FIELD_TABLE(step_fields);
}

/* ---- writing ---- */

/* The number of the line's step; false where the line is no JSON object with one. */
static bool line_step(const char *line, size_t size, int64_t *step)
{
  json_node *node = NULL;
  bool found = node_parse(line, size, "line", &node, NULL) == ALIBI_OK;
  const json_node *number = node_get(node, "step");
  found = found && node_kind_of(number) == NODE_INTEGER;
  if (found) *step = node_integer(number, 0);
  node_free(node);
  return found;
}

static void copy_kept(const mapped_file *old, int64_t last, FILE *stream)
{
  const char *line = (const char *)old->data, *end = line + old->size, *newline;
  for (; line < end && (newline = memchr(line, '\n', (size_t)(end - line))); line = newline + 1) {
    int64_t step;
    if (line_step(line, (size_t)(newline - line), &step) && step <= last)
      fwrite(line, 1, (size_t)(newline + 1 - line), stream); /* replace_commit asks the stream */
  }
}

/* Puts a file of the lines that stay in the place of the old one, and opens it at its end. */
static status open_after(training_log_writer *writer, int64_t last, alibi_error *error)
{
  status result;
  replace_file kept = {0};
  mapped_file old = {0};
  bool opened = false;
  TRY(replace_begin(writer->path, &kept, error));
  if (last >= 0 && path_exists(writer->path)) {
    TRY(mapped_file_open(writer->path, &old, error));
    opened = true;
    copy_kept(&old, last, kept.stream);
  }
  TRY(replace_commit(&kept, error));
  writer->stream = fopen(writer->path, "ab");
  if (!writer->stream) result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", writer->path);
done:
  replace_abandon(&kept);
  if (opened) mapped_file_close(&old);
  return result;
}

status training_log_begin(const char *path, int64_t last, training_log_writer *writer, alibi_error *error)
{
  *writer = (training_log_writer){.path = strdup(path)};
  if (!writer->path) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  status result = open_after(writer, last, error);
  if (result != ALIBI_OK) training_log_end(writer);
  return result;
}

static status write_line(training_log_writer *writer, const char *line, size_t size, alibi_error *error)
{
  if (!writer->stream) {
    status result = open_after(writer, INT64_MAX, error);
    if (result != ALIBI_OK) return result;
  }
  if (fwrite(line, 1, size, writer->stream) == size && fflush(writer->stream) == 0) return ALIBI_OK;
  status result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", writer->path);
  fclose(writer->stream);
  writer->stream = NULL;
  return result;
}

/* A number as JSON writes it. */
static void step_text(const field *f, const void *values, char *text, size_t size)
{
  if (f->kind == FIELD_REAL && !isfinite(field_get_number(f, values))) {
    snprintf(text, size, "null");
    return;
  }
  field_get_text(f, values, text, size);
}

status training_log_step(training_log_writer *writer, const training_step *step, alibi_error *error)
{
  enum { FIELDS = sizeof step_fields / sizeof step_fields[0], FIELD_ROOM = 64 };
  char line[FIELDS * FIELD_ROOM + 8], number[40];
  size_t used = 0;
  for (size_t i = 0; i < FIELDS; i++) {
    step_text(&step_fields[i], step, number, sizeof number);
    used += (size_t)snprintf(line + used, sizeof line - used, "%s\"%s\":%s", i ? "," : "{", step_fields[i].name,
                             number);
  }
  used += (size_t)snprintf(line + used, sizeof line - used, "}\n");
  return write_line(writer, line, used, error);
}

/* Takes the tree over. */
static status write_node(training_log_writer *writer, json_node *node, alibi_error *error)
{
  status result;
  char *text = node_to_text(node);
  if (text) {
    size_t size = strlen(text);
    text[size] = '\n'; /* in the place of its NUL, which nobody needs any more */
    result = write_line(writer, text, size + 1, error);
  } else {
    result = fail(error, ALIBI_FAILED, "%s: not enough memory to write it", writer->path);
  }
  free(text);
  node_free(node);
  return result;
}

status training_log_evaluation(training_log_writer *writer, int64_t step, const training_evaluation *list,
                               size_t count, alibi_error *error)
{
  json_node *node = node_new_object(), *array = node_new_array();
  node_set_integer(node, "step", step);
  for (size_t i = 0; i < count; i++) {
    json_node *one = node_new_object();
    node_set_integer(one, "length", list[i].length);
    node_set_number(one, "loss", list[i].loss);
    node_set_number(one, "perplexity", list[i].perplexity);
    node_append(array, one);
  }
  node_set(node, "evaluation", array);
  return write_node(writer, node, error);
}

status training_log_event(training_log_writer *writer, int64_t step, const char *name, const char *text,
                          alibi_error *error)
{
  json_node *node = node_new_object();
  node_set_integer(node, "step", step);
  node_set_text(node, "event", name);
  if (text && *text) node_set_text(node, "text", text);
  return write_node(writer, node, error);
}

void training_log_end(training_log_writer *writer)
{
  if (writer->stream) fclose(writer->stream);
  free(writer->path);
  *writer = (training_log_writer){0};
}

/* ---- reading ---- */

typedef struct reader {
  const char *path;
  size_t line;
  training_log *log;
  alibi_error *error;
} reader;

static status refuse(const reader *r, const char *key, const char *expected)
{
  return fail(r->error, ALIBI_BAD_INPUT, "%s: line %zu: %s: expected %s", r->path, r->line, key, expected);
}

/* A member that is a number, null for one that is not finite, or absent, which leaves the value as it is. */
static status take_number(const reader *r, const json_node *node, const field *f, void *values)
{
  char option[1024];
  node_kind kind = node_kind_of(node);
  if (!node || kind == NODE_NULL) return ALIBI_OK;
  if (kind != NODE_INTEGER && kind != NODE_REAL) return refuse(r, f->name, "a number");
  snprintf(option, sizeof option, "%s: line %zu: %s", r->path, r->line, f->name);
  status result = field_set_number(f, values, option, node_number(node, NAN), r->error);
  return result == ALIBI_INVALID ? ALIBI_BAD_INPUT : result;
}

/* What comes after `step` was before a jump back, and is told again. */
static void forget_after(training_log *log, int64_t step)
{
  while (log->step_count > 0 && log->steps[log->step_count - 1].step > step) log->step_count--;
  while (log->evaluation_count > 0 && log->evaluations[log->evaluation_count - 1].step > step)
    log->evaluation_count--;
}

static status take_step(const reader *r, const json_node *line, int64_t number)
{
  training_log *log = r->log;
  training_step step = {.loss = NAN,
                        .gradient_norm = NAN,
                        .learning_rate = NAN,
                        .tokens_per_second = NAN,
                        .share_of_peak = NAN,
                        .seconds = NAN};
  status result = ALIBI_OK;
  for (size_t i = 0; i < sizeof step_fields / sizeof step_fields[0]; i++)
    TRY(take_number(r, node_get(line, step_fields[i].name), &step_fields[i], &step));
  if (log->step_count > 0 && log->steps[log->step_count - 1].step >= number) forget_after(log, number - 1);
  TRY(memory_grow(&log->steps, &log->step_room, log->step_count + 1, sizeof step, "the steps of a log", r->error));
  log->steps[log->step_count++] = step;
done:
  return result;
}

static status take_evaluation(const reader *r, const json_node *list, int64_t step)
{
  static const field fields[] = {
      {.name = "length",
       .kind = FIELD_INTEGER,
       .offset = offsetof(training_evaluation, length),
       .minimum = 1,
       .maximum = MOST},
      {.name = "loss",
       .kind = FIELD_REAL,
       .offset = offsetof(training_evaluation, loss),
       .minimum = -1e300,
       .maximum = 1e300},
      {.name = "perplexity",
       .kind = FIELD_REAL,
       .offset = offsetof(training_evaluation, perplexity),
       .minimum = 0,
       .maximum = DBL_MAX},
  };
  training_log *log = r->log;
  status result = ALIBI_OK;
  if (node_kind_of(list) != NODE_ARRAY) return refuse(r, "evaluation", "an array");
  for (size_t i = 0; i < node_count(list); i++) {
    training_evaluation one = {.step = step, .loss = NAN, .perplexity = NAN};
    const json_node *item = node_at(list, i);
    for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++)
      TRY(take_number(r, node_get(item, fields[k].name), &fields[k], &one));
    if (one.length == 0) TRY(refuse(r, "evaluation", "a length in every object"));
    size_t place = log->evaluation_count;
    while (place > 0 && log->evaluations[place - 1].step > step) place--;
    log->evaluation_count = place;
    for (size_t k = place; k > 0 && log->evaluations[k - 1].step == step; k--)
      if (log->evaluations[k - 1].length == one.length) place = k - 1; /* measured again */
    TRY(memory_grow(&log->evaluations, &log->evaluation_room, place + 1, sizeof one, "the evaluations of a log",
                    r->error));
    log->evaluations[place] = one;
    if (place == log->evaluation_count) log->evaluation_count++;
  }
done:
  return result;
}

static status take_event(const reader *r, const json_node *line, int64_t step)
{
  training_log *log = r->log;
  const char *name = node_text(node_get(line, "event"), NULL), *text = node_text(node_get(line, "text"), "");
  if (!name) return refuse(r, "event", "a text");
  if (strcmp(name, TRAINING_RESUMED) == 0) forget_after(log, step);
  training_event event = {.step = step};
  snprintf(event.name, sizeof event.name, "%s", name);
  bool told = log->event_count > 0 && step <= log->latest_event; /* perhaps */
  for (size_t i = 0; i < log->event_count && told; i++) {
    const training_event *known = &log->events[i];
    if (known->step == step && strcmp(known->name, event.name) == 0 && strcmp(known->text, text) == 0)
      return ALIBI_OK;
  }
  status result = memory_grow(&log->events, &log->event_room, log->event_count + 1, sizeof event,
                              "the events of a log", r->error);
  if (result != ALIBI_OK) return result;
  event.text = strdup(text);
  if (!event.text) return fail(r->error, ALIBI_FAILED, "%s: not enough memory to read it", r->path);
  log->events[log->event_count++] = event;
  if (step > log->latest_event) log->latest_event = step;
  return ALIBI_OK;
}

static void leave_out(alibi_error *error, const char *words)
{
  char *place = error ? strstr(error->message, words) : NULL;
  if (place) memmove(place, place + strlen(words), strlen(place + strlen(words)) + 1);
}

static status take_line(const reader *r, const char *text, size_t size)
{
  status result = ALIBI_OK;
  json_node *line = NULL;
  char what[1024];
  if (size == 0 || (size == 1 && text[0] == '\r')) return ALIBI_OK;
  snprintf(what, sizeof what, "%s: line %zu", r->path, r->line);
  result = node_parse(text, size, what, &line, r->error);
  if (result != ALIBI_OK) {
    leave_out(r->error, "line 1, "); /* of the text that was parsed; `what` has the line of the file */
    goto done;
  }
  if (node_kind_of(line) != NODE_OBJECT) RAISE(r->error, ALIBI_BAD_INPUT, "%s: expected a JSON object", what);
  const json_node *step = node_get(line, "step"), *evaluation = node_get(line, "evaluation");
  int64_t number = node_integer(step, -1);
  if (node_kind_of(step) != NODE_INTEGER || number < 0) TRY(refuse(r, "step", "an integer that is not negative"));
  if (node_get(line, "loss")) TRY(take_step(r, line, number));
  if (evaluation) TRY(take_evaluation(r, evaluation, number));
  if (node_get(line, "event")) TRY(take_event(r, line, number));
done:
  node_free(line);
  return result;
}

status training_log_read(const char *path, training_log *log, alibi_error *error)
{
  mapped_file file = {0};
  reader r = {.path = path, .log = log, .error = error};
  *log = (training_log){0};
  status result = mapped_file_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  const char *line = (const char *)file.data, *end = line + file.size, *newline;
  for (; line < end && (newline = memchr(line, '\n', (size_t)(end - line))); line = newline + 1) {
    r.line++;
    TRY(take_line(&r, line, (size_t)(newline - line)));
  }
done:
  mapped_file_close(&file);
  if (result != ALIBI_OK) training_log_free(log);
  return result;
}

void training_log_free(training_log *log)
{
  for (size_t i = 0; i < log->event_count; i++) free(log->events[i].text);
  free(log->steps);
  free(log->evaluations);
  free(log->events);
  *log = (training_log){0};
}
