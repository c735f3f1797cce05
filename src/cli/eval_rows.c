/* From rows of a table to the library and back.  A row that cannot be done has a sentence; the others go on. */
#include "cli/eval_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/model_files.h"
#include "cli/progress.h"
#include "cli/run.h"

/* ---- adding ---- */

static int64_t shortest_of(const eval_subject *s)
{
  int64_t shortest = s->lengths[0];
  for (size_t i = 0; i < s->length_count; i++)
    if (s->lengths[i] < shortest) shortest = s->lengths[i];
  return shortest;
}

/* The longest length below `end`; 0: none. */
static int64_t longest_below(const eval_subject *s, uint64_t end)
{
  int64_t longest = 0;
  for (size_t i = 0; i < s->length_count; i++)
    if (s->lengths[i] > longest && (uint64_t)s->lengths[i] < end) longest = s->lengths[i];
  return longest;
}

/* Lengths below this have room in some document, where a window must be filled. */
static uint64_t room_of(const eval_subject *s, const eval_model *m)
{
  return m->longest + (s->request->beginning >= 0);
}

static status say(evaluated_row *row, const char *sentence, alibi_error *error)
{
  row->error = strdup(sentence);
  return row->error ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the results");
}

static status add_row(eval_subject *s, int protocol, int64_t length, size_t line, size_t *id, alibi_error *error)
{
  const eval_options *options = &s->request->options;
  eval_model *m = &s->models[s->results.lines[line].model];
  evaluated_row *row = &s->results.rows[s->results.row_count++];
  alibi_evaluate_options o;
  alibi_error why = {0};
  *row = (evaluated_row){
      .line = line, .protocol = alibi_protocol_name(protocol), .length = length, .document = -1, .nll = NAN};
  *id = SIZE_MAX;
  if (s->line_errors[line]) return say(row, s->line_errors[line], error);
  alibi_evaluate_options_init(&o);
  o.protocol = protocol;
  o.window = length;
  o.stride = options->stride;
  o.shortest = shortest_of(s);
  o.longest = longest_below(s, protocol == ALIBI_FIXED_TARGET ? room_of(s, m) : UINT64_MAX);
  if (o.longest < length) o.longest = length; /* refused, with the reason */
  o.max_targets = options->max_targets;
  o.early = options->early;
  o.beginning = s->request->beginning;
  o.extend = s->results.lines[line].extend;
  status result = alibi_evaluation_add(m->evaluation, &o, id, &why);
  if (result == ALIBI_OK) return ALIBI_OK;
  *id = SIZE_MAX;
  if (result != ALIBI_INVALID) return fail(error, result, "%s", why.message);
  eval_request_say(&why);
  return say(row, why.message, error);
}

status eval_rows_add(eval_subject *s, eval_rows *rows, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t room = size_mul(size_mul(ALIBI_PROTOCOL_COUNT, s->length_count), s->results.line_count);
  *rows = (eval_rows){.room = false};
  s->results.rows = calloc(room, sizeof *s->results.rows);
  rows->ids = calloc(room, sizeof *rows->ids);
  if (!s->results.rows || !rows->ids) RAISE(error, ALIBI_FAILED, "not enough memory for the results");
  for (int p = 0; p < ALIBI_PROTOCOL_COUNT; p++)
    for (size_t i = 0; i < s->length_count && s->request->protocols[p]; i++)
      for (size_t line = 0; line < s->results.line_count; line++)
        TRY(add_row(s, p, s->lengths[i], line, &rows->ids[s->results.row_count], error));
  rows->pooled = s->results.row_count;
  for (size_t m = 0; m < s->results.model_count; m++)
    rows->room |= longest_below(s, room_of(s, &s->models[m])) > 0;
done:
  return result;
}

/* ---- running ---- */

static char *keep_path(const char *directory, size_t model)
{
  char name[64];
  snprintf(name, sizeof name, "evaluation-%zu.keep", model + 1);
  return path_join(directory, name);
}

static bool is_kept(const char *name)
{
  static const char begin[] = "evaluation-", end[] = ".keep";
  size_t size = strlen(name),
         digits = strspn(name + (size < sizeof begin ? size : sizeof begin - 1), "0123456789");
  return strncmp(name, begin, sizeof begin - 1) == 0 && digits > 0 &&
         strcmp(name + sizeof begin - 1 + digits, end) == 0;
}

