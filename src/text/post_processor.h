/* text/post_processor.h - what a tokenizer puts around a text: control tokens, by a template. */
#ifndef TEXT_POST_PROCESSOR_H
#define TEXT_POST_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "text/token_model.h"

typedef struct post_item {
  bool text;   /* the ids of the text */
  uint32_t id; /* else this one */
} post_item;

typedef struct post_processor { /* start from {0}; free(items) */
  post_item *items;
  size_t count, capacity;
} post_processor;

/* node: "post_processor" of a tokenizer.json, or null (the text alone).  Ids are below `vocabulary`. */
status post_processor_read(const json_node *node, const char *path, uint32_t vocabulary, post_processor *p,
                           alibi_error *error);

/* The ids of a text become those of the template. */
status post_processor_run(const post_processor *p, bool add_special, token_list *ids, alibi_error *error);

#endif
