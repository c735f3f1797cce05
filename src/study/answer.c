/* From numbers to sentences: what stayed flat, what broke, who wins against the rival.  A difference under 1 % is
 * never called one. */
#include "study/answer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double FLAT = 1.01; /* at most 1 % worse than at the training length */

typedef struct sentence {
  char text[8192];
} sentence;

static void add(sentence *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(sentence *s, const char *format, ...)
{
  size_t used = strlen(s->text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(s->text + used, sizeof s->text - used, format, arguments);
  va_end(arguments);
}

static status give(const sentence *s, char **text, alibi_error *error)
{
  free(*text);
  *text = strdup(s->text);
  return *text ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the report");
}

static const char *primary_protocol(const study_plan *plan)
{
  for (size_t i = 0; i < plan->protocol_count; i++)
    if (strcmp(plan->protocols[i], "fixed-target") == 0) return plan->protocols[i];
  return plan->protocols[0];
}

/* How a method stands at the lengths beyond its training length, against itself there. */
typedef struct standing {
  const method_result *method;
  double trained; /* perplexity at the training length; NaN where it was not measured */
  double worst;   /* largest ratio to it; infinity where a perplexity is not finite */
  int64_t worst_length;
  bool unable, leads;
} standing;

static double perplexity_at(const curve *c, int64_t length)
{
  const curve_point *p = c ? curve_find_point(c, length) : NULL;
  return p && !p->error[0] ? p->perplexity : NAN;
}

static standing stand(const study_plan *plan, const method_result *m)
{
  const curve *c = method_find_curve(m, primary_protocol(plan), "");
  standing s = {.method = m, .trained = perplexity_at(c, m->train_length), .worst = 0};
  for (size_t i = 0; c && i < c->count; i++) {
    const curve_point *p = &c->points[i];
    if (p->length <= m->train_length) continue;
    double ratio = isfinite(p->perplexity) ? p->perplexity / s.trained : INFINITY;
    if (p->error[0]) s.unable = true;
    else if (ratio > s.worst) {
      s.worst = ratio;
      s.worst_length = p->length;
    }
  }
  return s;
}

static bool is_flat(const standing *s)
{
  return !s->unable && isfinite(s->trained) && s->worst > 0 && s->worst <= FLAT;
}

static bool is_worse(const standing *s)
{
  return !s->unable && s->worst > FLAT;
}

static bool is_unable(const standing *s)
{
  return s->unable;
}

static bool leads(const standing *s)
{
  return s->leads;
}

static size_t count_of(const standing *all, size_t count, bool (*wanted)(const standing *))
{
  size_t total = 0;
  for (size_t i = 0; i < count; i++) total += wanted(&all[i]);
  return total;
}

/* "none, RoPE and ALiBi"; with_worst: "RoPE (2.72 times at 1024)". */
static void add_list(sentence *s, const standing *all, size_t count, bool (*wanted)(const standing *),
                     bool with_worst)
{
  size_t total = count_of(all, count, wanted), done = 0;
  for (size_t i = 0; i < count; i++) {
    if (!wanted(&all[i])) continue;
    add(s, "%s%s", done == 0 ? "" : done + 1 == total ? " and " : ", ", results_spelling(all[i].method->name));
    if (with_worst && isfinite(all[i].worst))
      add(s, " (%.2f times at %lld)", all[i].worst, (long long)all[i].worst_length);
    else if (with_worst) add(s, " (without bound at %lld)", (long long)all[i].worst_length);
    done++;
  }
}

/* The best method where everyone was trained, and whoever is within 1 % of it. */
static void at_training_length(standing *all, size_t count, sentence *s)
{
  double best = INFINITY;
  for (size_t i = 0; i < count; i++)
    if (all[i].trained < best) best = all[i].trained;
  if (!isfinite(best)) return;
  for (size_t i = 0; i < count; i++) all[i].leads = all[i].trained <= best * FLAT;
  add(s, " At the training length itself ");
  add_list(s, all, count, leads, false);
  if (count_of(all, count, leads) == 1) add(s, " is best (perplexity %.2f).", best);
  else add(s, " are best, within 1 %% of each other (perplexity %.2f).", best);
}

static void answer(const study_plan *plan, const study_results *results, sentence *s)
{
  standing all[STUDY_MAX_ENTRIES];
  size_t count = 0;
  for (size_t i = 0; i < results->method_count && count < STUDY_MAX_ENTRIES; i++)
    if (strcmp(results->methods[i].role, "method") == 0 &&
        results->methods[i].train_length == results->train_length)
      all[count++] = stand(plan, &results->methods[i]);
  if (count == 0) {
    add(s, "No method is finished.");
    return;
  }
  if (results->method_count < plan->entry_count)
    add(s, "Unfinished: this speaks of %zu of the study's %zu trainings only. ", results->method_count,
        plan->entry_count);
  long long trained = (long long)results->train_length, longest = (long long)study_plan_longest(plan);
  size_t flat = count_of(all, count, is_flat), worse = count_of(all, count, is_worse),
         unable = count_of(all, count, is_unable);
  add(s, "Trained at %lld tokens, ", trained);
  if (flat) {
    add_list(s, all, count, is_flat, false);
    add(s, " %s the perplexity of the training length up to %lld tokens (at most 1 %% worse anywhere)",
        flat == 1 ? "keeps" : "keep", longest);
  } else {
    add(s, "no method keeps the perplexity of the training length up to %lld tokens", longest);
  }
  if (worse) {
    add(s, "; ");
    add_list(s, all, count, is_worse, true);
    add(s, " %s worse beyond it", worse == 1 ? "gets" : "get");
  }
  if (unable) {
    add(s, "; ");
    add_list(s, all, count, is_unable, false);
    add(s, " cannot go beyond %lld", trained);
  }
  add(s, ".");
  at_training_length(all, count, s);
}

static const method_result *find_role(const study_results *results, const char *role, const char *name)
{
  for (size_t i = 0; i < results->method_count; i++)
    if (strcmp(results->methods[i].role, role) == 0 && (!name || strcmp(results->methods[i].name, name) == 0))
      return &results->methods[i];
  return NULL;
}

/* ALiBi trained short against the rival trained long, both tested at the rival's length: the question of Press et
 * al., section 4. */
static void rival(const study_plan *plan, const method_result *a, const method_result *r, sentence *s)
{
  const char *protocol = primary_protocol(plan);
  double mine = perplexity_at(method_find_curve(a, protocol, ""), r->train_length);
  double theirs = perplexity_at(method_find_curve(r, protocol, ""), r->train_length);
  if (!isfinite(mine) || !isfinite(theirs)) return;
  double ratio = theirs / mine;
  add(s, "Tested at %lld tokens, ALiBi trained at %lld reads %.2f and %s trained at %lld reads %.2f: ",
      (long long)r->train_length, (long long)a->train_length, mine, results_spelling(r->name),
      (long long)r->train_length, theirs);
  if (fabs(ratio - 1) < 0.01) add(s, "no difference of 1 %% on this text");
  else
    add(s, "%s wins on this text by %.1f %%", ratio > 1 ? "ALiBi" : results_spelling(r->name),
        100 * (ratio > 1 ? ratio - 1 : 1 / ratio - 1));
  add(s,
      ". Per training token ALiBi took %.2f of the rival's time (%.0f against %.0f tokens a second) and its "
      "process %.2f of the memory "
      "(%.1f against %.1f MB).",
      r->train_tokens_per_second / a->train_tokens_per_second, a->train_tokens_per_second,
      r->train_tokens_per_second, (double)a->peak_memory_bytes / (double)r->peak_memory_bytes,
      (double)a->peak_memory_bytes * 1e-6, (double)r->peak_memory_bytes * 1e-6);
}

/* How long the first word of a command is, as a shell cuts it. */
static size_t word_size(const char *text)
{
  const char *at = text;
  for (bool quoted = false; *at && (quoted || *at != ' '); at++) {
    if (*at == '\'') quoted = !quoted;
    else if (*at == '\\' && !quoted && at[1]) at++;
  }
  return (size_t)(at - text);
}

/* Is the word this option, and if so with its value, "--out=o" or "'--out=my folder'"? */
static bool is_option(const char *word, size_t size, const char *option, bool *with_value)
{
  bool quoted = *word == '\'';
  size_t length = strlen(option);
  if (size < length + quoted || strncmp(word + quoted, option, length) != 0) return false;
  *with_value = word[quoted + length] == '=';
  return *with_value || size == length;
}

static bool is_unwanted(const char *word, size_t size, bool *takes_next)
{
  bool with_value;
  if (is_option(word, size, "--overwrite", &with_value) || is_option(word, size, "--no-overwrite", &with_value))
    return true;
  if (!is_option(word, size, "--rival-length", &with_value)) return false;
  *takes_next = !with_value;
  return true;
}

static void add_word(char *text, const char *word, size_t size, const char *more)
{
  sprintf(text + strlen(text), "%s%.*s%s", *text ? " " : "", (int)size, word, more);
}

/* The study's own command with a rival, into another folder; malloc'd, NULL when memory is out. */
static char *rival_command(const study_plan *plan, long long length)
{
  char *text = malloc(strlen(plan->command) + 128), added[64];
  bool out = false, in_out = false, unwanted = false, with_value = false;
  if (!text) return NULL;
  *text = '\0';
  snprintf(added, sizeof added, "--rival-length %lld", length);
  const char *word = plan->command;
  for (size_t size; (size = word_size(word)) > 0; word += size, word += *word == ' ') {
    bool is_value = in_out || unwanted;
    if (!is_value && size == 2 && memcmp(word, "--", 2) == 0) break; /* texts follow */
    bool here = !out && (in_out || (!is_value && is_option(word, size, "--out", &with_value) && with_value));
    size_t kept = size;
    while (here && kept > 1 && word[kept - 1] == '/') kept--;
    in_out = !is_value && !here && is_option(word, size, "--out", &with_value);
    out = out || here;
    if (unwanted) unwanted = false;
    else if (is_value || !is_unwanted(word, size, &unwanted)) add_word(text, word, kept, here ? "-rival" : "");
  }
  if (!out) add_word(text, "--out out/study-rival", 21, "");
  add_word(text, added, strlen(added), "");
  if (*word) add_word(text, word, strlen(word), "");
  return text;
}

status study_answer(const study_plan *plan, study_results *results, alibi_error *error)
{
  sentence question = {""}, reply = {""}, against = {""};
  const method_result *a = find_role(results, "method", "alibi"), *r = find_role(results, "rival", NULL);
  status result;
  add(&question, "Which position methods, trained at %lld tokens, still work at up to %lld?",
      (long long)results->train_length, (long long)study_plan_longest(plan));
  answer(plan, results, &reply);
  TRY(give(&question, &results->question, error));
  TRY(give(&reply, &results->answer, error));
  if (a && r) rival(plan, a, r, &against);
  if (against.text[0]) TRY(give(&against, &results->rival_answer, error));
  if (plan->settings.rival_length == 0 && results->method_count == plan->entry_count) {
    free(results->next_command);
    results->next_command = rival_command(plan, (long long)results->train_length * 4);
    if (!results->next_command) RAISE(error, ALIBI_FAILED, "not enough memory for the report");
  }
done:
  return result;
}
