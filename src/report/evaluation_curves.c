/* An evaluation as the results of a study, which is what the pictures know how to draw: a model is a method, a
 * line of it a curve.  A name too long for a label keeps its end, where paths differ. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "report/drawing.h"
#include "report/evaluation_results.h"

enum { PROTOCOLS = 8 };

static void copy_end(char *to, size_t size, const char *text)
{
  size_t length = strlen(text), skip = length < size ? 0 : length - size + 1;
  while (((unsigned char)text[skip] & 0xc0) == 0x80) skip++; /* never inside a character */
  snprintf(to, size, "%s", text + skip);
}

static curve_point point_of(const evaluated_row *r)
{
  curve_point p = {.length = r->length,
                   .stride = r->stride,
                   .tokens = r->tokens,
                   .nll = r->nll,
                   .nll_standard_error = r->nll_standard_error,
                   .perplexity = r->perplexity,
                   .standard_error = r->standard_error,
                   .bits_per_byte = r->bits_per_byte};
  if (r->error) snprintf(p.error, sizeof p.error, "%s", r->error);
  return p;
}

static int by_length(const void *a, const void *b)
{
  const curve_point *x = a, *y = b;
  return (x->length > y->length) - (x->length < y->length);
}

static status add_curve(const evaluation_results *results, size_t line, const char *protocol, method_result *m,
                        alibi_error *error)
{
  status result = ALIBI_OK;
  curve c = {.count = 0};
  size_t capacity = 0, room = m->curve_count;
  const char *extend = results->lines[line].extend;
  for (size_t i = 0; i < results->row_count; i++) {
    const evaluated_row *r = &results->rows[i];
    if (r->line != line || r->document >= 0 || strcmp(r->protocol, protocol) != 0) continue;
    TRY(memory_grow(&c.points, &capacity, c.count + 1, sizeof *c.points, "the points of a picture", error));
    c.points[c.count++] = point_of(r);
  }
  if (c.count == 0) goto done;
  snprintf(c.protocol, sizeof c.protocol, "%s", protocol);
  snprintf(c.extend, sizeof c.extend, "%s", extend ? extend : "");
  qsort(c.points, c.count, sizeof *c.points, by_length);
  TRY(memory_grow(&m->curves, &room, m->curve_count + 1, sizeof *m->curves, "the curves of a picture", error));
  m->curves[m->curve_count++] = c;
  c.points = NULL;
done:
  free(c.points);
  return result;
}

static status add_model(const evaluation_results *results, size_t model, method_result *m, alibi_error *error)
{
  const evaluated_model *from = &results->models[model];
  status result = ALIBI_OK;
  copy_end(m->name, sizeof m->name, from->name);
  snprintf(m->role, sizeof m->role, "method");
  m->train_length = from->train_length;
  m->parameters = from->parameters;
  m->final_loss = m->train_tokens_per_second = m->evaluate_tokens_per_second = NAN;
  const char *protocols[PROTOCOLS];
  size_t count = evaluation_protocols(results, protocols, PROTOCOLS);
  for (size_t line = 0; line < results->line_count; line++)
    for (size_t p = 0; p < count; p++)
      if (results->lines[line].model == model) TRY(add_curve(results, line, protocols[p], m, error));
done:
  return result;
}

static char *question_of(const evaluation_results *results)
{
  draft d = {0};
  draft_add(&d, "How well ");
  for (size_t i = 0; i < results->model_count && i < 6; i++) {
    if (i) draft_add(&d, i + 1 == results->model_count ? " and " : ", ");
    else draft_add(&d, results->model_count > 1 ? "do " : "does ");
    draft_add_clean(&d, results->models[i].name);
  }
  if (results->model_count > 6) draft_add(&d, " and %zu others", results->model_count - 6);
  draft_add(&d, " predict ");
  if (results->text_count == 1) draft_add_clean(&d, results->texts[0].path);
  else draft_add(&d, "%zu texts", results->text_count);
  draft_add(&d, "?");
  return draft_take(&d);
}

status evaluation_curves(const evaluation_results *results, study_results *curves, alibi_error *error)
{
  status result = ALIBI_OK;
  *curves = (study_results){.seconds = results->seconds};
  curves->question = question_of(results);
  curves->answer = evaluation_answer(results);
  curves->methods = calloc(results->model_count + 1, sizeof *curves->methods);
  if (!curves->question || !curves->answer || !curves->methods)
    RAISE(error, ALIBI_FAILED, "not enough memory for the picture");
  if (results->model_count) curves->train_length = results->models[0].train_length;
  for (; curves->method_count < results->model_count; curves->method_count++)
    TRY(add_model(results, curves->method_count, &curves->methods[curves->method_count], error));
done:
  if (result != ALIBI_OK) {
    curves->method_count = results->model_count; /* the last may hold curves already */
    study_results_free(curves);
  }
  return result;
}
