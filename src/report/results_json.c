/* Results to JSON and a method's result back.  Points are a flat list in the file, because that is what a
 * reader with another tool wants to filter; neighbours with the same protocol and extension are one curve. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "report/drawing.h"

enum { SCHEMA = 1 };

/* JSON is UTF-8; a file name in a sentence may be any bytes, and a sentence may be cut inside a character. */
static void set_text(json_node *object, const char *key, const char *text)
{
  if (!text) {
    node_set_null(object, key);
    return;
  }
  draft d = {0};
  draft_add_clean(&d, text);
  char *clean = draft_take(&d);
  node_set_text(object, key, clean);
  free(clean);
}

static json_node *point_node(const curve *c, const curve_point *p)
{
  json_node *row = node_new_object();
  set_text(row, "protocol", c->protocol);
  set_text(row, "extend", c->extend[0] ? c->extend : NULL);
  node_set_integer(row, "length", p->length);
  if (p->error[0]) {
    set_text(row, "error", p->error);
    return row;
  }
  node_set_number(row, "perplexity", p->perplexity);
  node_set_number(row, "bits_per_byte", p->bits_per_byte);
  node_set_number(row, "standard_error", p->standard_error);
  node_set_integer(row, "stride", p->stride);
  node_set_integer(row, "tokens", p->tokens);
  node_set_number(row, "nll", p->nll);
  node_set_number(row, "nll_standard_error", p->nll_standard_error);
  return row;
}

json_node *method_result_node(const method_result *m)
{
  json_node *object = node_new_object();
  set_text(object, "name", m->name);
  set_text(object, "role", m->role);
  node_set_integer(object, "train_length", m->train_length);
  node_set_integer(object, "parameters", m->parameters);
  node_set_integer(object, "steps", m->steps);
  node_set_integer(object, "train_tokens", m->train_tokens);
  node_set_number(object, "train_seconds", m->train_seconds);
  node_set_number(object, "train_cpu_seconds", m->train_cpu_seconds);
  node_set_number(object, "train_tokens_per_second", m->train_tokens_per_second);
  node_set_number(object, "evaluate_tokens_per_second", m->evaluate_tokens_per_second);
  node_set_number(object, "final_loss", m->final_loss);
  node_set_integer(object, "peak_memory_bytes", m->peak_memory_bytes);
  node_set_integer(object, "loss_every", m->loss_every);
  json_node *losses = node_new_array();
  for (size_t i = 0; i < m->loss_count; i++) node_append_number(losses, m->losses[i]);
  node_set(object, "losses", losses);
  json_node *curves = node_new_array();
  for (size_t i = 0; i < m->curve_count; i++)
    for (size_t j = 0; j < m->curves[i].count; j++)
      node_append(curves, point_node(&m->curves[i], &m->curves[i].points[j]));
  node_set(object, "curves", curves);
  return object;
}

json_node *study_results_node(const study_results *results)
{
  json_node *object = node_new_object();
  node_set_integer(object, "schema", SCHEMA);
  node_set_text(object, "alibi_version", alibi_version());
  set_text(object, "question", results->question);
  set_text(object, "answer", results->answer);
  set_text(object, "rival_answer", results->rival_answer);
  set_text(object, "next_command", results->next_command);
  set_text(object, "command", results->command);
  set_text(object, "text", results->text);
  set_text(object, "machine", results->machine);
  node_set_number(object, "seconds", results->seconds);
  node_set_integer(object, "train_length", results->train_length);
  json_node *settings = node_new_object();
  for (size_t i = 0; i < results->setting_count; i++)
    set_text(settings, results->settings[i].name, results->settings[i].value);
  node_set(object, "settings", settings);
  json_node *methods = node_new_array();
  for (size_t i = 0; i < results->method_count; i++)
    node_append(methods, method_result_node(&results->methods[i]));
  node_set(object, "methods", methods);
  return object;
}

status node_write_in(const json_node *root, const char *directory, const char *name, alibi_error *error)
{
  char *path = path_join(directory, name);
  status result = path ? node_write_file(root, path, error)
                       : fail(error, ALIBI_FAILED, "not enough memory to write %s/%s", directory, name);
  free(path);
  return result;
}

status results_write_json(const study_results *results, const char *directory, alibi_error *error)
{
  json_node *root = study_results_node(results);
  status result = node_write_in(root, directory, "results.json", error);
  node_free(root);
  return result;
}

/* Reading.  `where` names the file and the place in it; an object must have exactly its keys. */

