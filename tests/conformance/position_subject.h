/* position_subject.h - one row of the registries of positions under test: a method, perhaps extended, with its
 * initial settings or others, and parameters that are not zero; and what its plan says of a pair of positions.
 * Include after cmocka.h. */
#ifndef CONFORMANCE_POSITION_SUBJECT_H
#define CONFORMANCE_POSITION_SUBJECT_H

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "conformance/position_rows.h"
#include "conformance/position_vary.h"
#include "position/distance_table.h"
#include "position/position.h"

enum { LAYERS = 2, HEADS = 12, HEAD_SIZE = 16, WIDTH = HEADS * HEAD_SIZE, LONG = 300 };

typedef union subject_options {
  max_align_t align;
  char bytes[ALIBI_POSITION_OPTIONS_SIZE];
} subject_options;

typedef struct subject {
  char name[128]; /* for messages */
  const position_method *method;
  subject_options options, extension_options;
  size_t parameter_count, sizes[POSITION_MAX_PARAMETERS];
  float *parameters[POSITION_MAX_PARAMETERS];
  position_request request;
  position_tables tables;
} subject;

/* As many of `length` positions as there are. */
static inline size_t subject_at_most(const subject *s, size_t length)
{
  size_t limit = position_method_limit(s->method, &s->request.shape, s->request.options, s->request.extension);
  return length < limit ? length : limit;
}

/* Of settings: are they fit for the shape? */
static inline bool subject_accepts(void *user)
{
  const subject *s = user;
  alibi_error error;
  if (s->method->check && s->method->check(&s->request.shape, s->options.bytes, &error) != ALIBI_OK) return false;
  return !s->request.extension || position_extension_check(s->method, &s->request, &error) == ALIBI_OK;
}

/* Returns the number of settings that are not initial. */
static inline size_t subject_open_varied(subject *s, size_t row, size_t train_length, vary_kind kind)
{
  memset(s, 0, sizeof *s);
  position_row_pair pair;
  assert_true(position_row_at(row, &pair));
  const position_extension *extension = pair.extension;
  s->method = pair.method;
  if (extension) field_init(extension->fields, s->extension_options.bytes);
  position_row_name(&pair, s->name, sizeof s->name);
  field_init(s->method->fields, s->options.bytes);
  s->request = (position_request){.shape = {.layers = LAYERS,
                                            .heads = HEADS,
                                            .head_size = HEAD_SIZE,
                                            .width = WIDTH,
                                            .train_length = train_length},
                                  .options = s->options.bytes,
                                  .extension = extension,
                                  .extension_options = extension ? s->extension_options.bytes : NULL,
                                  .length = 1};
  size_t varied = vary(s->method->fields, s->options.bytes, kind, HEADS, subject_accepts, s);
  if (extension) varied += vary(extension->fields, s->extension_options.bytes, kind, HEADS, subject_accepts, s);
  position_parameter list[POSITION_MAX_PARAMETERS];
  if (s->method->parameters) s->parameter_count = s->method->parameters(&s->request.shape, s->options.bytes, list);
  assert_true(s->parameter_count <= POSITION_MAX_PARAMETERS);
  for (size_t i = 0; i < s->parameter_count; i++) {
    s->sizes[i] = list[i].rows * list[i].columns;
    s->parameters[i] = malloc(s->sizes[i] * sizeof(float));
    assert_non_null(s->parameters[i]);
    for (size_t k = 0; k < s->sizes[i]; k++) s->parameters[i][k] = (float)random_normal(1, i, k);
    s->request.parameters[i] = s->parameters[i];
  }
  return varied;
}

static inline void subject_open(subject *s, size_t row, size_t train_length)
{
  subject_open_varied(s, row, train_length, VARY_NOTHING);
}

static inline void subject_prepare(subject *s, size_t length)
{
  alibi_error error;
  alibi_error_init(&error);
  position_release(&s->tables);
  s->request.length = length;
  if (position_prepare(s->method, &s->request, &s->tables, &error) != ALIBI_OK)
    fail_msg("%s: %s", s->name, error.message);
}

static inline void subject_close(subject *s)
{
  position_release(&s->tables);
  for (size_t i = 0; i < s->parameter_count; i++) free(s->parameters[i]);
}

/* Which head of the plan's tables is head h of a layer. */
static inline size_t subject_head(const position_plan *plan, size_t layer, size_t h)
{
  return (plan->sets > 1 ? layer * HEADS : 0) + h;
}

/* The gates of a plan that has them need a text, and are no bias of its own. */
static inline float subject_bias(const position_plan *plan, size_t layer, size_t h, size_t i, size_t j)
{
  float bias = 0;
  if (plan->bias == BIAS_SLOPE) bias = -plan->slopes[subject_head(plan, layer, h)] * (float)(i - j);
  if (plan->bias == BIAS_DISTANCE)
    bias = plan->table[distance_at(plan->length, subject_head(plan, layer, h), i - j)];
  if (plan->bias == BIAS_ROWS) plan->rows.bias(plan->rows.user, (int)h, (int64_t)i, (int64_t)j, 1, &bias);
  return bias;
}

static inline float subject_factor(const position_plan *plan, size_t layer, size_t h, size_t i, size_t j)
{
  return plan->factors ? plan->factors[distance_at(plan->length, subject_head(plan, layer, h), i - j)] : 1;
}

static inline bool subject_has_bias(const position_plan *plan)
{
  return plan->bias != BIAS_NONE && !plan->gated;
}

static inline void assert_close(const subject *s, const char *what, double found, double expected,
                                double tolerance)
{
  if (!(fabs(found - expected) <= tolerance))
    fail_msg("%s: %s: expected %.17g, found %.17g", s->name, what, expected, found);
}

#endif
