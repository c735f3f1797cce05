/* cli/model_files.h - the models that a command is given, ours or public ones: how they are opened, and the
 * tokenizer that belongs to each. */
#ifndef CLI_MODEL_FILES_H
#define CLI_MODEL_FILES_H

#include "alibi/model.h"
#include "alibi/tokenizer.h"
#include "cli/command.h"

/* --ignore-config, --numerics, --activations: of public models; how model_files_open then opens. */
void model_files_add_options(command_line *line);

alibi_status model_files_open(alibi_context *context, const char *path, alibi_model **model, alibi_error *error);

/* alibi_model_tokenizer_open; required: none there is an error. */
alibi_status model_files_open_tokenizer(const char *path, const alibi_model *model, bool required,
                                        alibi_tokenizer **tokenizer, alibi_error *error);

/* alibi_tokenizer_encode_with, which a signal ends at once, the program with it. */
alibi_status model_files_encode(const alibi_tokenizer *tokenizer, const alibi_encode_options *encode,
                                const void *text, size_t size, uint32_t **tokens, size_t *count,
                                alibi_error *error);

/* What came of running the model at `path`: where its weights are to blame, the sentence names it. */
alibi_status model_files_say(const char *path, alibi_status result, alibi_error *error);

/* What ends a text of the model at `path`: its tokenizer's end token, and those that generation_config.json names.
 */
enum { END_TOKENS_MOST = 32 };
typedef struct end_tokens {
  int64_t ids[END_TOKENS_MOST];
  size_t count;
} end_tokens;

alibi_status model_files_read_ends(const char *path, const alibi_tokenizer *tokenizer, end_tokens *ends,
                                   alibi_error *error);
bool end_tokens_have(const end_tokens *ends, uint32_t token);

#endif