static status read_keys(const json_node *object, const char *const *keys, const char *where, alibi_error *error)
{
  if (node_kind_of(object) != NODE_OBJECT) return fail(error, ALIBI_BAD_INPUT, "%s: expected an object", where);
  for (size_t i = 0; keys[i]; i++)
    if (!node_get(object, keys[i]))
      return fail(error, ALIBI_BAD_INPUT, "%s: the key \"%s\" is missing", where, keys[i]);
  for (size_t i = 0; i < node_count(object); i++) {
    const char *key = NULL;
    bool known = false;
    if (!node_member(object, i, &key) || !key) continue;
    for (size_t j = 0; keys[j] && !known; j++) known = strcmp(key, keys[j]) == 0;
    if (!known) return fail(error, ALIBI_BAD_INPUT, "%s: the key \"%.80s\" is unknown", where, key);
  }
  return ALIBI_OK;
}

static status read_text(const json_node *object, const char *key, const char *where, char *text, size_t size,
                        alibi_error *error)
{
  const char *found = node_text(node_get(object, key), NULL);
  if (!found || !found[0] || strlen(found) >= size)
    return fail(error, ALIBI_BAD_INPUT, "%s: \"%s\" must be a text of 1 to %zu bytes", where, key, size - 1);
  memcpy(text, found, strlen(found) + 1);
  return ALIBI_OK;
}

static status read_integer(const json_node *object, const char *key, const char *where, int64_t least,
                           int64_t *value, alibi_error *error)
{
  const json_node *node = node_get(object, key);
  if (node_kind_of(node) != NODE_INTEGER || (*value = node_integer(node, least - 1)) < least)
    return fail(error, ALIBI_BAD_INPUT, "%s: \"%s\" must be an integer from %lld up", where, key,
                (long long)least);
  return ALIBI_OK;
}

/* null is how a number that is not finite was written. */
static status read_number(const json_node *node, const char *key, const char *where, double least, double *value,
                          alibi_error *error)
{
  node_kind kind = node_kind_of(node);
  *value = NAN;
  if (kind == NODE_NULL) return ALIBI_OK;
  if (kind == NODE_INTEGER || kind == NODE_REAL) *value = node_number(node, NAN);
  if (*value >= least) return ALIBI_OK;
  if (least == -INFINITY) return fail(error, ALIBI_BAD_INPUT, "%s: \"%s\" must be a number or null", where, key);
  return fail(error, ALIBI_BAD_INPUT, "%s: \"%s\" must be a number from %g up, or null", where, key, least);
}

static status read_losses(const json_node *node, const char *where, method_result *m, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t capacity = 0;
  if (node_kind_of(node) != NODE_ARRAY) RAISE(error, ALIBI_BAD_INPUT, "%s: \"losses\" must be an array", where);
  TRY(memory_grow(&m->losses, &capacity, node_count(node), sizeof *m->losses, "losses", error));
  for (; m->loss_count < node_count(node); m->loss_count++)
    TRY(read_number(node_at(node, m->loss_count), "losses", where, -INFINITY, &m->losses[m->loss_count], error));
done:
  return result;
}

static status read_point(const json_node *row, const char *where, curve *c, curve_point *p, alibi_error *error)
{
  static const char *const measured[] = {"protocol",
                                         "extend",
                                         "length",
                                         "perplexity",
                                         "bits_per_byte",
                                         "standard_error",
                                         "stride",
                                         "tokens",
                                         "nll",
                                         "nll_standard_error",
                                         NULL};
  static const char *const failed[] = {"protocol", "extend", "length", "error", NULL};
  status result = ALIBI_OK;
  bool impossible = node_get(row, "error") != NULL;
  *c = (curve){0};
  *p = (curve_point){
      .nll = NAN, .nll_standard_error = NAN, .perplexity = NAN, .standard_error = NAN, .bits_per_byte = NAN};
  TRY(read_keys(row, impossible ? failed : measured, where, error));
  TRY(read_text(row, "protocol", where, c->protocol, sizeof c->protocol, error));
  if (node_kind_of(node_get(row, "extend")) != NODE_NULL)
    TRY(read_text(row, "extend", where, c->extend, sizeof c->extend, error));
  TRY(read_integer(row, "length", where, 1, &p->length, error));
  if (impossible) {
    TRY(read_text(row, "error", where, p->error, sizeof p->error, error));
    goto done;
  }
  TRY(read_integer(row, "stride", where, 0, &p->stride, error));
  TRY(read_integer(row, "tokens", where, 0, &p->tokens, error));
  TRY(read_number(node_get(row, "perplexity"), "perplexity", where, 0, &p->perplexity, error));
  TRY(read_number(node_get(row, "bits_per_byte"), "bits_per_byte", where, -INFINITY, &p->bits_per_byte, error));
  TRY(read_number(node_get(row, "standard_error"), "standard_error", where, 0, &p->standard_error, error));
  TRY(read_number(node_get(row, "nll"), "nll", where, -INFINITY, &p->nll, error));
  TRY(read_number(node_get(row, "nll_standard_error"), "nll_standard_error", where, 0, &p->nll_standard_error,
                  error));
done:
  return result;
}

