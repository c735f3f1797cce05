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

/* The tokenizer of the model at `path`: tokenizer.json or tokenizer.model of its directory, or the GGUF file
 * itself.  Models may have rows for more tokens than there are, never for fewer.  required false: a model that was
 * trained on ids that are no text has none, *tokenizer stays NULL. */
alibi_status model_files_open_tokenizer(const char *path, const alibi_model *model, bool required,
                                        alibi_tokenizer **tokenizer, alibi_error *error);

#endif
