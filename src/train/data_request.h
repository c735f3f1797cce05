/* train/data_request.h - is a folder of data the one that is asked for now? */
#ifndef TRAIN_DATA_REQUEST_H
#define TRAIN_DATA_REQUEST_H

#include "train/data_build.h"

/* What data.json says of its making.  given_tokenizer: its fingerprint, 0 where one is trained. */
json_node *data_request_options(const data_build_request *request, uint64_t given_tokenizer);
json_node *data_request_sources(const text_list *texts);

/* ALIBI_INVALID where the catalogue at `root` says something else. */
status data_request_compare(const char *folder, const json_node *root, const json_node *options,
                            const json_node *sources, alibi_error *error);

#endif
