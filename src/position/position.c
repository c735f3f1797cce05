/* The registries of position methods and extensions, and the making of a plan: everything that can be wrong is
 * said here, once, in sentences that name the method; a method's layout and fill then have
 * nothing left to check. */
#include "position/position.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "position/score_scaling.h"

#include "position_extension_registry.inc"
#include "position_method_registry.inc"

size_t position_method_count(void)
{
  return POSITION_METHOD_COUNT;
}

const position_method *position_method_at(size_t index)
{
  return index < POSITION_METHOD_COUNT ? position_method_registry[index] : NULL;
}

const position_method *position_method_find(const char *name)
{
  for (size_t i = 0; i < POSITION_METHOD_COUNT; i++)
    if (strcmp(position_method_registry[i]->name, name) == 0) return position_method_registry[i];
  return NULL;
}

const char *position_method_family(const position_method *method)
{
  return method->family ? method->family : method->name;
}

size_t position_method_limit(const position_method *method, const position_shape *shape, const void *options,
                             const position_extension *extension)
{
  return method->limit && !(extension && extension->row) ? method->limit(shape, options) : SIZE_MAX;
}

size_t position_extension_count(void)
{
  return POSITION_EXTENSION_COUNT;
}

const position_extension *position_extension_at(size_t index)
{
  return index < POSITION_EXTENSION_COUNT ? position_extension_registry[index] : NULL;
}

bool position_extends(const position_extension *extension, const position_method *method)
{
  return strcmp(extension->family, position_method_family(method)) == 0;
}

const position_extension *position_extension_find(const char *method, const char *name)
{
  const position_method *extended = position_method_find(method);
  for (size_t i = 0; extended && i < POSITION_EXTENSION_COUNT; i++) {
    const position_extension *extension = position_extension_registry[i];
    if (position_extends(extension, extended) && strcmp(extension->name, name) == 0) return extension;
  }
  return NULL;
}

size_t position_row(const position_request *request, size_t position)
{
  const position_extension *extension = request->extension;
  return extension && extension->row ? extension->row(request, position) : position;
}

double position_slope_factor(const position_request *request, position_slope *slope, size_t set, size_t head)
{
  const position_extension *extension = request->extension;
  if (!extension || !extension->slope) return 1;
  double own = slope(request, set, head);
  size_t rank = 0, count = 0;
  for (size_t h = 0; h < request->shape.heads; h++) {
    double other = slope(request, set, h);
    rank += other > own;
    count += other > 0;
  }
  return own > 0 ? extension->slope(request, rank, count) : 1;
}

static void add_name(char *text, size_t size, const char *name)
{
  size_t used = strlen(text);
  if (used + 1 < size) snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
}

void position_method_names(char *text, size_t size)
{
  if (size == 0) return;
  text[0] = '\0';
  for (size_t i = 0; i < POSITION_METHOD_COUNT; i++) add_name(text, size, position_method_registry[i]->name);
}

void position_extension_names(const char *method, char *text, size_t size)
{
  if (size == 0) return;
  text[0] = '\0';
  const position_method *extended = position_method_find(method);
  for (size_t i = 0; extended && i < POSITION_EXTENSION_COUNT; i++)
    if (position_extends(position_extension_registry[i], extended))
      add_name(text, size, position_extension_registry[i]->name);
}

status position_method_require(const char *option, const char *name, const position_method **method,
                               alibi_error *error)
{
  *method = position_method_find(name);
  if (*method) return ALIBI_OK;
  char names[512];
  position_method_names(names, sizeof names);
  return fail(error, ALIBI_INVALID, "%s: expected a position method, one of %s, found '%s'", option, names, name);
}

status position_extension_require(const char *option, const char *method, const char *name,
                                  const position_extension **extension, alibi_error *error)
{
  *extension = position_extension_find(method, name);
  if (*extension) return ALIBI_OK;
  char names[512];
  position_extension_names(method, names, sizeof names);
  if (!names[0])
    return fail(error, ALIBI_INVALID, "%s: position method '%s' has no extensions, found '%s'", option, method,
                name);
  return fail(error, ALIBI_INVALID, "%s: expected an extension of position method '%s', one of %s, found '%s'",
              option, method, names, name);
}

/* "rope, p-rope" */
static void names_of_family(const char *family, char *text, size_t size)
{
  text[0] = '\0';
  for (size_t i = 0; i < POSITION_METHOD_COUNT; i++)
    if (strcmp(position_method_family(position_method_registry[i]), family) == 0)
      add_name(text, size, position_method_registry[i]->name);
}

