/* Opening what a task runs on. */
#include "cli/task_subject.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "cli/model_files.h"
#include "model/model.h"
#include "text/tokenizer_fingerprint.h"

static status read_text(const task_wish *wish, task_subject *s, alibi_error *error)
{
  mapped_file file = {0};
  size_t count;
  status result;
  TRY(mapped_file_open(wish->text, &file, error));
  s->text_bytes = file.size;
  TRY(model_files_encode(s->tokenizer, NULL, file.data, file.size, &s->text, &count, error));
  if (count < 2)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected at least 2 tokens of text, found %zu", wish->text, count);
  TRY(word_list_read(file.data, file.size, &s->words, error));
  s->material.text = s->text;
  s->material.text_count = count;
  s->material.words = &s->words;
done:
  if (file.data) mapped_file_close(&file);
  return result;
}

/* Its ids must mean what the model's do. */
static status open_evaluator(alibi_context *context, const task_wish *wish, task_subject *s, alibi_error *error)
{
  alibi_tokenizer *tokenizer = NULL;
  uint64_t own = 0, other = 0;
  status result;
  TRY(model_files_open(context, wish->evaluator, &s->evaluator, error));
  TRY(model_files_open_tokenizer(wish->evaluator, s->evaluator, false, &tokenizer, error));
  if (s->tokenizer) TRY(tokenizer_fingerprint(s->tokenizer, &own, error));
  if (tokenizer) TRY(tokenizer_fingerprint(tokenizer, &other, error));
  if (own != other)
    RAISE(error, ALIBI_BAD_INPUT, "--evaluator %s: expected the tokenizer of the model, found another",
          wish->evaluator);
  s->material.evaluator = s->evaluator;
done:
  alibi_tokenizer_free(tokenizer);
  return result;
}

static status read_extension(const task_wish *wish, const alibi_model_config *config, task_subject *s,
                             alibi_error *error)
{
  alibi_error why = {0};
  status result = extend_option_read(&wish->extension, config, &s->extend, &why);
  if (result == ALIBI_OK && s->extend)
    result = model_config_read_extension(config, "--extend", s->extend, &s->choice, &why);
  if (result == ALIBI_OK) return result;
  if (result != ALIBI_INVALID) return fail(error, result, "%s", why.message);
  s->refused = strdup(why.message);
  return s->refused ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the results");
}

status task_subject_open(alibi_context *context, const char *path, const task_wish *wish, task_subject *s,
                         alibi_error *error)
{
  unsigned needs = wish->task->needs;
  status result;
  *s = (task_subject){0};
  TRY(model_files_open(context, path, &s->model, error));
  TRY(model_check_causal(s->model, "a task", error));
  const alibi_model_config *config = alibi_model_get_config(s->model);
  TRY(read_extension(wish, config, s, error));
  TRY(model_files_open_tokenizer(path, s->model, false, &s->tokenizer, error));
  if ((needs & TASK_NEEDS_TOKENIZER) && !s->tokenizer)
    RAISE(error, ALIBI_INVALID, "%s: expected a model with a tokenizer, since the task %s is in words, found none",
          path, wish->task->name);
  s->material.tokenizer = s->tokenizer;
  s->material.vocabulary = (uint32_t)config->vocabulary;
  if (wish->text) TRY(read_text(wish, s, error));
  if (wish->questions) {
    TRY(choice_questions_read(wish->questions, &s->questions, error));
    s->material.questions = &s->questions;
  }
  if (wish->evaluator) TRY(open_evaluator(context, wish, s, error));
done:
  if (result != ALIBI_OK) task_subject_close(s);
  return result;
}

void task_subject_close(task_subject *s)
{
  free(s->refused);
  choice_questions_free(&s->questions);
  word_list_free(&s->words);
  alibi_tokens_free(s->text);
  alibi_tokenizer_free(s->tokenizer);
  alibi_model_free(s->evaluator);
  alibi_model_free(s->model);
  *s = (task_subject){0};
}
