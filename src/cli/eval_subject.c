/* Texts to tokens.  Every model reads the texts with its own tokenizer; where two have the same ids, their losses
 * can be compared token by token. */
#include "cli/eval_subject.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "cli/model_files.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "model/config.h"
#include "report/drawing.h"
#include "report/path_names.h"
#include "text/tokenizer.h"
#include "text/tokenizer_fingerprint.h"

static status copy_text(const char *text, char **copy, alibi_error *error)
{
  *copy = text ? strdup(text) : NULL;
  return *copy || !text ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the results");
}

/* ---- texts ---- */

static int64_t count_invalid(const unsigned char *text, size_t size)
{
  int64_t invalid = 0;
  for (size_t i = 0; i < size;) {
    size_t length = utf8_length((const char *)text + i, size - i);
    invalid += length == 0;
    i += length ? length : 1;
  }
  return invalid;
}

static status open_texts(eval_subject *s, mapped_file *files, alibi_error *error)
{
  const text_values *texts = &s->request->texts;
  evaluation_results *results = &s->results;
  status result = ALIBI_OK;
  size_t empty = 0;
  for (size_t i = 0; i < texts->count; i++) {
    evaluation_text *text = &results->texts[i];
    const char *path = texts->items[i];
    if (path_is_directory(path))
      RAISE(error, ALIBI_BAD_INPUT, "--text: %s: expected a file, found a directory (models stand before --text)",
            path);
    TRY(mapped_file_open(path, &files[i], error));
    TRY(copy_text(path, &text->path, error));
    results->text_count++;
    text->bytes = (int64_t)files[i].size;
    text->invalid_bytes = count_invalid(files[i].data, files[i].size);
    if (text->invalid_bytes && !cli_quiet())
      progress_note("%s: %" PRId64 " of %" PRId64 " bytes are no UTF-8; evaluated as they are", path,
                    text->invalid_bytes, text->bytes);
    if (text->bytes > 0) s->texts[s->document_count++] = i;
    else empty++;
  }
  if (s->document_count == 0 && texts->count > 1)
    RAISE(error, ALIBI_BAD_INPUT, "--text: %zu files, all of them empty", texts->count);
  for (size_t i = 0; i < texts->count && empty && s->document_count && !cli_quiet(); i++)
    if (results->texts[i].bytes == 0) progress_note("%s: empty, left out", texts->items[i]);
done:
  return result;
}

/* ---- one model ---- */

/* Where white space ends a word begins; a document begins as after white space. */
static status count_words(eval_model *m, size_t document_count, alibi_error *error)
{
  status result;
  size_t document = 0, size;
  bool blank = true;
  TRY(memory_new(&m->words, m->count, sizeof *m->words, "the words of the texts", error));
  for (size_t i = 0; i < m->count; i++) {
    const unsigned char *bytes = alibi_tokenizer_bytes(m->tokenizer, m->tokens[i], &size);
    if (document < document_count && m->documents[document] == i) {
      blank = true;
      document++;
    }
    for (size_t k = 0; bytes && k < size; k++) {
      bool space = bytes[k] == ' ' || (bytes[k] >= '\t' && bytes[k] <= '\r');
      if (blank && !space && m->words[i] < UINT16_MAX) m->words[i]++;
      blank = space;
    }
  }
done:
  return result;
}

static status encode_texts(eval_subject *s, const mapped_file *files, eval_model *m, alibi_error *error)
{
  status result = ALIBI_OK;
  uint32_t *tokens = NULL;
  size_t count = 0, capacity = 0;
  TRY(memory_new(&m->documents, s->document_count + 1, sizeof *m->documents, "the documents", error));
  for (size_t d = 0; d < s->document_count; d++) {
    const mapped_file *file = &files[s->texts[d]];
    TRY(model_files_encode(m->tokenizer, NULL, file->data, file->size, &tokens, &count, error));
    TRY(memory_grow(&m->tokens, &capacity, m->count + count + 1, sizeof *m->tokens, "the tokens", error));
    memcpy(m->tokens + m->count, tokens, count * sizeof *tokens);
    m->documents[d] = m->count;
    m->count += count;
    if (count > m->longest) m->longest = count;
    alibi_tokens_free(tokens);
    tokens = NULL;
  }
  if (m->longest < 2)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected at least 2 tokens of text, found %zu",
          s->results.texts[s->document_count ? s->texts[0] : 0].path, m->longest);
  if (s->request->options.words) TRY(count_words(m, s->document_count, error));