/* Of however many models: an evaluation that was interrupted may have had more of them than this one. */
static size_t find_kept(const char *directory, bool removes)
{
  directory_list list = {0};
  size_t count = 0;
  if (directory_read(directory, &list, NULL) != ALIBI_OK) return 0;
  for (size_t i = 0; i < list.count; i++) {
    char *path = is_kept(list.names[i]) ? path_join(directory, list.names[i]) : NULL;
    count += path != NULL;
    if (path && removes) remove(path);
    free(path);
  }
  directory_list_free(&list);
  return count;
}

bool eval_rows_kept(const char *directory)
{
  return find_kept(directory, false) > 0;
}

void eval_rows_forget(const char *directory)
{
  find_kept(directory, true);
}

typedef struct shown_progress {
  const char *name;
  int item; /* -1: not begun, for its total is not known yet */
} shown_progress;

static void show(void *user, int64_t done, int64_t total)
{
  shown_progress *shown = user;
  if (shown->item < 0) shown->item = progress_begin(shown->name, (double)total, "tokens");
  progress_update(shown->item, (double)done, NULL);
}

status eval_rows_run(eval_subject *s, const char *keep, alibi_error *error)
{
  status result = ALIBI_OK;
  char *path = NULL;
  for (size_t m = 0; m < s->results.model_count; m++) {
    shown_progress shown = {s->results.models[m].name, -1};
    free(path);
    path = keep ? keep_path(keep, m) : NULL;
    if (keep && !path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
    result = alibi_evaluation_run(s->models[m].evaluation, path, show, &shown, error);
    progress_end(shown.item, NULL);
    TRY(model_files_say(s->request->models[m], result, error));
  }
done:
  free(path);
  return result;
}

/* ---- reading back ---- */

static void take_result(const alibi_evaluate_result *r, evaluated_row *row)
{
  row->stride = r->stride;
  row->tokens = r->tokens;
  row->bytes = r->bytes;
  row->nll = r->nll;
  row->nll_standard_error = r->nll_standard_error;
  row->perplexity = r->perplexity;
  row->standard_error = r->standard_error;
  row->bits_per_byte = r->bits_per_byte;
  row->early = r->early;
  row->early_tokens = r->early_tokens;
  row->early_nll = r->early_nll;
  row->late_nll = r->late_nll;
  row->late_standard_error = r->late_standard_error;
  row->longest_window = r->longest_window;
  row->documents = r->documents;
  row->seconds = r->seconds;
  row->input_tokens = r->input_tokens;
}

/* One walk over the targets of a row serves it and its documents. */
static status count_words(const eval_subject *s, const eval_model *m, size_t id, word_sum *sums,
                          alibi_error *error)
{
  status result = ALIBI_OK;
  int64_t count = alibi_evaluation_target_count(m->evaluation, id);
  for (int64_t i = 0; i < count; i++) {
    alibi_target target = {.size = sizeof target};
    TRY(alibi_evaluation_target(m->evaluation, id, i, &target, error));
    const word_sum more = {m->words[target.token], target.nll};
    word_sum *of[] = {&sums[target.document], &sums[s->document_count]}; /* all of them stand behind the last */
    for (size_t k = 0; k < 2; k++) of[k]->words += more.words, of[k]->nats += more.nats;
  }
done:
  return result;
}

static word_sum *words_of(const eval_subject *s, const eval_rows *rows, size_t index)
{
  return rows->words + index * (s->document_count + 1);
}

static void tell_words(const word_sum *sum, evaluated_row *row)
{
  row->words = sum->words;
  row->word_perplexity = sum->words > 0 ? exp(sum->nats / (double)sum->words) : NAN;
}

/* With the first line's row, which has the same place among those of its protocol and length. */
static status compare(eval_subject *s, const eval_rows *rows, size_t index, alibi_error *error)
{
  evaluated_row *row = &s->results.rows[index];
  size_t first = index - row->line;
  alibi_difference difference = {.size = sizeof difference};
  const evaluated_model *about = &s->results.models[s->results.lines[row->line].model];
  if (row->line == 0 || rows->ids[first] == SIZE_MAX || !about->same_tokens) return ALIBI_OK;
  status result = alibi_evaluation_compare(s->models[0].evaluation, rows->ids[first],
                                           s->models[s->results.lines[row->line].model].evaluation,
                                           rows->ids[index], &difference, NULL);
  if (result == ALIBI_INVALID) return ALIBI_OK; /* other targets after all: nothing to compare */
  if (result != ALIBI_OK) return fail(error, result, "not enough memory to compare %s", about->name);
  row->paired_tokens = difference.tokens;
  row->difference = difference.nll;
  row->difference_standard_error = difference.standard_error;
  return ALIBI_OK;
}

static status read_positions(const eval_model *m, size_t id, evaluated_row *row, alibi_error *error)
{
  status result;
  row->position_nll = calloc((size_t)row->length, sizeof *row->position_nll);
  row->position_band = calloc((size_t)row->length, sizeof *row->position_band);
  if (!row->position_nll || !row->position_band) RAISE(error, ALIBI_FAILED, "not enough memory for the places");
  TRY(alibi_evaluation_positions(m->evaluation, id, row->position_nll, row->position_band, &row->position_windows,
                                 error));
  if (row->position_windows == 0) { /* no text fills one: no curve */
    free(row->position_nll);
    free(row->position_band);
    row->position_nll = row->position_band = NULL;
  }
done:
  return result;
}

static status read_pooled(eval_subject *s, eval_rows *rows, size_t index, alibi_error *error)
{
  evaluated_row *row = &s->results.rows[index];
  const eval_model *m = &s->models[s->results.lines[row->line].model];
  alibi_evaluate_result found;
  alibi_error why = {0};
  size_t id = rows->ids[index];
  status result = ALIBI_OK;
  if (id == SIZE_MAX) goto done;
  result = alibi_evaluation_result(m->evaluation, id, -1, m->token_bytes, &found, &why);
  if (result == ALIBI_FAILED) { /* memory was out */
    rows->ids[index] = SIZE_MAX;
    return say(row, why.message, error);
  }
  if (result != ALIBI_OK) RAISE(error, result, "%s", why.message);
  take_result(&found, row);
  if (rows->words) {
    word_sum *sums = words_of(s, rows, index);
    TRY(count_words(s, m, id, sums, error));
    tell_words(&sums[s->document_count], row);
  }
  TRY(compare(s, rows, index, error));
  if (s->request->options.per_position && strcmp(row->protocol, "nonoverlapping") == 0)
    TRY(read_positions(m, id, row, error));
done:
  return result;
}

/* The rows of a pooled one's documents, put down at `to`; *count: how many so far. */
static status read_documents(const eval_subject *s, const eval_rows *rows, size_t index, evaluated_row *to,
                             size_t *count, alibi_error *error)
{
  const evaluated_row *pooled = &s->results.rows[index];
  size_t id = rows->ids[index];
  const eval_model *m = &s->models[s->results.lines[pooled->line].model];
  status result = ALIBI_OK;
  for (size_t d = 0; d < s->document_count; d++) {
    evaluated_row *row = &to[(*count)++];
    alibi_evaluate_result found;
    alibi_error why = {0};
    *row = (evaluated_row){.line = pooled->line,
                           .protocol = pooled->protocol,
                           .length = pooled->length,
                           .document = (int64_t)s->texts[d],
                           .nll = NAN};
    result = alibi_evaluation_result(m->evaluation, id, (int64_t)d, m->token_bytes, &found, &why);
    if (result == ALIBI_INVALID) {
      eval_request_say(&why);
      TRY(say(row, why.message, error));
      continue;
    }
    if (result != ALIBI_OK) RAISE(error, result, "%s", why.message);
    take_result(&found, row);
    if (rows->words) tell_words(&words_of(s, rows, index)[d], row);
  }
done:
  return result;
}

/* Rows move to a longer list, each followed by those of its documents. */
static status add_documents(eval_subject *s, const eval_rows *rows, alibi_error *error)
{
  evaluation_results *results = &s->results;
  status result = ALIBI_OK;
  size_t count = 0;
  evaluated_row *longer = calloc(size_mul(rows->pooled, s->document_count + 1), sizeof *longer);
  if (!longer) return fail(error, ALIBI_FAILED, "not enough memory for the results");
  for (size_t i = 0; i < rows->pooled; i++) {
    longer[count++] = results->rows[i];
    if (result == ALIBI_OK && rows->ids[i] != SIZE_MAX) result = read_documents(s, rows, i, longer, &count, error);
  }
  free(results->rows);
  results->rows = longer;
  results->row_count = count;
  return result;
}

status eval_rows_read(eval_subject *s, eval_rows *rows, alibi_error *error)
{
  status result = ALIBI_OK;
  if (s->request->options.words)
    TRY(memory_new(&rows->words, size_mul(rows->pooled, s->document_count + 1), sizeof *rows->words,
                   "the words of the texts", error));
  for (size_t i = 0; i < rows->pooled; i++) TRY(read_pooled(s, rows, i, error));
  if (s->request->options.documents) TRY(add_documents(s, rows, error));
done:
  return result;
}

void eval_rows_free(eval_rows *rows)
{
  free(rows->ids);
  memory_free(rows->words);
  *rows = (eval_rows){0};
}
