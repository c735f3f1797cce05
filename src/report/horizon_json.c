/* results.json of a horizon, its schema described in docs/horizon.md.  What was not measured and what there is
 * none of is null. */
#include "report/horizon_report.h"

#include <math.h>
#include <stdlib.h>

static void set_counts(json_node *object, const char *key, const size_t *values, size_t count)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < count; i++) node_append_integer(list, (int64_t)values[i]);
  node_set(object, key, list);
}

static void set_numbers(json_node *object, const char *key, const double *values, size_t count)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < count; i++) node_append_number(list, values[i]);
  node_set(object, key, list);
}

static json_node *within_node(const horizon_head *head)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < HORIZON_SHARES; i++) {
    json_node *one = node_new_object();
    node_set_number(one, "share", horizon_shares[i]);
    node_set_number(one, "distance", head->within[i].pooled);
    node_set_number(one, "query_mean", head->within[i].mean);
    node_set_number(one, "query_deviation", head->within[i].deviation);
    node_append(list, one);
  }
  return list;
}

static json_node *head_node(const horizon *h, const horizon_head *head)
{
  json_node *node = node_new_object();
  size_t at = (size_t)(head - h->list) * h->bins;
  node_set_integer(node, "layer", (int64_t)head->layer);
  node_set_integer(node, "head", (int64_t)head->head);
  node_set_number(node, "slope", head->slope);
  node_set_number(node, "horizon_any_text", head->any_text);
  node_set_number(node, "gap_any_text", head->any_gap);
  node_set_number(node, "horizon_these_norms", head->these_norms);
  node_set_number(node, "gap_these_norms", head->norms_gap);
  node_set_number(node, "horizon_these_scores", head->these_scores);
  node_set_number(node, "gap_these_scores", head->scores_gap);
  node_set_number(node, "query_norm", head->query_norm);
  node_set_number(node, "key_norm", head->key_norm);
  if (h->text) node_set(node, "within", within_node(head));
  else node_set_null(node, "within");
  node_set_number(node, "farthest", head->farthest);
  node_set_number(node, "zeros", head->zero);
  node_set_number(node, "below_threshold", head->below);
  node_set_number(node, "blocks_visited", head->visited);
  if (h->text) set_numbers(node, "mass", h->mass + at, h->bins);
  else node_set_null(node, "mass");
  set_numbers(node, "bias", h->bias + at, h->bins);
  return node;
}

static json_node *summary_node(const horizon_report *r)
{
  horizon_summary s = horizon_summarise(r->h);
  json_node *node = node_new_object();
  char *sentence = horizon_sentence(r);
  node_set_text(node, "sentence", sentence);
  free(sentence);
  node_set_integer(node, "farthest_layer", (int64_t)s.farthest->layer);
  node_set_integer(node, "farthest_head", (int64_t)s.farthest->head);
  node_set_number(node, "horizon_any_text", s.any_text);
  node_set_number(node, "horizon_these_scores", r->h->text ? s.these_scores : NAN);
  node_set_integer(node, "heads_without_horizon", (int64_t)s.unbounded);
  node_set_number(node, "through_layers", s.through_layers);
  node_set_boolean(node, "limited_by_length", s.limited);
  return node;
}

json_node *horizon_node(const horizon_report *r)
{
  const horizon *h = r->h;
  json_node *root = node_new_object(), *heads = node_new_array();
  node_set_integer(root, "schema", HORIZON_SCHEMA);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "model", r->model);
  node_set_text(root, "position", r->config->position);
  node_set_text(root, "extend", r->extension);
  node_set_integer(root, "train_length", r->config->train_length);
  node_set_integer(root, "layers", (int64_t)h->layers);
  node_set_integer(root, "heads", (int64_t)h->heads);
  node_set_text(root, "text", r->text);
  node_set_integer(root, "text_bytes", r->text_bytes);
  node_set_integer(root, "text_tokens", r->text_tokens);
  node_set_integer(root, "length", (int64_t)h->length);
  node_set_integer(root, "windows", (int64_t)h->windows);
  node_set_integer(root, "queries", (int64_t)h->rows);
  node_set_number(root, "threshold", h->threshold);
  node_set_number(root, "tolerance", r->tolerance);
  if (h->window) node_set_integer(root, "window", (int64_t)h->window);
  else node_set_null(root, "window");
  node_set_boolean(root, "scores_scaled_by_position", h->scaled);
  node_set_number(root, "weights_off_by", h->text ? h->deviation : NAN);
  node_set_number(root, "seconds", r->seconds);
  node_set(root, "summary", summary_node(r));
  set_counts(root, "edges", h->edges, h->bins + 1);
  for (size_t i = 0; i < h->layers * h->heads; i++) node_append(heads, head_node(h, &h->list[i]));
  node_set(root, "list", heads);
  return root;
}