done:
  alibi_tokens_free(tokens);
  return result;
}

static status open_model(alibi_context *context, const char *directory, eval_model *m, alibi_error *error)
{
  status result;
  TRY(model_files_open(context, directory, &m->model, error));
  TRY(model_files_open_tokenizer(directory, m->model, true, &m->tokenizer, error));
  TRY(tokenizer_token_bytes(m->tokenizer, &m->token_bytes, error));
  TRY(tokenizer_fingerprint(m->tokenizer, &m->fingerprint, error));
done:
  return result;
}

static status check_beginning(const eval_subject *s, const eval_model *m, const char *directory,
                              alibi_error *error)
{
  int64_t vocabulary = alibi_model_get_config(m->model)->vocabulary;
  if (s->request->beginning < vocabulary) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "--beginning: expected an id below the %" PRId64 " tokens of %s, found %" PRId64, vocabulary,
              directory, s->request->beginning);
}

static status describe_model(eval_subject *s, size_t index, alibi_error *error)
{
  const eval_model *m = &s->models[index], *first = &s->models[0];
  evaluated_model *about = &s->results.models[index];
  const alibi_model_config *config = alibi_model_get_config(m->model);
  extension_choice own = model_config_extension(config);
  char extension[EXTENSION_TEXT_SIZE];
  status result;
  extension_text_write(&own, extension, sizeof extension);
  s->results.model_count++;
  about->name = path_name(s->request->models, s->request->model_count, index, NULL);
  if (!about->name) RAISE(error, ALIBI_FAILED, "not enough memory for the name of a model");
  TRY(copy_text(s->request->models[index], &about->path, error));
  TRY(copy_text(config->position, &about->position, error));
  TRY(copy_text(config->extension[0] ? extension : NULL, &about->extension, error));
  TRY(copy_text(alibi_tokenizer_kind(m->tokenizer), &about->tokenizer, error));
  about->train_length = config->train_length;
  about->parameters = alibi_model_parameter_count(m->model);
  about->vocabulary = config->vocabulary;
  about->tokens = (int64_t)m->count;
  about->same_tokens = m->fingerprint == first->fingerprint && m->count == first->count &&
                       memcmp(m->tokens, first->tokens, m->count * sizeof *m->tokens) == 0;
done:
  return result;
}

/* ---- lines and lengths ---- */

static status read_extension(const eval_request *r, const alibi_model_config *config, const char *text,
                             alibi_error *error)
{
  extension_choice choice;
  bool policy = strcmp(r->variant_option, "--beyond") == 0;
  if (strcmp(text, "none") == 0) return ALIBI_OK;
  if (policy && !position_extension_find(config->position, text))
    return fail(error, ALIBI_INVALID,
                "--beyond %s: expected a model with absolute positions, found the method '%s'", text,
                config->position);
  return model_config_read_extension(config, r->variant_option, text, &choice, error);
}

static status add_line(eval_subject *s, size_t model, const char *text, alibi_error *error)
{
  evaluation_results *results = &s->results;
  evaluation_line *line = &results->lines[results->line_count];
  const char *name = results->models[model].name;
  bool as_trained = strcmp(text, "none") == 0;
  alibi_error why = {0};
  status result;
  *line = (evaluation_line){.model = model};
  results->line_count++;
  TRY(copy_text(as_trained ? NULL : text, &line->extend, error));
  size_t size = strlen(name) + strlen(text) + 4;
  line->label = malloc(size);
  if (!line->label) RAISE(error, ALIBI_FAILED, "not enough memory for the results");
  snprintf(line->label, size, "%s%s%s", name, as_trained ? "" : " + ", as_trained ? "" : text);
  if (read_extension(s->request, alibi_model_get_config(s->models[model].model), text, &why) != ALIBI_OK)
    TRY(copy_text(why.message, &s->line_errors[results->line_count - 1], error));
done:
  return result;
}

