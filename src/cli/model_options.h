/* cli/model_options.h - the options that describe a model and its training, shared by the commands that train:
 * groups made from the tables of fields, one more for every position method that has settings ("--rope-base"). */
#ifndef CLI_MODEL_OPTIONS_H
#define CLI_MODEL_OPTIONS_H

#include "alibi/model.h"
#include "alibi/train.h"
#include "cli/command.h"

enum { MODEL_OPTIONS_METHODS = 32 };

typedef struct model_options {
  alibi_model_config config;
  alibi_train_options train;
  /* per row of the registry of methods: its settings */
  union {
    unsigned char bytes[ALIBI_POSITION_OPTIONS_SIZE];
    double align;
  } methods[MODEL_OPTIONS_METHODS];
  const void *method_pointers[MODEL_OPTIONS_METHODS];
} model_options;

/* Adds the groups.  hidden: NULL-terminated names of model fields that the command sets otherwise ("vocabulary").
 */
void model_options_add(command_line *line, model_options *options, const char *const *hidden);

/* Settings of methods that are not used are a usage error.  used(name): is the method part of this run? */
status model_options_check(const command_line *line, const model_options *options,
                           bool (*used)(const char *method), alibi_error *error);

/* The chosen method's settings into config.position_options. */
status model_options_take_method(model_options *options, const char *method, alibi_error *error);

#endif
