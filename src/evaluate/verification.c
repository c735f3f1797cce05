/* A prompt is one pass.  What the reference file holds of it is looked at where it lies; nothing in the file is
 * trusted: every tensor's type and shape has to follow from the model and from the number of tokens. */
#include "evaluate/verification.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "file/tensor_file.h"

#define FORMAT "alibi-reference-1"
enum { MOST_PROMPTS = 10000, NAME_SIZE = 64 };

/* ---- the file ---- */

/* What is stored of one prompt; NULL: not in the file.  At any address, so it is read by float_at and integer_at.
 */
typedef struct stored_prompt {
  const file_tensor *top_ids, *top_logits, *spread, *positions, *logits, *activations, *hidden;
} stored_prompt;

static float float_at(const file_tensor *t, size_t i)
{
  float value;
  memcpy(&value, (const char *)t->data + i * sizeof value, sizeof value);
  return value;
}

static int32_t integer_at(const file_tensor *t, size_t i)
{
  int32_t value;
  memcpy(&value, (const char *)t->data + i * sizeof value, sizeof value);
  return value;
}

/* A dimension that the tensor is to have; ANY where the tensor itself says. */
#define ANY SIZE_MAX

typedef struct reader {
  const tensor_file *file;
  const char *path;
  size_t prompt;
} reader;

static status shape_error(const reader *r, const char *name, const file_tensor *t, tensor_type type,
                          int dimensions, const size_t *shape, alibi_error *error)
{
  char expected[80] = "", found[160] = "";
  for (int d = 0; d < dimensions; d++) {
    size_t used = strlen(expected);
    if (shape[d] == ANY) snprintf(expected + used, sizeof expected - used, "%s*", d ? ", " : "");
    else snprintf(expected + used, sizeof expected - used, "%s%zu", d ? ", " : "", shape[d]);
  }
  for (int d = 0; d < t->dimensions; d++) {
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%s%zu", d ? ", " : "", t->shape[d]);
  }
  return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %s [%s] of this model, found %s [%s]", r->path,
              name, tensor_type_name(type), expected, tensor_type_name(t->type), found);
}

static status find(const reader *r, const char *what, bool required, tensor_type type, int dimensions,
                   const size_t *shape, const file_tensor **tensor, alibi_error *error)
{
  char name[NAME_SIZE];
  snprintf(name, sizeof name, "prompt.%zu.%s", r->prompt, what);
  const file_tensor *t = tensor_file_find(r->file, name);
  *tensor = t;
  if (!t)
    return required ? fail(error, ALIBI_BAD_INPUT, "%s: expected a tensor '%s', found none", r->path, name)
                    : ALIBI_OK;
  bool fits = t->type == type && t->dimensions == dimensions;
  for (int d = 0; fits && d < dimensions; d++) fits = shape[d] == ANY || t->shape[d] == shape[d];
  return fits ? ALIBI_OK : shape_error(r, name, t, type, dimensions, shape, error);
}

static status check_integers(const reader *r, const file_tensor *t, size_t below, alibi_error *error)
{
  size_t count = t->bytes / sizeof(int32_t);
  for (size_t i = 0; i < count; i++) {
    int32_t value = integer_at(t, i);
    if (value < 0 || (size_t)value >= below)
      return fail(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected numbers from 0 to %zu, found %" PRId32,
                  r->path, t->name, below - 1, value);
  }
  return ALIBI_OK;
}