/* Puts a point at the end of the curve it belongs to: the last one, or a new one. */
static status append_point(method_result *m, size_t *curve_capacity, size_t *point_capacity, const curve *of,
                           const curve_point *p, const char *where, alibi_error *error)
{
  status result = ALIBI_OK;
  curve *last = m->curve_count ? &m->curves[m->curve_count - 1] : NULL;
  if (!last || strcmp(last->protocol, of->protocol) != 0 || strcmp(last->extend, of->extend) != 0) {
    if (method_find_curve(m, of->protocol, of->extend))
      RAISE(error, ALIBI_BAD_INPUT, "%s: the points of protocol \"%s\" and extension \"%s\" do not stand together",
            where, of->protocol, of->extend);
    TRY(memory_grow(&m->curves, curve_capacity, m->curve_count + 1, sizeof *m->curves, "curves", error));
    last = &m->curves[m->curve_count++];
    *last = *of;
    *point_capacity = 0;
  }
  if (curve_find_point(last, p->length))
    RAISE(error, ALIBI_BAD_INPUT, "%s: length %lld stands there twice for protocol \"%s\" and extension \"%s\"",
          where, (long long)p->length, of->protocol, of->extend);
  TRY(memory_grow(&last->points, point_capacity, last->count + 1, sizeof *last->points, "points", error));
  last->points[last->count++] = *p;
done:
  return result;
}

static status read_curves(const json_node *node, const char *where, method_result *m, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t curve_capacity = 0, point_capacity = 0;
  if (node_kind_of(node) != NODE_ARRAY) RAISE(error, ALIBI_BAD_INPUT, "%s: \"curves\" must be an array", where);
  for (size_t i = 0; i < node_count(node); i++) {
    char row[640];
    curve c;
    curve_point p;
    snprintf(row, sizeof row, "%.600s: curves[%zu]", where, i);
    TRY(read_point(node_at(node, i), row, &c, &p, error));
    TRY(append_point(m, &curve_capacity, &point_capacity, &c, &p, row, error));
  }
done:
  return result;
}

status method_result_read(const json_node *node, const char *what, method_result *method, alibi_error *error)
{
  static const char *const keys[] = {"name",
                                     "role",
                                     "train_length",
                                     "parameters",
                                     "steps",
                                     "train_tokens",
                                     "train_seconds",
                                     "train_cpu_seconds",
                                     "train_tokens_per_second",
                                     "evaluate_tokens_per_second",
                                     "final_loss",
                                     "peak_memory_bytes",
                                     "loss_every",
                                     "losses",
                                     "curves",
                                     NULL};
  status result = ALIBI_OK;
  method_result m = {0};
  TRY(read_keys(node, keys, what, error));
  TRY(read_text(node, "name", what, m.name, sizeof m.name, error));
  TRY(read_text(node, "role", what, m.role, sizeof m.role, error));
  if (strcmp(m.role, "method") != 0 && strcmp(m.role, "rival") != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: \"role\" must be \"method\" or \"rival\", found \"%s\"", what, m.role);
  TRY(read_integer(node, "train_length", what, 1, &m.train_length, error));
  TRY(read_integer(node, "parameters", what, 0, &m.parameters, error));
  TRY(read_integer(node, "steps", what, 0, &m.steps, error));
  TRY(read_integer(node, "train_tokens", what, 0, &m.train_tokens, error));
  TRY(read_number(node_get(node, "train_seconds"), "train_seconds", what, 0, &m.train_seconds, error));
  TRY(read_number(node_get(node, "train_cpu_seconds"), "train_cpu_seconds", what, 0, &m.train_cpu_seconds, error));
  TRY(read_number(node_get(node, "train_tokens_per_second"), "train_tokens_per_second", what, 0,
                  &m.train_tokens_per_second, error));
  TRY(read_number(node_get(node, "evaluate_tokens_per_second"), "evaluate_tokens_per_second", what, 0,
                  &m.evaluate_tokens_per_second, error));
  TRY(read_number(node_get(node, "final_loss"), "final_loss", what, -INFINITY, &m.final_loss, error));
  TRY(read_integer(node, "peak_memory_bytes", what, 0, &m.peak_memory_bytes, error));
  TRY(read_integer(node, "loss_every", what, 0, &m.loss_every, error));
  TRY(read_losses(node_get(node, "losses"), what, &m, error));
  TRY(read_curves(node_get(node, "curves"), what, &m, error));
  *method = m;
  m = (method_result){0};
done:
  method_result_free(&m);
  return result;
}