/* An extension that no model has is a slip; one that some have is a row that says so for the others. */
static status check_variant(const eval_subject *s, size_t variant, alibi_error *error)
{
  const char *why = NULL;
  for (size_t m = 0; m < s->request->model_count; m++) {
    const char *sentence = s->line_errors[m * s->request->variant_count + variant];
    if (!sentence) return ALIBI_OK;
    if (!why) why = sentence;
  }
  return fail(error, ALIBI_INVALID, "%s", why);
}

static status add_lines(eval_subject *s, alibi_error *error)
{
  const eval_request *r = s->request;
  status result = ALIBI_OK;
  size_t room = size_mul(r->model_count, r->variant_count);
  s->results.lines = calloc(room, sizeof *s->results.lines);
  s->line_errors = calloc(room, sizeof *s->line_errors);
  if (!s->results.lines || !s->line_errors) RAISE(error, ALIBI_FAILED, "not enough memory for the results");
  for (size_t m = 0; m < r->model_count; m++)
    for (size_t v = 0; v < r->variant_count; v++) TRY(add_line(s, m, r->variants[v], error));
  for (size_t v = 0; v < r->variant_count; v++) TRY(check_variant(s, v, error));
done:
  return result;
}

static void choose_lengths(eval_subject *s)
{
  int64_t trained = s->results.models[0].train_length;
  if (trained < 2) trained = 2;
  s->length_count = s->request->length_count;
  memcpy(s->lengths, s->request->lengths, sizeof s->lengths);
  for (int i = 0; i < EVAL_DEFAULT_LENGTHS && !s->request->length_count; i++)
    s->lengths[s->length_count++] = trained << i;
}

/* ---- all of it ---- */

static status make_room(eval_subject *s, mapped_file **files, alibi_error *error)
{
  const eval_request *r = s->request;
  *files = calloc(r->texts.count, sizeof **files);
  s->texts = calloc(r->texts.count, sizeof *s->texts);
  s->models = calloc(r->model_count, sizeof *s->models);
  s->results.texts = calloc(r->texts.count, sizeof *s->results.texts);
  s->results.models = calloc(r->model_count, sizeof *s->results.models);
  if (*files && s->texts && s->models && s->results.texts && s->results.models) return ALIBI_OK;
  return fail(error, ALIBI_FAILED, "not enough memory for the results");
}

status eval_subject_open(alibi_context *context, const eval_request *request, eval_subject *s, alibi_error *error)
{
  mapped_file *files = NULL;
  status result;
  *s = (eval_subject){.request = request};
  TRY(make_room(s, &files, error));
  for (size_t m = 0; m < request->model_count; m++) {
    TRY(open_model(context, request->models[m], &s->models[m], error));
    TRY(check_beginning(s, &s->models[m], request->models[m], error));
  }
  TRY(open_texts(s, files, error));
  for (size_t m = 0; m < request->model_count; m++) {
    eval_model *model = &s->models[m];
    TRY(encode_texts(s, files, model, error));
    TRY(describe_model(s, m, error));
    TRY(alibi_evaluation_new(model->model, model->tokens, model->count, model->documents, s->document_count,
                             &model->evaluation, error));
  }
  TRY(add_lines(s, error));
  choose_lengths(s);
done:
  for (size_t i = 0; files && i < request->texts.count; i++)
    if (files[i].data) mapped_file_close(&files[i]);
  free(files);
  return result;
}

void eval_subject_free(eval_subject *s)
{
  for (size_t m = 0; s->request && s->models && m < s->request->model_count; m++) {
    eval_model *model = &s->models[m];
    alibi_evaluation_free(model->evaluation);
    free(model->tokens);
    memory_free(model->token_bytes);
    memory_free(model->words);
    memory_free(model->documents);
    alibi_tokenizer_free(model->tokenizer);
    alibi_model_free(model->model);
  }
  for (size_t i = 0; s->line_errors && i < s->results.line_count; i++) free(s->line_errors[i]);
  free(s->line_errors);
  free(s->models);
  free(s->texts);
  evaluation_results_free(&s->results);
}
