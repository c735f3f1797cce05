/* Questions from JSON lines. */
#include "evaluate/task_questions.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "file/json.h"

/* What stands there, in words. */
static const char *kind_name(const json_node *node)
{
  static const char *const names[] = {"null",   "true or false", "an integer", "a number",
                                      "a text", "a list",        "an object"};
  return node ? names[node_kind_of(node)] : "nothing";
}

static bool is_text(const json_node *node)
{
  return node && node_kind_of(node) == NODE_TEXT;
}

static status copy_text(const json_node *node, char **text, alibi_error *error)
{
  *text = strdup(node_text(node, ""));
  return *text ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the questions");
}

static status read_choices(const char *where, const json_node *list, choice_question *q, alibi_error *error)
{
  size_t count = node_count(list);
  status result;
  if (!list || node_kind_of(list) != NODE_ARRAY)
    return fail(error, ALIBI_BAD_INPUT, "%s: \"choices\": expected a list of texts, found %s", where,
                kind_name(list));
  if (count < 2)
    return fail(error, ALIBI_BAD_INPUT, "%s: \"choices\": expected at least 2, found %zu", where, count);
  q->choices = calloc(count, sizeof *q->choices);
  if (!q->choices) return fail(error, ALIBI_FAILED, "not enough memory for the questions");
  for (; q->count < count; q->count++) {
    const json_node *choice = node_at(list, q->count);
    if (!is_text(choice) || !node_text(choice, "")[0])
      return fail(error, ALIBI_BAD_INPUT, "%s: \"choices\": item %zu: expected a text that is not empty, found %s",
                  where, q->count + 1, is_text(choice) ? "an empty one" : kind_name(choice));
    result = copy_text(choice, &q->choices[q->count], error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

static status read_question(const char *where, const json_node *node, choice_question *q, alibi_error *error)
{
  const json_node *context = node_get(node, "context"), *answer = node_get(node, "answer");
  if (node_kind_of(node) != NODE_OBJECT)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected an object with context, choices and answer, found %s", where,
                kind_name(node));
  if (!is_text(context) || !node_text(context, "")[0])
    return fail(error, ALIBI_BAD_INPUT, "%s: \"context\": expected a text that is not empty, found %s", where,
                is_text(context) ? "an empty one" : kind_name(context));
  status result = copy_text(context, &q->context, error);
  if (result == ALIBI_OK) result = read_choices(where, node_get(node, "choices"), q, error);
  if (result != ALIBI_OK) return result;
  if (!answer || node_kind_of(answer) != NODE_INTEGER)
    return fail(error, ALIBI_BAD_INPUT, "%s: \"answer\": expected the number of a choice, found %s", where,
                kind_name(answer));
  int64_t number = node_integer(answer, -1);
  if (number < 0 || (uint64_t)number >= q->count)
    return fail(error, ALIBI_BAD_INPUT, "%s: \"answer\": expected 0 to %zu, found %lld", where, q->count - 1,
                (long long)number);
  q->answer = (size_t)number;
  return ALIBI_OK;
}

static void question_free(choice_question *q)
{
  free(q->context);
  for (size_t i = 0; i < q->count; i++) free(q->choices[i]);
  free(q->choices);
}

static bool is_blank(const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++)
    if (!strchr(" \t\r", text[i]) || text[i] == '\0') return false;
  return true;
}

static status read_line(const char *path, size_t line, const char *text, size_t size, choice_questions *questions,
                        alibi_error *error)
{
  char where[768];
  json_node *node = NULL;
  choice_question q = {.line = line};
  status result;
  snprintf(where, sizeof where, "%s: line %zu", path, line);
  TRY(node_parse(text, size, where, &node, error));
  TRY(read_question(where, node, &q, error));
  TRY(memory_grow(&questions->items, &questions->capacity, questions->count + 1, sizeof q, "the questions",
                  error));
  questions->items[questions->count++] = q;
done:
  node_free(node);
  if (result != ALIBI_OK) question_free(&q);
  return result;
}

status choice_questions_read(const char *path, choice_questions *questions, alibi_error *error)
{
  mapped_file file = {0};
  status result;
  *questions = (choice_questions){0};
  TRY(mapped_file_open(path, &file, error));
  const char *text = (const char *)file.data;
  for (size_t from = 0, line = 1; from < file.size; line++) {
    const char *end = memchr(text + from, '\n', file.size - from);
    size_t size = (end ? (size_t)(end - text) : file.size) - from;
    if (!is_blank(text + from, size)) TRY(read_line(path, line, text + from, size, questions, error));
    from += size + 1;
  }
  if (questions->count == 0) RAISE(error, ALIBI_BAD_INPUT, "%s: expected questions, one a line, found none", path);
done:
  if (file.data) mapped_file_close(&file);
  if (result != ALIBI_OK) choice_questions_free(questions);
  return result;
}

void choice_questions_free(choice_questions *questions)
{
  for (size_t i = 0; i < questions->count; i++) question_free(&questions->items[i]);
  free(questions->items);
  *questions = (choice_questions){0};
}
