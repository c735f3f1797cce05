/* report.html of a horizon: the sentence, the picture, a row a head, what the words mean, every setting. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/horizon_report.h"
#include "report/html_parts.h"

enum { BARS_WIDTH = 100 };

static void add_picture(draft *d, const horizon_report *r, const char *directory)
{
  draft drawn = {0};
  if (html_drawn(&drawn, directory, "horizon.svg", "attention of every head by distance")) {
    draft_add(d, "<figure class=\"drawn\">\n");
    draft_put(d, drawn.data, drawn.used);
    draft_add(d, "</figure>\n");
  } else {
    char *bars = horizon_bars(r, BARS_WIDTH, true);
    html_element(d, "<pre>", bars, "</pre>");
    free(bars);
  }
  free(draft_take(&drawn));
}

static void add_tokens(draft *d, double tokens)
{
  char text[32];
  horizon_number(tokens, text, sizeof text);
  draft_add(d, "<td>%s</td>", text);
}

static void add_share(draft *d, double share, double other, const char *what)
{
  draft_add(d, "<td>%.1f %%", 100 * share);
  if (what) draft_add(d, "<small>%.1f %% %s</small>", 100 * other, what);
  draft_add(d, "</td>");
}

static void add_head(draft *d, const horizon *h, const horizon_head *head, bool farthest)
{
  draft_add(d, "<tr%s><td>%zu</td><td>%zu</td>", farthest ? " class=\"main\"" : "", head->layer, head->head);
  if (isnan(head->slope)) draft_add(d, "<td>-</td>");
  else draft_add(d, "<td>%.5g</td>", head->slope);
  for (size_t k = 0; h->text && k < HORIZON_SHARES; k++) {
    char text[32];
    horizon_number(head->within[k].pooled, text, sizeof text);
    draft_add(d, "<td>%s<small>%.0f &plusmn; %.0f</small></td>", text, head->within[k].mean,
              head->within[k].deviation);
  }
  if (h->text) add_tokens(d, head->farthest);
  if (h->text) add_tokens(d, head->these_scores);
  if (h->text) add_tokens(d, head->these_norms);
  add_tokens(d, head->any_text);
  if (h->text) add_share(d, head->zero, head->below, "invisible");
  if (h->text) add_share(d, head->visited, 0, NULL);
  draft_add(d, "</tr>\n");
}

static void add_table(draft *d, const horizon *h)
{
  horizon_summary s = horizon_summarise(h);
  draft_add(d, "<h2>Every head</h2>\n<div class=\"scroll\"><table class=\"wide costs\"><thead><tr><th>layer</th>"
               "<th>head</th><th>slope</th>");
  if (h->text)
    draft_add(d, "<th>50 %%<small>a query</small></th><th>90 %%<small>a query</small></th>"
                 "<th>99 %%<small>a query</small></th><th>farthest<small>weight</small></th>"
                 "<th>horizon<small>these scores</small></th><th>horizon<small>these norms</small></th>");
  draft_add(d, "<th>horizon<small>any text</small></th>");
  if (h->text) draft_add(d, "<th>zeros<small>of fp32</small></th><th>blocks<small>visited</small></th>");
  draft_add(d, "</tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < h->layers * h->heads; i++) add_head(d, h, &h->list[i], &h->list[i] == s.farthest);
  draft_add(d,
            "</tbody></table></div>\n<p class=\"foot\">Distances in tokens, from a query back to a key; 0 is the "
            "query&#39;s own token.</p>\n");
}

static void add_terms(draft *d, const horizon_report *r)
{
  const horizon *h = r->h;
  horizon_summary s = horizon_summarise(h);
  char through[32];
  horizon_number(s.through_layers, through, sizeof through);
  draft_add(d, "<h2>What the words mean</h2>\n<dl>\n");
  if (h->text)
    draft_add(d,
              "<dt>50, 90, 99 %%</dt><dd>The distance within which that share of all attention lies, over %zu "
              "queries in the second half of %zu windows of %zu tokens. Below it the same for each query by "
              "itself: mean and standard deviation.</dd>\n",
              h->rows, h->windows, h->length);
  draft_add(
      d,
      "<dt>Horizon</dt><dd>Proven: all keys that far back or farther weigh, together, at most %.3g of what the "
      "query&#39;s own key weighs. For any text it follows from the parameters alone",
      h->threshold);
  if (h->scaled) draft_add(d, " (of texts of up to %zu tokens, since scores grow with the position)", h->length);
  if (h->text)
    draft_add(
        d, "; with these norms it holds for every text whose queries and keys are no longer than those of this "
           "one, with these scores where no key&#39;s score rises above that of the query&#39;s own by more than "
           "in the queries looked at");
  draft_add(d,
            ". Through its layers a model can hear of tokens farther back: at most the sum of the farthest "
            "horizons of its layers, %s.</dd>\n",
            through);
  if (h->text)
    draft_add(
        d,
        "<dt>Farthest weight</dt><dd>The farthest key that weighed more than %.3g, in any query looked at.</dd>\n"
        "<dt>Zeros, invisible</dt><dd>Weights that are 0 in fp32; weights of at most %.3g.</dd>\n"
        "<dt>Blocks visited</dt><dd>Blocks of %d keys that the attention of alibi computes, of those up to the "
        "query&#39;s own; the others are proven not to matter (tolerance %.3g).</dd>\n",
        h->threshold, h->threshold, ATTENTION_BLOCK, r->tolerance);
  draft_add(d, "</dl>\n");
}

static void add_setting(draft *d, const char *name, double value)
{
  char text[64];
  number_exact(value, text, sizeof text);
  draft_add(d, "<tr><td>%s</td><td>%s</td></tr>\n", name, text);
}

static void add_settings(draft *d, const horizon_report *r)
{
  const horizon *h = r->h;
  draft_add(d, "<h2>Every setting</h2>\n<table class=\"settings\"><tbody>\n");
  html_element(d, "<tr><td>model</td><td>", r->model, "</td></tr>");
  html_element(d, "<tr><td>position method</td><td>", r->config->position, "</td></tr>");
  html_element(d, "<tr><td>extended by</td><td>", r->extension, "</td></tr>");
  add_setting(d, "trained length", (double)r->config->train_length);
  html_element(d, "<tr><td>text</td><td>", r->text, "</td></tr>");
  if (h->text) {
    add_setting(d, "bytes of text", (double)r->text_bytes);
    add_setting(d, "tokens of text", (double)r->text_tokens);
    add_setting(d, "windows", (double)h->windows);
    add_setting(d, "queries looked at", (double)h->rows);
    add_setting(d, "largest error of a sum of weights", h->deviation);
  }
  add_setting(d, "tokens of a window", (double)h->length);
  add_setting(d, "threshold", h->threshold);
  add_setting(d, "tolerance of attention", r->tolerance);
  draft_add(d, "</tbody></table>\n");
  if (r->command) draft_add(d, "<h2>How to repeat it</h2>\n");
  html_element(d, "<pre>", r->command, "</pre>");
  draft_add(d,
            "<p>Beside this page lie <code>results.json</code> and <code>results.csv</code> with every number, "
            "and <code>horizon.gp</code> and "
            "<code>horizon.dat</code>, from which <code>gnuplot horizon.gp</code> draws the picture again.</p>\n");
}

status horizon_write_html(const horizon_report *r, const char *directory, alibi_error *error)
{
  draft d = {0};
  const study_results made = {.seconds = r->seconds};
  char *sentence = horizon_sentence(r);
  html_begin(&d, "How far the model reads");
  html_element(&d, "<h1>", "How far the model reads", "</h1>");
  html_element(&d, "<p class=\"answer\">", sentence, "</p>");
  add_picture(&d, r, directory);
  add_table(&d, r->h);
  add_terms(&d, r);
  add_settings(&d, r);
  html_end(&d, &made);
  d.failed = d.failed || !sentence;
  free(sentence);
  return draft_write(&d, directory, "report.html", error);
}
