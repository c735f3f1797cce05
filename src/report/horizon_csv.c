/* results.csv of a horizon: a row a head, with every number of results.json and every setting in columns of their
 * own; what was not measured, and what there is none of, is empty. */
#include "report/horizon_report.h"

#include <inttypes.h>
#include <math.h>

#include "report/drawing.h"

static void add_count(draft *d, size_t value)
{
  draft_add(d, ",%zu", value);
}

static void add_head_line(draft *d, const horizon *h)
{
  draft_add(d,
            "model,position,extend,train_length,text,text_bytes,text_tokens,length,windows,queries,threshold,"
            "tolerance,window,weights_off_by,layer,head,slope,horizon_any_text,gap_any_text,horizon_these_norms,"
            "gap_these_norms,horizon_these_scores,gap_these_scores,query_norm,key_norm");
  for (size_t i = 0; i < HORIZON_SHARES; i++) {
    int percent = (int)(100 * horizon_shares[i] + 0.5);
    draft_add(d, ",distance_%d,query_mean_%d,query_deviation_%d", percent, percent, percent);
  }
  draft_add(d, ",farthest,zeros,below_threshold,blocks_visited");
  for (size_t b = 0; b < h->bins; b++) draft_add(d, ",mass_from_%zu", h->edges[b]);
  for (size_t b = 0; b < h->bins; b++) draft_add(d, ",bias_at_%zu", h->edges[b]);
  draft_add(d, "\n");
}

/* The same in every row: a row says by itself what it is of. */
static void add_settings(draft *d, const horizon_report *r)
{
  const horizon *h = r->h;
  draft_add_csv_text(d, r->model);
  draft_add(d, ",%s,", r->config->position);
  draft_add_csv_text(d, r->extension ? r->extension : "");
  draft_add(d, ",%" PRId64 ",", r->config->train_length);
  draft_add_csv_text(d, r->text ? r->text : "");
  if (r->text) draft_add(d, ",%" PRId64 ",%" PRId64, r->text_bytes, r->text_tokens);
  else draft_add(d, ",,");
  add_count(d, h->length);
  add_count(d, h->windows);
  add_count(d, h->rows);
  draft_add_csv_number(d, h->threshold);
  draft_add_csv_number(d, r->tolerance);
  if (h->window) add_count(d, h->window);
  else draft_add(d, ",");
  draft_add_csv_number(d, h->text ? h->deviation : NAN);
}

static void add_row(draft *d, const horizon *h, const horizon_head *head)
{
  const double first[] = {head->slope,       head->any_text,   head->any_gap,
                          head->these_norms, head->norms_gap,  head->these_scores,
                          head->scores_gap,  head->query_norm, head->key_norm};
  const double last[] = {head->farthest, head->zero, head->below, head->visited};
  size_t at = (size_t)(head - h->list) * h->bins;
  add_count(d, head->layer);
  add_count(d, head->head);
  for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) draft_add_csv_number(d, first[i]);
  for (size_t i = 0; i < HORIZON_SHARES; i++) {
    draft_add_csv_number(d, head->within[i].pooled);
    draft_add_csv_number(d, head->within[i].mean);
    draft_add_csv_number(d, head->within[i].deviation);
  }
  for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) draft_add_csv_number(d, last[i]);
  for (size_t b = 0; b < h->bins; b++) draft_add_csv_number(d, h->text ? h->mass[at + b] : NAN);
  for (size_t b = 0; b < h->bins; b++) draft_add_csv_number(d, h->bias[at + b]);
  draft_add(d, "\n");
}

status horizon_write_csv(const horizon_report *r, const char *directory, alibi_error *error)
{
  draft d = {0};
  add_head_line(&d, r->h);
  for (size_t i = 0; i < r->h->layers * r->h->heads; i++) {
    add_settings(&d, r);
    add_row(&d, r->h, &r->h->list[i]);
  }
  return draft_write(&d, directory, "results.csv", error);
}
