/* Opens a model that `alibi train --out DIR` made and lets it go on with a text.
 *
 *   cc generate.c $(pkg-config --cflags --libs alibi) -o generate && ./generate DIR "In the beginning" */
#include <stdio.h>
#include <string.h>

#include <alibi/alibi.h>

static int generate(const char *directory, const char *text, int count, alibi_error *error)
{
  alibi_context *context = NULL;
  alibi_model *model = NULL;
  alibi_tokenizer *tokenizer = NULL;
  alibi_session *session = NULL;
  alibi_session_options options;
  alibi_sampling sampling;
  uint32_t *tokens = NULL, token;
  size_t length = 0, size;
  char path[4096];
  snprintf(path, sizeof path, "%s/tokenizer.json", directory);
  alibi_session_options_init(&options);
  alibi_sampling_init(&sampling);

  int failed = alibi_context_new(NULL, &context, error) || alibi_model_open(context, directory, &model, error) ||
               alibi_tokenizer_open(path, &tokenizer, error) ||
               alibi_tokenizer_encode(tokenizer, text, strlen(text), &tokens, &length, error);
  options.capacity = (int64_t)length + count;
  failed = failed || alibi_session_new(model, &options, &session, error) ||
           alibi_session_feed(session, tokens, length, error);
  for (int i = 0; i < count && !failed; i++) {
    failed = alibi_sample(alibi_session_logits(session), alibi_tokenizer_vocabulary(tokenizer), &sampling,
                          length + i, &token, error);
    if (failed) break;
    const unsigned char *bytes = alibi_tokenizer_bytes(tokenizer, token, &size);
    fwrite(bytes, 1, size, stdout);
    failed = alibi_session_feed(session, &token, 1, error);
  }

  alibi_session_free(session);
  alibi_tokens_free(tokens);
  alibi_tokenizer_free(tokenizer);
  alibi_model_free(model);
  alibi_context_free(context);
  return failed;
}

int main(int count, char **arguments)
{
  alibi_error error;
  alibi_error_init(&error);
  if (count != 3) return fprintf(stderr, "usage: generate DIR TEXT\n"), 2;
  printf("%s", arguments[2]);
  int failed = generate(arguments[1], arguments[2], 100, &error);
  printf("\n");
  if (failed) fprintf(stderr, "%s\n", error.message);
  return failed ? 1 : 0;
}
