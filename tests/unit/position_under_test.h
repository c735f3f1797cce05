/* position_under_test.h - one position method at a time, with settings and a request, and the sentence where its
 * plan is refused.  Include after cmocka.h. */
#ifndef UNIT_POSITION_UNDER_TEST_H
#define UNIT_POSITION_UNDER_TEST_H

#include <stddef.h>
#include <string.h>

#include "position/position.h"

typedef union position_options {
  max_align_t align;
  char bytes[ALIBI_POSITION_OPTIONS_SIZE];
} position_options;

static position_options options;
static const position_method *method;
static position_request request;
static position_tables tables;
static alibi_error error;

/* With its initial settings. */
static inline void use_method(const char *name, position_shape shape, size_t length)
{
  alibi_error_init(&error);
  method = position_method_find(name);
  assert_non_null(method);
  field_init(method->fields, options.bytes);
  request = (position_request){.shape = shape, .options = options.bytes, .length = length};
}

static inline void set_option(const char *name, const char *value)
{
  const field *f = field_find(method->fields, name);
  assert_non_null(f);
  if (field_set_text(f, options.bytes, name, value, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static inline void prepare(void)
{
  position_release(&tables);
  if (position_prepare(method, &request, &tables, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static inline void refused_with(const char *part)
{
  position_release(&tables);
  assert_int_equal(position_prepare(method, &request, &tables, &error), ALIBI_INVALID);
  if (!strstr(error.message, part)) fail_msg("expected a sentence with \"%s\", found \"%s\"", part, error.message);
}

static inline void refused(const char *sentence)
{
  refused_with(sentence);
  assert_string_equal(error.message, sentence);
}

static inline int teardown(void **unused)
{
  (void)unused;
  position_release(&tables);
  return 0;
}

#endif
