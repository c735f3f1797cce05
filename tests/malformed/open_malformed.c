/* Opens damaged files and models, and right ones beside them, and compares the sentence with what was expected: a
 * line of FOLDER/expected.tsv for each, its name, a tab, and a part of the sentence, nothing for right ones.
 * usage: open_malformed FOLDER        (scripts/make_malformed_<format>.py writes such folders) */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "alibi/model.h"
#include "alibi/tokenizer.h"
#include "base/system.h"
#include "file/tensor_file.h"

static bool is_one_sentence(const char *message)
{
  for (const unsigned char *c = (const unsigned char *)message; *c; c++)
    if (*c < 0x20 || *c == 0x7F) return false;
  return message[0] != '\0' && strlen(message) < 600;
}

static bool ends_with(const char *text, const char *end)
{
  size_t size = strlen(text), tail = strlen(end);
  return size >= tail && strcmp(text + size - tail, end) == 0;
}

static bool is_model(const char *path)
{
  char config[8192 + 4096 + 16];
  snprintf(config, sizeof config, "%s/config.json", path);
  return path_exists(config);
}

/* A directory with a configuration is a model; a file may be a tokenizer, by its name; others are tensors. */
static bool open_one(alibi_context *context, const char *path, const char *expected)
{
  alibi_error error;
  alibi_error_init(&error);
  tensor_file *file = NULL;
  alibi_tokenizer *tokenizer = NULL;
  alibi_model *model = NULL;
  alibi_status result;
  if (is_model(path)) result = alibi_model_open(context, path, &model, &error);
  else if (ends_with(path, ".model") || ends_with(path, ".json") || ends_with(path, ".vocabulary"))
    result = alibi_tokenizer_open(path, &tokenizer, &error);
  else result = tensor_file_open(path, &file, &error);
  bool good = expected[0] ? result == ALIBI_BAD_INPUT && !file && !tokenizer && !model &&
                                strstr(error.message, expected) &&
                                strncmp(error.message, path, strlen(path)) == 0 && is_one_sentence(error.message)
                          : result == ALIBI_OK;
  if (!good) printf("%s: expected \"%s\", found status %d, \"%s\"\n", path, expected, (int)result, error.message);
  tensor_file_close(file);
  alibi_tokenizer_free(tokenizer);
  alibi_model_free(model);
  return good;
}

int main(int count, char **arguments)
{
  char list[4096], line[8192], path[8192 + 4096];
  if (count != 2) return 2;
  snprintf(list, sizeof list, "%s/expected.tsv", arguments[1]);
  FILE *expected = fopen(list, "r");
  alibi_context *context;
  if (!expected || alibi_context_new(NULL, &context, NULL) != ALIBI_OK) return 2;
  int refused = 0, right = 0, wrong = 0;
  double longest = 0;
  char longest_name[sizeof line] = "";
  while (fgets(line, sizeof line, expected)) {
    line[strcspn(line, "\n")] = '\0';
    char *sentence = strchr(line, '\t');
    if (!sentence) return 2;
    *sentence++ = '\0';
    snprintf(path, sizeof path, "%s/%s", arguments[1], line);
    double begin = system_seconds();
    if (!open_one(context, path, sentence)) wrong++;
    else if (sentence[0]) refused++;
    else right++;
    double seconds = system_seconds() - begin;
    if (seconds <= longest) continue;
    longest = seconds;
    snprintf(longest_name, sizeof longest_name, "%s", line);
  }
  fclose(expected);
  alibi_context_free(context);
  printf("%d refused, %d opened, %d not as expected; the longest, %s, took %.3f s\n", refused, right, wrong,
         longest_name, longest);
  return wrong || refused < 40;
}
