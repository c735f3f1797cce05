/* Sessions: a text's keys and values, and the steps that add to them.  The one idea: a session owns only what is
 * its own, cache and logits.  Activations and position tables lie in an engine, which all sessions of a model with
 * the same capacity and the same extension share; so a step over many sessions is one pass with many segments of
 * one row. */
#include "alibi/session.h"

#include <string.h>

#include "base/settings.h"
#include "model/model.h"

enum { ENGINE_ROWS = 128, HEAD_ROWS = 32 };

struct session_engine {
  struct session_engine *next; /* of the model */
  size_t users;
  size_t capacity;
  const position_extension *extension;
  union {
    max_align_t align;
    unsigned char bytes[POSITION_OPTIONS_SIZE];
  } extension_options;
  model_pass *pass;
  alibi_session *group[ENGINE_ROWS]; /* of the step under way */
  uint32_t tokens[ENGINE_ROWS];
  pass_segment segments[ENGINE_ROWS];
};

struct alibi_session {
  alibi_model *model;
  struct session_engine *engine;
  block_cache *cache;
  float *logits; /* [V] */
  size_t length;
  bool pending; /* in the step under way, not yet run */
};

void alibi_session_options_init(alibi_session_options *options)
{
  *options = (alibi_session_options){.size = sizeof *options};
}

static void engine_free(struct session_engine *engine)
{
  if (!engine) return;
  model_pass_free(engine->pass);
  memory_free(engine);
}

static void engine_release(alibi_model *model, struct session_engine *engine)
{
  if (!engine || --engine->users > 0) return;
  struct session_engine **link = &model->engines;
  while (*link != engine) link = &(*link)->next;
  *link = engine->next;
  engine_free(engine);
}

static status engine_new(alibi_model *model, size_t capacity, const position_extension *extension,
                         struct session_engine **engine, alibi_error *error)
{
  status result;
  TRY(memory_new(engine, 1, sizeof **engine, "the passes of sessions", error));
  (*engine)->capacity = capacity;
  (*engine)->extension = extension;
  if (extension) field_init(extension->fields, (*engine)->extension_options.bytes);
  pass_shape shape = {.rows = ENGINE_ROWS,
                      .segments = ENGINE_ROWS,
                      .length = capacity,
                      .head_rows = HEAD_ROWS,
                      .extension = extension,
                      .extension_options = (*engine)->extension_options.bytes};
  TRY(model_pass_new(model, &shape, &(*engine)->pass, error));
done:
  if (result != ALIBI_OK) {
    engine_free(*engine);
    *engine = NULL;
  }
  return result;
}

static status engine_borrow(alibi_model *model, size_t capacity, const position_extension *extension,
                            struct session_engine **engine, alibi_error *error)
{
  for (*engine = model->engines; *engine; *engine = (*engine)->next)
    if ((*engine)->capacity == capacity && (*engine)->extension == extension) break;
  if (!*engine) {
    status result = engine_new(model, capacity, extension, engine, error);
    if (result != ALIBI_OK) return result;
    (*engine)->next = model->engines;
    model->engines = *engine;
  }
  (*engine)->users++;
  return ALIBI_OK;
}

status alibi_session_new(alibi_model *model, const alibi_session_options *options, alibi_session **session,
                         alibi_error *error)
{
  alibi_session_options own;
  alibi_session *s = NULL;
  const position_extension *extension = NULL;
  status result;
  *session = NULL;
  alibi_session_options_init(&own);
  if (options) TRY(settings_take(options, &own, sizeof own, "alibi_session_options", error));
  options = &own;
  if (options->capacity < 0)
    RAISE(error, ALIBI_INVALID, "session: expected a capacity of at least 0, found %lld",
          (long long)options->capacity);
  if (options->extend)
    TRY(position_extension_require("extend", model->config.position, options->extend, &extension, error));
  size_t capacity = (size_t)(options->capacity ? options->capacity : model->config.train_length);
  TRY(memory_new(&s, 1, sizeof *s, "a session", error));
  s->model = model;
  TRY(model_pack(model, error));
  TRY(engine_borrow(model, capacity, extension, &s->engine, error));
  TRY(model_cache_new(model, capacity, &s->cache, error));
  TRY(memory_new(&s->logits, (size_t)model->config.vocabulary, sizeof *s->logits, "the logits of a session",
                 error));
  *session = s;
  return ALIBI_OK;
done:
  alibi_session_free(s);
  return result;
}

void alibi_session_free(alibi_session *session)
{
  if (!session) return;
  engine_release(session->model, session->engine);
  block_cache_free(session->cache);
  memory_free(session->logits);
  memory_free(session);
}

