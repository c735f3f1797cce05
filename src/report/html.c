/* report.html: one page that stands alone (style and pictures inside, nothing fetched, no script) and goes from
 * the answer to the details.  Every text from outside passes draft_add_escaped.  A method's own page lies beside
 * it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"
#include "report/html_parts.h"

enum { PROTOCOLS = 8 };

static void add_table(draft *d, const study_results *results, const char *protocol, html_notes *n)
{
  size_t count = 0, length_count = 0;
  series *lines = series_list(results, protocol, &count);
  int64_t *lengths = length_list(results, protocol, &length_count);
  int64_t tokens = 0;
  if (!lines || !lengths) {
    d->failed = d->failed || count > 0;
    goto done;
  }
  html_protocol(d, protocol);
  html_lengths(d, results, "method", lengths, length_count);
  for (size_t i = 0; i < count; i++) {
    draft_add(d, "<tr%s><td>", lines[i].main_method ? " class=\"main\"" : "");
    html_key(d, lines[i].colour, lines[i].dash > 0, lines[i].main_method);
    html_link(d, results, lines[i].method, lines[i].label);
    draft_add(d, "</td>");
    for (size_t j = 0; j < length_count; j++) {
      const curve_point *p = curve_find_point(lines[i].curve, lengths[j]);
      html_cell(d, results, &lines[i], lengths[j], n);
      if (p && p->tokens > tokens) tokens = p->tokens;
    }
    draft_add(d, "</tr>\n");
  }
  char grouped[64];
  number_grouped((double)tokens, grouped, sizeof grouped);
  draft_add(
      d,
      "</tbody></table></div>\n<p class=\"foot\">Perplexity, lower is better, over up to %s predicted tokens a "
      "cell, "
      "&plusmn; its standard error; below it, how many times the method&#39;s own perplexity at its training "
      "length it is.</p>\n",
      grouped);
done:
  free(lines);
  free(lengths);
}

static void add_tables(draft *d, const study_results *results, const char **protocols, size_t count)
{
  html_notes n = {.count = 0};
  if (count == 0) return;
  html_numbers(d);
  for (size_t i = 0; i < count; i++) add_table(d, results, protocols[i], &n);
  html_note_list(d, &n);
}

static void add_costs(draft *d, const study_results *results)
{
  double fastest = results_fastest(results);
  if (results->method_count == 0) return;
  draft_add(d, "<h2>What each method costs</h2>\n<div class=\"scroll\"><table class=\"wide "
               "costs\"><thead><tr><th>method</th><th>trained at"
               "<small>tokens</small></th><th>parameters</th><th>training<small>time</small></th><th>training"
               "<small>tokens a second</small></th><th>reading<small>tokens a second</small></th>"
               "<th>peak memory<small>MiB</small></th><th>final loss<small>nats a "
               "token</small></th></tr></thead>\n<tbody>\n");
  for (size_t i = 0; i < results->method_count; i++) {
    const method_result *m = &results->methods[i];
    bool heavy = strcmp(m->name, "alibi") == 0, again = html_earlier_namesakes(results, i) > 0;
    char label[2 * RESULT_NAME_SIZE];
    method_label(results, m, "", label, sizeof label);
    draft_add(d, "<tr%s><td>", heavy ? " class=\"main\"" : "");
    html_key(d, method_colour(results, m->name, NULL), again, heavy && !again);
    html_link(d, results, m, label);
    draft_add(d, "</td>");
    html_number(d, (double)m->train_length);
    draft_add(d, "</td>");
    html_number(d, (double)m->parameters);
    draft_add(d, "</td><td>");
    html_seconds(d, m->train_seconds);
    draft_add(d, "</td>");
    html_number(d, m->train_tokens_per_second);
    if (fastest > 0 && m->train_tokens_per_second > 0)
      draft_add(d, "<span class=\"bar\" style=\"width:%.1f%%\"></span><small>%+.1f %% time</small>",
                100 * m->train_tokens_per_second / fastest, 100 * (fastest / m->train_tokens_per_second - 1));
    draft_add(d, "</td>");
    html_number(d, m->evaluate_tokens_per_second);
    draft_add(d, "</td>");
    if (m->peak_memory_bytes > 0) draft_add(d, "<td>%.1f</td>", (double)m->peak_memory_bytes / (1024.0 * 1024.0));
    else draft_add(d, "<td>-</td>");
    if (isfinite(m->final_loss)) draft_add(d, "<td>%.3f</td></tr>\n", m->final_loss);
    else draft_add(d, "<td>-</td></tr>\n");
  }
  draft_add(d, "</tbody></table></div>\n<p class=\"foot\">Each method ran in a process of its own, so its peak "
               "memory is its own. "
               "Training speed was measured with the machine to itself (median of interleaved rounds); the extra "
               "time is against the fastest.</p>\n");
}

static void add_terms(draft *d)
{
  draft_add(
      d, "<h2>What the words mean</h2>\n<dl>\n"
         "<dt>Token</dt><dd>The piece of text that a model reads and predicts: a few letters, often a word.</dd>\n"
         "<dt>Training length</dt><dd>How many tokens at once the model saw while it learnt. Training on short "
         "pieces is "
         "cheaper; the question of this page is what it costs later.</dd>\n"
         "<dt>Position method</dt><dd>How a model knows in which order the tokens stand. Some methods know only "
         "the positions "
         "they were trained on; others go on to any.</dd>\n"
         "<dt>Extension</dt><dd>A change to a trained model, made without training again, that lets its positions "
         "reach "
         "further; in the tables after a plus sign.</dd>\n"
         "<dt>Perplexity</dt><dd>How many equally likely tokens the model is, on average, undecided between when "
         "it predicts the "
         "next one: the exponential of the mean loss. 1 is perfect; lower is better. It compares only between "
         "models with the same "
         "tokens.</dd>\n"
         "<dt>Bits per byte</dt><dd>The same loss counted in bits for each byte of text, which compares between "
         "tokenizers "
         "too. It is in results.json and results.csv.</dd>\n"
         "<dt>Standard error</dt><dd>How far a figure would typically be off because only so much text was "
         "tested, estimated "
         "from blocks of the text; twice the standard error on either side holds the true figure about 19 times "
         "in 20. All "
         "methods read the same text, so a difference between two of them is surer than their standard errors "
         "suggest.</dd>\n"
         "<dt>Seed</dt><dd>The number that fixes every random choice of a training, so that it can be repeated. "
         "Another seed "
         "gives slightly other figures; that is not part of the standard error.</dd>\n</dl>\n");
}

static void add_repeat(draft *d, const study_results *results)
{
  if (results->command || results->next_command) draft_add(d, "<h2>How to repeat it</h2>\n");
  html_element(d, "<pre>", results->command, "</pre>");
  if (results->next_command && results->next_command[0]) draft_add(d, "<p>A good next step:</p>\n");
  html_element(d, "<pre>", results->next_command, "</pre>");
  draft_add(
      d, "<p>Beside this page lie <code>results.json</code> and <code>results.csv</code> with every number, and "
         "<code>curves.gp</code> and <code>curves.dat</code>, from which <code>gnuplot curves.gp</code> draws the "
         "picture again "
         "after you changed its style.</p>\n");
}

static void add_settings(draft *d, const study_results *results)
{
  draft_add(d, "<h2>Every setting</h2>\n<table class=\"settings\"><tbody>\n");
  html_element(d, "<tr><td>text</td><td>", results->text, "</td></tr>");
  html_element(d, "<tr><td>machine</td><td>", results->machine, "</td></tr>");
  html_settings(d, results->settings, results->setting_count);
  draft_add(d, "</tbody></table>\n");
}

status results_write_html(const study_results *results, const char *directory, alibi_error *error)
{
  draft d = {0};
  const char *protocols[PROTOCOLS];
  size_t count = protocol_list(results, protocols, PROTOCOLS);
  const char *question = results->question ? results->question : "Train short, test long";
  html_begin(&d, question);
  html_element(&d, "<h1>", question, "</h1>");
  html_element(&d, "<p class=\"answer\">", results->answer, "</p>");
  html_picture(&d, results, directory, protocols, count);
  html_element(&d, "<p class=\"rival\">", results->rival_answer, "</p>");
  add_tables(&d, results, protocols, count);
  add_costs(&d, results);
  html_losses(&d, results, NULL);
  add_terms(&d);
  add_settings(&d, results);
  add_repeat(&d, results);
  html_end(&d, results);
  status result = draft_write(&d, directory, "report.html", error);
  for (size_t i = 0; result == ALIBI_OK && i < results->method_count; i++)
    result = html_write_method(results, &results->methods[i], directory, error);
  return result;
}
