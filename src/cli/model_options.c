/* Option groups from the tables of the model, of training and of every position method. */
#include "cli/model_options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/config.h"
#include "train/trainer.h"

enum { MAX_FIELDS = 64 };

static field model_fields[MAX_FIELDS];
static char prefixes[MODEL_OPTIONS_METHODS][ALIBI_NAME_SIZE + 2];
static char titles[MODEL_OPTIONS_METHODS][ALIBI_NAME_SIZE + 32];

static char position_help[512];

static bool listed(const char *const *list, const char *name)
{
  for (; list && *list; list++)
    if (strcmp(*list, name) == 0) return true;
  return false;
}

void model_options_add(command_line *line, model_options *options, const char *const *hidden)
{
  field_table all = model_config_fields(), shown = {model_fields, 0};
  char names[sizeof position_help - 32];
  position_method_names(names, sizeof names);
  snprintf(position_help, sizeof position_help, "position method: %s", names);
  alibi_model_config_init(&options->config);
  for (size_t i = 0; i < all.count && i < MAX_FIELDS; i++) {
    if (listed(hidden, all.fields[i].name)) continue;
    field *f = &model_fields[shown.count++];
    *f = all.fields[i];
    if (strcmp(f->name, "position") == 0) f->help = position_help;
  }
  command_add_group(line, "Model", shown, &options->config, "");
  alibi_train_options_init(&options->train);
  command_add_group(line, "Training", train_option_fields(), &options->train, "");
  assert(position_method_count() <= MODEL_OPTIONS_METHODS);
  for (size_t i = 0; i < position_method_count(); i++) {
    const position_method *m = position_method_at(i);
    options->method_pointers[i] = options->methods[i].bytes;
    snprintf(prefixes[i], sizeof prefixes[i], "%.62s-", m->name);
    snprintf(titles[i], sizeof titles[i], "Position method %.64s", m->name);
    if (m->fields.count) command_add_group(line, titles[i], m->fields, options->methods[i].bytes, prefixes[i]);
  }
}

status model_options_check(const command_line *line, const model_options *options,
                           bool (*used)(const char *method), alibi_error *error)
{
  for (size_t i = 0; i < position_method_count(); i++) {
    const position_method *m = position_method_at(i);
    for (size_t f = 0; f < m->fields.count; f++) {
      if (used(m->name) || !command_line_given(line, options->methods[i].bytes, m->fields.fields[f].name))
        continue;
      char option[2 * ALIBI_NAME_SIZE];
      field_option(prefixes[i], m->fields.fields[f].name, option, sizeof option);
      return fail(error, ALIBI_INVALID, "%s: a setting of the method '%s', which is not used here", option,
                  m->name);
    }
  }
  return ALIBI_OK;
}

status model_options_take_method(model_options *options, const char *method, alibi_error *error)
{
  const position_method *chosen;
  status result = position_method_require("--position", method, &chosen, error);
  if (result == ALIBI_OK) result = model_config_set_method(&options->config, chosen->name, error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < position_method_count(); i++)
    if (strcmp(position_method_at(i)->name, method) == 0)
      memcpy(options->config.position_options.bytes, options->methods[i].bytes,
             position_method_at(i)->options_size);
  return ALIBI_OK;
}
