/* Sessions: a text's keys and values, and the steps that add to them.  The one idea: a session owns only what is
 * its own, cache and logits.  Activations and position tables lie in an engine, which all sessions of a model with
 * the same capacity and the same extension share; so a step over many sessions is one pass with many segments of
 * one row. */
#include "alibi/session.h"

#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "model/model.h"

/* The least that a session may keep of each list: the blocks in which nothing stops, and those of one part of a
 * feed. */
enum { ENGINE_ROWS = 128, HEAD_ROWS = 32, LEAST_KEEP = PROOF_FROM * ATTENTION_BLOCK + ENGINE_ROWS };

struct session_engine {
  struct session_engine *next; /* of the model */
  size_t users;
  size_t capacity;
  extension_choice extension;
  model_pass *pass;
  alibi_session *group[ENGINE_ROWS]; /* of the step under way */
  uint32_t tokens[ENGINE_ROWS];
  pass_segment segments[ENGINE_ROWS];
};

struct alibi_session {
  alibi_model *model;
  struct session_engine *engine;
  block_cache *cache;
  float *logits, *fresh; /* [V] after the last token; of the step under way */
  float *logits_memory;
  size_t length, kept; /* kept: blocks of a list, on average; 0: all */
  bool has_logits;
  bool stale;   /* cleared, but there was no memory for blocks of its own */
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

static status engine_new(alibi_model *model, size_t capacity, const extension_choice *extension,
                         struct session_engine **engine, alibi_error *error)
{
  status result;
  TRY(memory_new(engine, 1, sizeof **engine, "the passes of sessions", error));
  (*engine)->capacity = capacity;
  (*engine)->extension = *extension;
  pass_shape shape = {.rows = ENGINE_ROWS,
                      .segments = ENGINE_ROWS,
                      .length = capacity,
                      .head_rows = HEAD_ROWS,
                      .drops = model->method->decays,
                      .extension = extension->extension,
                      .extension_options = (*engine)->extension.options.bytes};
  TRY(model_pass_new(model, &shape, &(*engine)->pass, error));
done:
  if (result != ALIBI_OK) {
    engine_free(*engine);
    *engine = NULL;
  }
  return result;
}

static status engine_borrow(alibi_model *model, size_t capacity, const extension_choice *extension,
                            struct session_engine **engine, alibi_error *error)
{
  for (*engine = model->engines; *engine; *engine = (*engine)->next)
    if ((*engine)->capacity == capacity && extension_choice_equal(&(*engine)->extension, extension)) break;
  if (!*engine) {
    status result = engine_new(model, capacity, extension, engine, error);
    if (result != ALIBI_OK) return result;
    (*engine)->next = model->engines;
    model->engines = *engine;
  }
  (*engine)->users++;
  return ALIBI_OK;
}

/* Blocks of a list, on average, that hold the keys of so many tokens. */
static status blocks_to_keep(const alibi_model *model, int64_t keep, size_t *kept, alibi_error *error)
{
  const alibi_context *context = model->context;
  *kept = 0;
  if (keep == 0) return ALIBI_OK;
  if (!model->method->decays)
    return fail(error, ALIBI_INVALID,
                "session: keep %lld: expected a position method whose bias decays, so that keys may be dropped, "
                "found '%s'",
                (long long)keep, model->method->name);
  if (!(context->tolerance > 0) || !context->kernel->proof_sums)
    return fail(
        error, ALIBI_INVALID,
        "session: keep %lld: expected a tolerance above 0 and an instruction set that skips, found %g and %s",
        (long long)keep, context->tolerance, context->kernel->name);
  if (keep < LEAST_KEEP)
    return fail(error, ALIBI_INVALID, "session: keep: expected at least %d tokens, or 0 (all), found %lld",
                (int)LEAST_KEEP, (long long)keep);
  *kept = (size_t)(keep / ATTENTION_BLOCK + (keep % ATTENTION_BLOCK != 0));
  return ALIBI_OK;
}

/* Which block may go is told by slopes or gates: a list that a head without a slope reads, or one under a table of
 * distances, never loses any, and the session would fail once it is full.  Neither the kind of a bias nor the sign
 * of a slope depends on the length, so a pass of one token tells, before anything of the capacity is made. */
static status check_slopes(alibi_model *model, const extension_choice *extension, int64_t keep, alibi_error *error)
{
  const pass_shape shape = {.rows = 1,
                            .segments = 1,
                            .length = 1,
                            .head_rows = 1,
                            .extension = extension->extension,
                            .extension_options = extension->options.bytes};
  size_t heads = (size_t)model->config.heads;
  const char *name = model->method->name;
  model_pass *pass = NULL;
  status result = ALIBI_OK;
  if (keep == 0) return ALIBI_OK;
  TRY(model_pass_new(model, &shape, &pass, error));
  const position_plan *plan = &pass->position.plan;
  if (plan->gated) goto done;
  if (plan->bias != BIAS_SLOPE)
    RAISE(
        error, ALIBI_INVALID,
        "session: keep %lld: expected a position method whose bias falls by slopes or gates, so that keys may be "
        "dropped, found '%s'",
        (long long)keep, name);
  for (size_t i = 0; i < plan->sets * heads; i++) {
    if (plan->slopes[i] > 0) continue;
    char layer[48] = "";
    if (plan->sets > 1) snprintf(layer, sizeof layer, " of layer %zu", i / heads);
    RAISE(error, ALIBI_INVALID,
          "session: keep %lld: expected a slope above 0 on every head, so that keys may be dropped, found %g on "
          "head "
          "%zu%s of the position method '%s'",
          (long long)keep, (double)plan->slopes[i], i % heads, layer, name);
  }
done:
  model_pass_free(pass);
  return result;
}

/* A session without a cache. */
static status session_begin(alibi_model *model, size_t capacity, const extension_choice *extension,
                            alibi_session **session, alibi_error *error)
{
  size_t vocabulary = (size_t)model->config.vocabulary;
  status result;
  TRY(memory_new(session, 1, sizeof **session, "a session", error));
  alibi_session *s = *session;
  s->model = model;
  TRY(model_pack(model, error));
  TRY(engine_borrow(model, capacity, extension, &s->engine, error));
  TRY(memory_new(&s->logits_memory, size_mul(2, vocabulary), sizeof *s->logits, "the logits of a session", error));
  s->logits = s->logits_memory;
  s->fresh = s->logits + vocabulary;
done:
  return result;
}

status alibi_session_new(alibi_model *model, const alibi_session_options *options, alibi_session **session,
                         alibi_error *error)
{
  alibi_session_options own;
  extension_choice extension = {0};
  size_t kept = 0;
  status result;
  *session = NULL;
  alibi_session_options_init(&own);
  if (options) TRY(settings_take(options, &own, sizeof own, "alibi_session_options", error));
  TRY(model_check_causal(model, "a session", error));
  options = &own;
  if (options->capacity < 0)
    RAISE(error, ALIBI_INVALID, "session: expected a capacity of at least 0, found %lld",
          (long long)options->capacity);
  if (options->extend)
    TRY(model_config_read_extension(&model->config, "extend", options->extend, &extension, error));
  TRY(blocks_to_keep(model, options->keep, &kept, error));
  TRY(check_slopes(model, &extension, options->keep, error));
  size_t capacity = (size_t)(options->capacity ? options->capacity : model->config.train_length);
  TRY(session_begin(model, capacity, &extension, session, error));
  (*session)->kept = kept;
  TRY(model_cache_new((*session)->engine->pass, capacity, kept, &(*session)->cache, error));
  return ALIBI_OK;
done:
  alibi_session_free(*session);
  *session = NULL;
  return result;
}

/* The same keys only where positions mean the same. */
static status check_share(const alibi_session *from, int64_t length, const alibi_session_options *options,
                          alibi_error *error)
{
  const struct session_engine *e = from->engine;
  const position_request *positions = &e->pass->request;
  const position_extension *extension = positions->extension; /* asked for, or the model's own */
  extension_choice asked;
  char extend[EXTENSION_TEXT_SIZE] = "none";
  if (e->extension.extension) extension_text_write(&e->extension, extend, sizeof extend);
  if (length < 0 || (uint64_t)length > from->length)
    return fail(error, ALIBI_INVALID, "session: expected to share at most the %zu tokens of the other, found %lld",
                from->length, (long long)length);
  bool same =
      !options->extend || strcmp(options->extend, extend) == 0 ||
      (extension_text_read("extend", from->model->config.position, options->extend, &asked, NULL) == ALIBI_OK &&
       extension_choice_equal(&asked, &e->extension));
  if (!same)
    return fail(error, ALIBI_INVALID,
                "session: expected the extension of the session that it begins with, %s, found '%s'", extend,
                options->extend);
  if (options->capacity != 0 && options->capacity < length)
    return fail(error, ALIBI_INVALID,
                "session: expected a capacity of at least the %lld tokens shared, found %lld", (long long)length,
                (long long)options->capacity);
  bool follows = extension && extension->follows_length && extension->follows_length(positions);
  if (follows && options->capacity != 0 && (uint64_t)options->capacity != e->capacity)
    return fail(
        error, ALIBI_INVALID,
        "session: expected the capacity of the session that it begins with, %zu, since the extension '%s' depends "
        "on it, found %lld",
        e->capacity, extension->name, (long long)options->capacity);
  for (size_t l = 0; l < from->cache->lists; l++)
    if (from->cache->first_block[l] > (size_t)length / ATTENTION_BLOCK)
      return fail(
          error, ALIBI_INVALID,
          "session: expected to share a length whose last keys are there, found %lld, of which some were dropped",
          (long long)length);
  return ALIBI_OK;
}

status alibi_session_share(alibi_session *from, int64_t length, const alibi_session_options *options,
                           alibi_session **session, alibi_error *error)
{
  alibi_session_options own;
  alibi_model *model = from->model;
  size_t kept = 0;
  status result;
  *session = NULL;
  alibi_session_options_init(&own);
  if (options) TRY(settings_take(options, &own, sizeof own, "alibi_session_options", error));
  TRY(check_share(from, length, &own, error));
  TRY(blocks_to_keep(model, own.keep, &kept, error));
  TRY(check_slopes(model, &from->engine->extension, own.keep, error));
  if (own.keep == 0) kept = from->kept;
  size_t capacity = own.capacity ? (size_t)own.capacity : from->engine->capacity;
  TRY(session_begin(model, capacity, &from->engine->extension, session, error));
  alibi_session *s = *session;
  s->kept = kept;
  TRY(model_cache_share(s->engine->pass, from->cache, (size_t)length, capacity, kept, &s->cache, error));
  s->length = (size_t)length;
  s->has_logits = from->has_logits && s->length == from->length;
  if (s->has_logits) memcpy(s->logits, from->logits, (size_t)model->config.vocabulary * sizeof *s->logits);
  return ALIBI_OK;
done:
  alibi_session_free(*session);
  *session = NULL;
  return result;
}

void alibi_session_free(alibi_session *session)
{
  if (!session) return;
  engine_release(session->model, session->engine);
  block_cache_free(session->cache);
  memory_free(session->logits_memory);
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

static status start_over(alibi_session *s, alibi_error *error)
{
  status result = s->stale ? block_cache_restart(s->cache, error) : ALIBI_OK;
  if (result == ALIBI_OK) s->stale = false;
  return result;
}

/* The length moves only at the end: until then the cache holds what a later call will write again.  Not so where
 * blocks are dropped: what the beginning of a long call still had may be gone at its end. */
status alibi_session_feed(alibi_session *s, const uint32_t *tokens, size_t count, alibi_error *error)
{
  status result = check_tokens(s, tokens, count, error);
  if (result != ALIBI_OK || count == 0) return result;
  model_pass *pass = s->engine->pass;
  size_t first = s->length, rows = 0;
  TRY(start_over(s, error));
  for (size_t taken = 0; taken < count; taken += rows) {
    rows = count - taken < ENGINE_ROWS ? count - taken : ENGINE_ROWS;
    pass_segment segment = {.count = rows, .first = first + taken, .cache = s->cache, .wanted = 1};
    TRY(context_check_cancel(s->model->context, error));
    TRY(model_forward(pass, tokens + taken, &segment, 1, error));
    if (!s->kept && taken + rows < count) continue;
    model_logits(pass, rows - 1, s->logits);
    s->has_logits = true;
    s->length = first + taken + rows;
  }
done:
  return result;
}

/* One row for each of the group's sessions, then their logits together.  *failed: the session that failed. */
static status run_group(struct session_engine *e, size_t count, const alibi_session **failed, alibi_error *error)
{
  for (size_t i = 0; i < count; i++)
    e->segments[i] = (pass_segment){.count = 1, .first = e->group[i]->length, .cache = e->group[i]->cache};
  status result = model_forward(e->pass, e->tokens, e->segments, count, error);
  if (result != ALIBI_OK) {
    *failed = e->group[e->pass->failed_segment];
    return result;
  }
  const alibi_model *model = e->pass->model;
  size_t vocabulary = (size_t)model->config.vocabulary, width = (size_t)model->config.width;
  for (size_t start = 0; start < count; start += HEAD_ROWS) {
    size_t n = count - start < HEAD_ROWS ? count - start : HEAD_ROWS;
    model_head(model, &e->pass->work, n, e->pass->hidden + start * width, e->pass->logits);
    for (size_t i = 0; i < n; i++)
      memcpy(e->group[start + i]->fresh, e->pass->logits + i * vocabulary, vocabulary * sizeof *e->pass->logits);
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
    if (result == ALIBI_OK) result = start_over(sessions[i], error);
    if (result != ALIBI_OK) return result;
    sessions[i]->pending = true;
  }
  return context_check_cancel(model->context, error);
}

/* All groups have run: now the sessions have taken their tokens. */
static void take_fresh(alibi_session *const *sessions, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    alibi_session *s = sessions[i];
    float *old = s->logits;
    s->logits = s->fresh;
    s->fresh = old;
    s->has_logits = true;
    s->length++;
  }
}

static void name_session(alibi_session *const *sessions, size_t count, const alibi_session *failed,
                         alibi_error *error)
{
  for (size_t i = 0; failed && error && i < count; i++) {
    alibi_error inner = *error;
    if (sessions[i] == failed) fail(error, inner.status, "step: session %zu: %s", i, inner.message);
  }
}

status alibi_step(alibi_model *model, alibi_session *const *sessions, const uint32_t *tokens, size_t count,
                  alibi_error *error)
{
  const alibi_session *failed = NULL;
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
    TRY(run_group(e, rows, &failed, error));
  }
  take_fresh(sessions, count);
done:
  for (size_t i = 0; result != ALIBI_OK && i < count; i++) sessions[i]->pending = false;
  if (result != ALIBI_OK) name_session(sessions, count, failed, error);
  return result;
}

const float *alibi_session_logits(const alibi_session *session)
{
  return session->has_logits ? session->logits : NULL;
}

int64_t alibi_session_length(const alibi_session *session)
{
  return (int64_t)session->length;
}

int64_t alibi_session_capacity(const alibi_session *session)
{
  return (int64_t)session->engine->capacity;
}

int64_t alibi_session_kept(const alibi_session *session)
{
  size_t lists = session->cache->lists, blocks = block_cache_held(session->cache, session->length);
  return (int64_t)((blocks + lists - 1) / lists * ATTENTION_BLOCK);
}

/* What it shares is left to the others at once, so that a step need not allocate. */
void alibi_session_clear(alibi_session *session)
{
  session->length = 0;
  session->has_logits = false;
  session->stale = block_cache_restart(session->cache, NULL) != ALIBI_OK;
}