static status check_tokens(const alibi_session *s, const uint32_t *tokens, size_t count, alibi_error *error)
{
  if (count > s->engine->capacity - s->length)
    return fail(error, ALIBI_INVALID,
                "session: expected at most %zu tokens in all (its capacity), found %zu and %zu more",
                s->engine->capacity, s->length, count);
  for (size_t i = 0; i < count; i++)
    if (tokens[i] >= (uint64_t)s->model->config.vocabulary)
      return fail(error, ALIBI_INVALID, "token %u: expected an id below the vocabulary of %lld", tokens[i],
                  (long long)s->model->config.vocabulary);
  return ALIBI_OK;
}

/* The length moves only at the end: until then the cache holds what a later call will write again. */
status alibi_session_feed(alibi_session *s, const uint32_t *tokens, size_t count, alibi_error *error)
{
  status result = check_tokens(s, tokens, count, error);
  if (result != ALIBI_OK || count == 0) return result;
  model_pass *pass = s->engine->pass;
  size_t taken = 0, rows = 0;
  for (; taken < count; taken += rows) {
    rows = count - taken < ENGINE_ROWS ? count - taken : ENGINE_ROWS;
    pass_segment segment = {.count = rows, .first = s->length + taken, .cache = s->cache, .wanted = 1};
    TRY(context_check_cancel(s->model->context, error));
    TRY(model_forward(pass, tokens + taken, &segment, 1, error));
  }
  model_logits(pass, rows - 1, s->logits);
  s->length += count;
done:
  return result;
}

/* One row for each of the group's sessions, then their logits together. */
static status run_group(struct session_engine *e, size_t count, alibi_error *error)
{
  for (size_t i = 0; i < count; i++)
    e->segments[i] = (pass_segment){.count = 1, .first = e->group[i]->length, .cache = e->group[i]->cache};
  status result = model_forward(e->pass, e->tokens, e->segments, count, error);
  if (result != ALIBI_OK) return result;
  alibi_model *model = e->pass->model;
  matrix head = model_output_weight(model);
  for (size_t start = 0; start < count; start += HEAD_ROWS) {
    size_t n = count - start < HEAD_ROWS ? count - start : HEAD_ROWS;
    op_linear_forward(model->context, &e->pass->work, n, e->pass->hidden + start * head.columns, head.columns,
                      &head, NULL, e->pass->logits, head.rows, false);
    for (size_t i = 0; i < n; i++) {
      alibi_session *s = e->group[start + i];
      memcpy(s->logits, e->pass->logits + i * head.rows, head.rows * sizeof *s->logits);
      s->length++;
    }
  }
  return ALIBI_OK;
}

static status check_step(alibi_model *model, alibi_session *const *sessions, const uint32_t *tokens, size_t count,
                         alibi_error *error)
{
  for (size_t i = 0; i < count; i++) {
    if (sessions[i]->model != model)
      return fail(error, ALIBI_INVALID,
                  "step: session %zu: expected a session of this model, found one of another", i);
    if (sessions[i]->pending)
      return fail(error, ALIBI_INVALID, "step: session %zu: expected different sessions, found it twice", i);
    status result = check_tokens(sessions[i], &tokens[i], 1, error);
    if (result != ALIBI_OK) return result;
    sessions[i]->pending = true;
  }
  return context_check_cancel(model->context, error);
}

status alibi_step(alibi_model *model, alibi_session *const *sessions, const uint32_t *tokens, size_t count,
                  alibi_error *error)
{
  status result;
  TRY(check_step(model, sessions, tokens, count, error));
  for (size_t i = 0; i < count; i++) {
    if (!sessions[i]->pending) continue;
    struct session_engine *e = sessions[i]->engine;
    size_t rows = 0;
    for (size_t j = i; j < count && rows < ENGINE_ROWS; j++) {
      if (!sessions[j]->pending || sessions[j]->engine != e) continue;
      sessions[j]->pending = false;
      e->tokens[rows] = tokens[j];
      e->group[rows++] = sessions[j];
    }
    TRY(run_group(e, rows, error));
  }
done:
  for (size_t i = 0; result != ALIBI_OK && i < count; i++) sessions[i]->pending = false;
  return result;
}

const float *alibi_session_logits(const alibi_session *session)
{
  return session->length > 0 ? session->logits : NULL;
}

int64_t alibi_session_length(const alibi_session *session)
{
  return (int64_t)session->length;
}

int64_t alibi_session_capacity(const alibi_session *session)
{
  return (int64_t)session->engine->capacity;
}

void alibi_session_clear(alibi_session *session)
{
  session->length = 0;
}