static status read_tokens(const reader *r, const alibi_model_config *c, verified_prompt *p, alibi_error *error)
{
  const file_tensor *t;
  uint32_t *tokens;
  status result;
  TRY(find(r, "tokens", true, TENSOR_I32, 1, (const size_t[]){ANY}, &t, error));
  if (t->shape[0] == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected at least one token, found none", r->path, t->name);
  TRY(check_integers(r, t, (size_t)c->vocabulary, error));
  TRY(memory_new(&tokens, t->shape[0], sizeof *tokens, "the tokens of a prompt", error));
  p->tokens = tokens;
  p->count = t->shape[0];
  for (size_t i = 0; i < p->count; i++) tokens[i] = (uint32_t)integer_at(t, i);
done:
  return result;
}

static status read_prompt(const reader *r, const alibi_model_config *c, verified_prompt *p, stored_prompt *s,
                          alibi_error *error)
{
  char key[NAME_SIZE];
  status result;
  size_t width = (size_t)c->width, vocabulary = (size_t)c->vocabulary;
  snprintf(key, sizeof key, "prompt.%zu.text", r->prompt);
  p->text = tensor_file_metadata(r->file, key);
  if (!p->text) p->text = "";
  TRY(read_tokens(r, c, p, error));
  TRY(find(r, "positions", true, TENSOR_I32, 1, (const size_t[]){ANY}, &s->positions, error));
  TRY(check_integers(r, s->positions, p->count, error));
  size_t chosen = s->positions->shape[0];
  TRY(find(r, "activations", false, TENSOR_F32, 3, (const size_t[]){(size_t)c->layers + 1, chosen, width},
           &s->activations, error));
  if (!c->causal) {
    TRY(find(r, "hidden", true, TENSOR_F32, 2, (const size_t[]){chosen, width}, &s->hidden, error));
    goto done;
  }
  TRY(find(r, "top_ids", true, TENSOR_I32, 2, (const size_t[]){p->count, ANY}, &s->top_ids, error));
  TRY(check_integers(r, s->top_ids, vocabulary, error));
  TRY(find(r, "top_logits", true, TENSOR_F32, 2, (const size_t[]){p->count, s->top_ids->shape[1]}, &s->top_logits,
           error));
  TRY(find(r, "spread", true, TENSOR_F32, 1, (const size_t[]){p->count}, &s->spread, error));
  TRY(find(r, "logits", true, TENSOR_F32, 2, (const size_t[]){chosen, vocabulary}, &s->logits, error));
done:
  return result;
}

/* ---- the comparison ---- */

static void consider(largest_difference *largest, double ours, double theirs, double spread, size_t position,
                     size_t id)
{
  double relative = fabs(ours - theirs) / spread;
  if (relative <= largest->relative || isnan(largest->relative)) return;
  *largest = (largest_difference){relative, ours, theirs, position, id};
}

static double log_sum(const float *logits, size_t count)
{
  double largest = -INFINITY, sum = 0;
  for (size_t i = 0; i < count; i++) largest = fmax(largest, (double)logits[i]);
  for (size_t i = 0; i < count; i++) sum += exp((double)logits[i] - largest);
  return largest + log(sum);
}

/* KL(theirs || ours) in nats. */
static double divergence_of(const float *ours, const float *theirs, size_t count)
{
  double mine = log_sum(ours, count), other = log_sum(theirs, count), sum = 0;
  for (size_t i = 0; i < count; i++) {
    double log_p = (double)theirs[i] - other, log_q = (double)ours[i] - mine;
    sum += exp(log_p) * (log_p - log_q);
  }
  return sum;
}

typedef struct comparison {
  model_pass *pass;
  verified_prompt *prompt;
  const stored_prompt *stored;
  float *ours, *theirs; /* [V], or [C] of an encoder */
} comparison;

static void compare_layer(void *user, size_t layer, const float *x)
{
  comparison *c = user;
  const stored_prompt *s = c->stored;
  size_t width = (size_t)c->pass->model->config.width, chosen = s->positions->shape[0];
  double square = 0, reference = 0;
  for (size_t n = 0; n < chosen; n++)
    for (size_t i = 0; i < width; i++) {
      double theirs = (double)float_at(s->activations, (layer * chosen + n) * width + i);
      double difference = (double)x[(size_t)integer_at(s->positions, n) * width + i] - theirs;
      square += difference * difference;
      reference += theirs * theirs;
    }
  c->prompt->layers[layer].difference = sqrt(square / reference);
}

static void compare_top(comparison *c, size_t position)
{
  const stored_prompt *s = c->stored;
  size_t kept = s->top_ids->shape[1], vocabulary = (size_t)c->pass->model->config.vocabulary;
  double spread = (double)float_at(s->spread, position);
  size_t first = 0;
  for (size_t v = 1; v < vocabulary; v++)
    if (c->ours[v] > c->ours[first]) first = v;
  for (size_t k = 0; k < kept; k++) {
    size_t id = (size_t)integer_at(s->top_ids, position * kept + k);
    consider(&c->prompt->logits, (double)c->ours[id], (double)float_at(s->top_logits, position * kept + k), spread,
             position, id);
  }
  if (kept == 0) return;
  c->prompt->positions++;
  c->prompt->first_same += first == (size_t)integer_at(s->top_ids, position * kept);
}

static double compare_full(comparison *c, size_t n, size_t position)
{
  const stored_prompt *s = c->stored;
  size_t vocabulary = (size_t)c->pass->model->config.vocabulary;
  double spread = (double)float_at(s->spread, position);
  memcpy(c->theirs, (const char *)s->logits->data + n * vocabulary * sizeof(float), vocabulary * sizeof(float));
  for (size_t v = 0; v < vocabulary; v++)
    consider(&c->prompt->logits, (double)c->ours[v], (double)c->theirs[v], spread, position, v);
  return divergence_of(c->ours, c->theirs, vocabulary);
}

static void compare_logits(comparison *c)
{
  const stored_prompt *s = c->stored;
  verified_prompt *p = c->prompt;
  size_t chosen = s->positions->shape[0];
  double sum = 0, largest = 0;
  for (size_t t = 0; t < p->count; t++) {
    model_logits(c->pass, t, c->ours);
    compare_top(c, t);
    for (size_t n = 0; n < chosen; n++) {
      if ((size_t)integer_at(s->positions, n) != t) continue;
      double divergence = compare_full(c, n, t);
      sum += divergence;
      if (!(divergence <= largest)) largest = divergence;
    }
  }
  p->divergence = chosen ? largest : NAN;
  p->mean_divergence = chosen ? sum / (double)chosen : NAN;
}

static void compare_hidden(comparison *c)
{
  const stored_prompt *s = c->stored;
  size_t width = (size_t)c->pass->model->config.width, chosen = s->positions->shape[0];
  for (size_t n = 0; n < chosen; n++) {
    size_t position = (size_t)integer_at(s->positions, n);
    const float *ours = c->pass->hidden + position * width;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < width; i++) {
      low = fmin(low, (double)float_at(s->hidden, n * width + i));
      high = fmax(high, (double)float_at(s->hidden, n * width + i));
    }
    for (size_t i = 0; i < width; i++)
      consider(&c->prompt->logits, (double)ours[i], (double)float_at(s->hidden, n * width + i), high - low,
               position, i);
  }
  c->prompt->divergence = c->prompt->mean_divergence = NAN;
}

