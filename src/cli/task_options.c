/* Option groups of tasks. */
#include "cli/task_options.h"

#include <assert.h>
#include <stdio.h>

static char prefixes[TASK_OPTIONS_MOST][64], titles[TASK_OPTIONS_MOST][96];

void task_options_add(command_line *line, bool trainable, task_own_options *options)
{
  assert(task_count() <= TASK_OPTIONS_MOST);
  for (size_t i = 0; i < task_count(); i++) {
    const evaluation_task *task = task_at(i);
    if (task->fields.count == 0 || (trainable && !task->sequence)) continue;
    assert(task->options_size <= TASK_OPTIONS_SIZE);
    snprintf(prefixes[i], sizeof prefixes[i], "%.60s-", task->name);
    snprintf(titles[i], sizeof titles[i], "Task %.80s", task->name);
    command_add_group(line, titles[i], task->fields, options->values[i].bytes, prefixes[i]);
  }
}

const char *task_options_given(const command_line *line, const task_own_options *options,
                               const evaluation_task *task)
{
  static char option[160];
  for (size_t i = 0; i < task_count(); i++)
    for (size_t f = 0; task_at(i) != task && f < task_at(i)->fields.count; f++) {
      const char *name = task_at(i)->fields.fields[f].name;
      if (!command_line_given(line, options->values[i].bytes, name)) continue;
      field_option(prefixes[i], name, option, sizeof option);
      return option;
    }
  return NULL;
}

void task_options_say(const evaluation_task *task, alibi_error *error)
{
  for (size_t i = 0; i < task_count(); i++)
    if (task_at(i) == task) field_say_option(task->fields, prefixes[i], error);
}

const void *task_options_of(const task_own_options *options, const evaluation_task *task)
{
  for (size_t i = 0; i < task_count(); i++)
    if (task_at(i) == task) return options->values[i].bytes;
  return NULL;
}
