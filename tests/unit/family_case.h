/* family_case.h - opening the tiny public models of family_files.h, changed or not, from a folder of the test's
 * own.  Include after cmocka.h. */
#ifndef UNIT_FAMILY_CASE_H
#define UNIT_FAMILY_CASE_H

#include "unit/scratch.h"
#include "unit/family_files.h"

static alibi_context *context;
static alibi_error error;
static family_tensors tensors;

static inline const char *folder(void)
{
  return scratch_path("model");
}

/* One replacement in a configuration. */
static inline void write_config(const char *config, const char *from, const char *to)
{
  char text[4096];
  const char *at = strstr(config, from);
  if (!at) fail_msg("not in the configuration: %s", from);
  else snprintf(text, sizeof text, "%.*s%s%s", (int)(at - config), config, to, at + strlen(from));
  family_config_write(folder(), text);
}

static inline void begin(const char *name)
{
  const family_file *family = family_file_find(name);
  scratch_remove_tree(folder());
  assert_int_equal(directory_make(folder(), &error), ALIBI_OK);
  alibi_error_init(&error);
  family_tensors_free(&tensors);
  family_tensors_make(&tensors, family);
  family_config_write(folder(), family->config);
}

static inline void change(const char *name, const char *from, const char *to)
{
  write_config(family_file_find(name)->config, from, to);
}

static inline alibi_model *open_as(const alibi_open_options *options)
{
  alibi_model *model = NULL;
  family_tensors_write(&tensors, folder());
  if (alibi_model_open_with(context, folder(), options, &model, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_non_null(model);
  return model;
}

static inline alibi_model *open_it(void)
{
  return open_as(NULL);
}

/* The file is refused, with these words. */
static inline void refused(const char *part)
{
  alibi_model *model = NULL;
  alibi_error_init(&error);
  family_tensors_write(&tensors, folder());
  status result = alibi_model_open(context, folder(), &model, &error);
  if (result == ALIBI_OK) fail_msg("accepted, expected: %s", part);
  assert_null(model);
  if (result != ALIBI_BAD_INPUT) fail_msg("status %d: %s", (int)result, error.message);
  scratch_says(error.message, part);
}

static inline bool has_note(const alibi_model *model, const char *part)
{
  for (size_t i = 0; i < alibi_model_note_count(model); i++)
    if (strstr(alibi_model_note(model, i), part)) return true;
  return false;
}

/* As cmocka's setup and teardown of a group. */
static inline int family_setup(void **state)
{
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.threads = 1;
  if (alibi_context_new(&options, &context, &error) != ALIBI_OK) return -1;
  return scratch_setup(state);
}

static inline int family_teardown(void **state)
{
  family_tensors_free(&tensors);
  alibi_context_free(context);
  return scratch_teardown(state);
}

#endif