static status check_parameters(const position_method *method, const position_request *request, alibi_error *error)
{
  position_parameter list[POSITION_MAX_PARAMETERS];
  size_t count = method->parameters ? method->parameters(&request->shape, request->options, list) : 0;
  for (size_t i = 0; i < count; i++)
    if (!request->parameters[i])
      return fail(error, ALIBI_INVALID, "position method '%s': expected values of the parameter '%s', found none",
                  method->name, list[i].name);
  if (request->scaling.kind == SCORE_SCALING_SSMAX && !request->scaling.values)
    return fail(error, ALIBI_INVALID, "score scaling 'ssmax': expected values of its parameter, found none");
  return ALIBI_OK;
}

status position_extension_check(const position_method *method, const position_request *request, alibi_error *error)
{
  status result = ALIBI_OK;
  char what[64 + FIELD_TEXT_SIZE], names[512];
  const position_extension *extension = request->extension;
  snprintf(what, sizeof what, "position extension '%s'", extension->name);
  if (!position_extends(extension, method)) {
    names_of_family(extension->family, names, sizeof names);
    RAISE(error, ALIBI_INVALID,
          "%s: expected a model with a position method that it extends, one of %s, found '%s'", what, names,
          method->name);
  }
  if (extension->fields.count > 0 && !request->extension_options)
    RAISE(error, ALIBI_INVALID, "%s: expected its options, found none", what);
  TRY(field_check(extension->fields, request->extension_options, what, error));
  if (extension->check) TRY(extension->check(request, position_outline(method, request).rotary, error));
done:
  return result;
}

/* What helps where positions end: "; a larger scale_base moves the end". */
static void write_advice(const position_method *method, char *text, size_t size)
{
  char names[512];
  bool rows = false;
  text[0] = '\0';
  for (size_t i = 0; i < POSITION_EXTENSION_COUNT; i++)
    rows |= position_extends(position_extension_registry[i], method) && position_extension_registry[i]->row;
  position_extension_names(method->name, names, sizeof names);
  if (rows) snprintf(text, size, "; extensions give later positions a row: %s (--beyond)", names);
  else if (method->further) snprintf(text, size, "; %s moves the end", method->further);
}

static status check_request(const position_method *method, const position_request *request, alibi_error *error)
{
  status result = ALIBI_OK;
  const position_shape *shape = &request->shape;
  char what[64 + FIELD_TEXT_SIZE], advice[640];
  snprintf(what, sizeof what, "position method '%s'", method->name);
  if (shape->heads == 0 || shape->head_size == 0 || shape->width == 0 || shape->train_length == 0)
    RAISE(error, ALIBI_INVALID,
          "%s: expected heads, head size, width and trained length above 0, found %zu, %zu, %zu and %zu", what,
          shape->heads, shape->head_size, shape->width, shape->train_length);
  if (request->length == 0) RAISE(error, ALIBI_INVALID, "%s: expected a length above 0, found 0", what);
  if (method->fields.count > 0 && !request->options)
    RAISE(error, ALIBI_INVALID, "%s: expected its options, found none", what);
  TRY(field_check(method->fields, request->options, what, error));
  if (method->check) TRY(method->check(shape, request->options, error));
  size_t limit = position_method_limit(method, shape, request->options, request->extension);
  if (request->length > limit) {
    write_advice(method, advice, sizeof advice);
    RAISE(error, ALIBI_INVALID,
          "%s: position %zu does not exist: %s %zu positions (a length of %zu was asked for)%s", what, limit,
          limit == shape->train_length ? "the model was trained with" : "the method has", limit, request->length,
          advice);
  }
  TRY(check_parameters(method, request, error));
  if (request->extension) TRY(position_extension_check(method, request, error));
done:
  return result;
}

static void lay_out(const position_method *method, const position_request *request, position_tables *tables)
{
  tables->plan = (position_plan){
      .length = request->length, .sets = 1, .embedding_scale = 1, .row_scale_sets = 1, .bias = BIAS_NONE};
  method->layout(request, &tables->plan, &tables->memory);
  score_scaling_layout(request, &tables->plan, &tables->memory);
}

position_plan position_outline(const position_method *method, const position_request *request)
{
  position_tables counted = {0};
  lay_out(method, request, &counted);
  return counted.plan;
}

void position_fill(const position_method *method, const position_request *request, position_plan *plan)
{
  if (method->parameters) method->fill(request, plan);
  if (request->scaling.values) score_scaling_fill(request, plan);
}

status position_prepare(const position_method *method, const position_request *request, position_tables *tables,
                        alibi_error *error)
{
  status result = ALIBI_OK;
  *tables = (position_tables){0};
  TRY(check_request(method, request, error));
  lay_out(method, request, tables);
  TRY(arena_allocate(&tables->memory, "the tables of a position method", error));
  lay_out(method, request, tables);
  method->fill(request, &tables->plan);
  score_scaling_fill(request, &tables->plan);
done:
  if (result != ALIBI_OK) {
    arena_free(&tables->memory);
    *tables = (position_tables){0};
  }
  return result;
}

void position_release(position_tables *tables)
{
  if (!tables) return;
  arena_free(&tables->memory);
  tables->plan = (position_plan){0};
}
