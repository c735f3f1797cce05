/* text/pipeline_parts.h - the stages of a tokenizer.json, written by readers of other formats for pipeline_new.
 * What is returned belongs to the caller, who puts it into the tree. */
#ifndef TEXT_PIPELINE_PARTS_H
#define TEXT_PIPELINE_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "file/json.h"

/* An entry of "added_tokens", found in the raw text; control: only where the caller allows control tokens. */
json_node *part_added_token(int64_t id, const char *content, bool control);

json_node *part_step(const char *type); /* {"type": type} */
/* A Sequence; its steps lie under `list` ("pretokenizers", "decoders", "normalizers"), in *steps to be filled. */
json_node *part_sequence(const char *list, json_node **steps);
json_node *part_replace(const char *from, const char *to); /* of a text */
json_node *part_split(const char *regex);          /* every match is a piece, and so is what lies between */
json_node *part_byte_level(bool add_prefix_space); /* as a pre-tokenizer without its regex, or a decoder */

/* TemplateProcessing: begin before a text, end after it; NULL: none. */
json_node *part_template(const char *begin, int64_t begin_id, const char *end, int64_t end_id);

#endif
