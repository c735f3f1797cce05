/* text/pipeline.h - a tokenizer as its tokenizer.json describes it, stage by stage:
 *   added tokens that want the raw text | normalizer | added tokens that want it normalized | pre-tokenizer |
 *   model (text/token_model.h) | post-processor;   back: spellings | decoder.
 * The stages are data: a list of steps that was parsed from JSON, whoever wrote that JSON (a file, or the reader
 * of another format, which describes itself in the same words). */
#ifndef TEXT_PIPELINE_H
#define TEXT_PIPELINE_H

#include "alibi/tokenizer.h"
#include "base/error.h"
#include "file/json.h"
#include "text/token_model.h"

typedef struct pipeline pipeline;

/* `parts`: an object with the keys of a tokenizer.json: added_tokens, normalizer, pre_tokenizer, post_processor,
 * decoder (absent or null: none); "model" in it is not looked at.  Copied.  `path` names the file in errors.
 * Takes over `state` of `model` (also when it fails).  The tokenizer's kind is "pipeline".
 * Beyond the words of the library: {"type": "Precompiled", "precompiled_charsmap": base64, "longest": true} takes
 * the longest match at every place, as SentencePiece does, not the first one of a grapheme. */
status pipeline_new(const json_node *parts, const char *path, const token_model *model, void *state,
                    alibi_tokenizer **made, alibi_error *error);

/* "BPE", or whatever its model is called in a tokenizer.json; state: as below. */
const char *pipeline_model_name(const void *state);
/* The whole as a tokenizer.json; state: that of a tokenizer whose kind is "pipeline". */
status pipeline_describe(const void *state, json_node **root, alibi_error *error);

/* What a file beside the tokenizer (or in it) says about its control tokens; -1: no word of it.  After
 * pipeline_new, before anybody else has the tokenizer. */
void pipeline_set_special(alibi_tokenizer *made, alibi_special special, int64_t id);

#endif
