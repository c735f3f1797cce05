/* Opens damaged files, and right ones beside them, and compares the sentence with what was expected: a line of
 * FOLDER/expected.tsv for each, its name, a tab, and a part of the sentence, nothing for a file that is right.
 * usage: open_malformed FOLDER        (scripts/make_malformed_<format>.py writes such folders) */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "alibi/tokenizer.h"
#include "base/system.h"
#include "file/tensor_file.h"

static bool is_one_sentence(const char *message)
{
  for (const unsigned char *c = (const unsigned char *)message; *c; c++)
    if (*c < 0x20 || *c == 0x7F) return false;
  return message[0] != '\0' && strlen(message) < 600;
}

static bool open_one(const char *path, const char *expected)
{
  alibi_error error;
  alibi_error_init(&error);
  tensor_file *file = NULL;
  alibi_tokenizer *tokenizer = NULL;
  const char *kind = strrchr(path, '.');
  bool is_tokenizer = kind && strcmp(kind, ".model") == 0; /* SentencePiece's; else tensors */
  alibi_status result =
      is_tokenizer ? alibi_tokenizer_open(path, &tokenizer, &error) : tensor_file_open(path, &file, &error);
  bool good = expected[0] ? result == ALIBI_BAD_INPUT && !file && !tokenizer && strstr(error.message, expected) &&
                                strncmp(error.message, path, strlen(path)) == 0 && is_one_sentence(error.message)
                          : result == ALIBI_OK;
  if (!good) printf("%s: expected \"%s\", found status %d, \"%s\"\n", path, expected, (int)result, error.message);
  tensor_file_close(file);
  alibi_tokenizer_free(tokenizer);
  return good;
}

int main(int count, char **arguments)
{
  char list[4096], line[8192], path[8192 + 4096];
  if (count != 2) return 2;
  snprintf(list, sizeof list, "%s/expected.tsv", arguments[1]);
  FILE *expected = fopen(list, "r");
  if (!expected) return 2;
  int refused = 0, right = 0, wrong = 0;
  double longest = 0;
  while (fgets(line, sizeof line, expected)) {
    line[strcspn(line, "\n")] = '\0';
    char *sentence = strchr(line, '\t');
    if (!sentence) return 2;
    *sentence++ = '\0';
    snprintf(path, sizeof path, "%s/%s", arguments[1], line);
    double begin = system_seconds();
    if (!open_one(path, sentence)) wrong++;
    else if (sentence[0]) refused++;
    else right++;
    double seconds = system_seconds() - begin;
    if (seconds > longest) longest = seconds;
  }
  fclose(expected);
  printf("%d files refused, %d opened, %d not as expected; the longest took %.3f s\n", refused, right, wrong,
         longest);
  return wrong || refused < 40;
}
