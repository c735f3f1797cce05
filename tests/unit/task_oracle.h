/* task_oracle.h - prompts of tasks for tests, and a model that knows one text by heart: its output depends on the
 * position alone.  Include after cmocka.h. */
#ifndef UNIT_TASK_ORACLE_H
#define UNIT_TASK_ORACLE_H

#include <string.h>

#include "evaluate/task.h"
#include "model/model.h"

/* The task's own options as they are at first, with names and values to set, "often=4 seldom=1". */
typedef union task_test_options {
  unsigned char bytes[TASK_OPTIONS_SIZE];
  double align;
} task_test_options;

static inline void oracle_options(const evaluation_task *task, const char *settings, task_test_options *options)
{
  char text[256], *rest = text;
  alibi_error error = {0};
  memset(options, 0, sizeof *options);
  field_init(task->fields, options->bytes);
  snprintf(text, sizeof text, "%s", settings);
  for (char *word; (word = strtok_r(rest, " ", &rest));) {
    char *value = strchr(word, '=');
    assert_non_null(value);
    *value++ = '\0';
    const field *f = field_find(task->fields, word);
    if (!f) continue;
    if (field_set_text(f, options->bytes, word, value, &error) != ALIBI_OK) fail_msg("%s", error.message);
  }
}

/* Settings with which every task fits into short prompts. */
#define ORACLE_SMALL "common=2 often=4 seldom=1 pairs=4 asked=1 queries=3"

static inline void oracle_make(const evaluation_task *task, const task_material *material,
                               const task_test_options *options, size_t length, double depth, uint64_t seed,
                               uint64_t trial, task_prompts *prompts)
{
  alibi_error error = {0};
  task_request request = {.material = material,
                          .options = options->bytes,
                          .length = length,
                          .depth = depth,
                          .random = task_random_of(task, seed, length, (size_t)(depth * 1e6 + 0.5), trial)};
  if (task->make(&request, prompts, &error) != ALIBI_OK) fail_msg("%s: %s", task->name, error.message);
}

/* Says ids[p + 1] after position p, whatever the tokens are; where `spoilt` (0: nowhere) the id after it. */
static inline alibi_model *oracle_model(alibi_context *context, const uint32_t *ids, size_t count,
                                        uint32_t vocabulary, size_t spoilt)
{
  alibi_model_config config;
  alibi_model *model = NULL;
  alibi_error error = {0};
  alibi_model_config_init(&config);
  config.vocabulary = vocabulary;
  config.layers = 1;
  config.width = (int64_t)count;
  config.heads = 1;
  config.head_size = 4;
  config.feed_forward = 8;
  config.train_length = (int64_t)count;
  config.tied = false;
  if (alibi_model_config_set(&config, "position", "learned", &error) != ALIBI_OK ||
      alibi_model_new(context, &config, 1, &model, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  memset(model->values, 0, model->list.floats * sizeof *model->values);
  for (size_t p = 0; p < count; p++) {
    model->parameters.final_norm_gain[p] = 1;
    model->parameters.position[0][p * count + p] = 1;
    if (p + 1 == count) break;
    uint32_t next = (ids[p + 1] + (p + 1 == spoilt)) % vocabulary;
    model->parameters.output_weight[(size_t)next * count + p] = 10;
  }
  return model;
}

#endif