static status run_prompt(alibi_model *model, const reader *r, verified_prompt *p, alibi_error *error)
{
  const alibi_model_config *config = &model->config;
  stored_prompt stored = {0};
  comparison c = {.prompt = p, .stored = &stored};
  status result;
  TRY(read_prompt(r, config, p, &stored, error));
  pass_shape shape = {
      .rows = p->count, .segments = 1, .length = p->count, .head_rows = 1, .stops_when_cancelled = true};
  pass_segment segment = {.count = p->count};
  TRY(memory_new(&c.ours, (size_t)config->vocabulary, sizeof *c.ours, "logits", error));
  TRY(memory_new(&c.theirs, (size_t)config->vocabulary, sizeof *c.theirs, "logits", error));
  TRY(model_pass_new(model, &shape, &c.pass, error));
  if (stored.activations) {
    p->layer_count = (size_t)config->layers + 1;
    TRY(memory_new(&p->layers, p->layer_count, sizeof *p->layers, "the layers", error));
    c.pass->watch = (layer_watch){compare_layer, &c};
  }
  TRY(model_forward(c.pass, p->tokens, &segment, 1, error));
  if (config->causal) compare_logits(&c);
  else compare_hidden(&c);
done:
  model_pass_free(c.pass);
  memory_free(c.theirs);
  memory_free(c.ours);
  return result;
}

/* ---- all prompts ---- */

static status count_prompts(const reader *r, size_t *count, alibi_error *error)
{
  const char *format = tensor_file_metadata(r->file, "format"),
             *prompts = tensor_file_metadata(r->file, "prompts");
  char *end = NULL;
  if (!format || strcmp(format, FORMAT) != 0)
    return fail(error, ALIBI_BAD_INPUT,
                "%s: expected a reference file of scripts/make_reference.py (format " FORMAT
                "), found format '%s'",
                r->path, format ? format : "none");
  unsigned long found = prompts ? strtoul(prompts, &end, 10) : 0;
  if (!end || *end || found < 1 || found > MOST_PROMPTS)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected 1 to %d prompts, found '%s'", r->path, MOST_PROMPTS,
                prompts ? prompts : "none");
  *count = found;
  return ALIBI_OK;
}

static status copy_text(const char *text, char **copy, alibi_error *error)
{
  *copy = strdup(text ? text : "");
  return *copy ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the verification");
}

status verification_run(alibi_model *model, const char *path, verification *v, alibi_error *error)
{
  tensor_file *file = NULL;
  status result;
  *v = (verification){0};
  TRY(tensor_file_open(path, &file, error));
  v->file = file;
  reader r = {file, path, 0};
  TRY(count_prompts(&r, &v->count, error));
  TRY(copy_text(tensor_file_metadata(file, "software"), &v->software, error));
  TRY(copy_text(tensor_file_metadata(file, "numerics"), &v->numerics, error));
  TRY(memory_new(&v->prompts, v->count, sizeof *v->prompts, "the prompts", error));
  for (; r.prompt < v->count; r.prompt++) TRY(run_prompt(model, &r, &v->prompts[r.prompt], error));
done:
  if (result != ALIBI_OK) verification_free(v);
  return result;
}

void verification_free(verification *v)
{
  for (size_t i = 0; v->prompts && i < v->count; i++) {
    memory_free((void *)v->prompts[i].tokens);
    memory_free(v->prompts[i].layers);
  }
  memory_free(v->prompts);
  free(v->numerics);
  free(v->software);
  tensor_file_close(v->file);
  *v = (verification){0};
}

size_t verified_first_layer(const verified_prompt *p, double tolerance)
{
  size_t layer = 0;
  while (layer < p->layer_count && p->layers[layer].difference <= tolerance) layer++;
  return layer;
}

double verification_largest(const verification *v)
{
  double largest = 0;
  for (size_t i = 0; i < v->count; i++)
    if (!(v->prompts[i].logits.relative <= largest)) largest = v->prompts[i].logits.relative;
  return largest;
}
