/* cli/task_options.h - the options of every task, from its table of fields: --recall-pairs. */
#ifndef CLI_TASK_OPTIONS_H
#define CLI_TASK_OPTIONS_H

#include "cli/command.h"
#include "evaluate/task.h"

enum { TASK_OPTIONS_MOST = 24 };

typedef struct task_own_options {
  union {
    unsigned char bytes[TASK_OPTIONS_SIZE];
    double align;
  } values[TASK_OPTIONS_MOST];
} task_own_options;

/* A group for each task with options; trainable: of those alone of which there are training sets. */
void task_options_add(command_line *line, bool trainable, task_own_options *options);
/* An option of a task other than `task` that was given, as it was typed; NULL: none. */
const char *task_options_given(const command_line *line, const task_own_options *options,
                               const evaluation_task *task);
/* A sentence of the library about a setting of the task names its option. */
void task_options_say(const evaluation_task *task, alibi_error *error);
const void *task_options_of(const task_own_options *options, const evaluation_task *task);

#endif
