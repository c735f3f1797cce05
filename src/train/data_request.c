/* A request as JSON.  What does not change the shards (threads, the way to the folder) is not in it. */
#include "train/data_request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fingerprint.h"

json_node *data_request_options(const data_build_request *request, uint64_t given_tokenizer)
{
  static const char *const formats[] = {"auto", "text", "jsonl"};
  json_node *options = node_new_object();
  char text[FINGERPRINT_TEXT_SIZE];
  fingerprint_to_text(given_tokenizer, text);
  node_set_text(options, "tokenizer", given_tokenizer ? text : NULL);
  if (given_tokenizer) {
    node_set_null(options, "vocabulary");
    node_set_null(options, "sample_mb");
  } else {
    node_set_integer(options, "vocabulary", request->vocabulary);
    node_set_number(options, "sample_mb", (double)request->sample_bytes / 1e6);
  }
  node_set_number(options, "held_out", request->held_out);
  node_set_text(options, "format", formats[request->format]);
  node_set_text(options, "field", request->name);
  node_set_boolean(options, "skip_bad_lines", request->leave_out_bad);
  node_set_integer(options, "shard_tokens", (int64_t)request->shard_tokens);
  return options;
}

json_node *data_request_sources(const text_list *texts)
{
  json_node *sources = node_new_array();
  for (size_t i = 0; i < texts->count; i++) {
    json_node *source = node_new_object();
    node_set_text(source, "path", texts->files[i].path);
    node_set_integer(source, "bytes", (int64_t)texts->files[i].bytes);
    node_set_text(source, "split", texts->files[i].held_out ? "valid" : "train");
    node_append(sources, source);
  }
  return sources;
}

static status differs(const char *folder, const char *key, const json_node *then, const json_node *now,
                      alibi_error *error)
{
  char *was = node_to_text(then), *is = node_to_text(now), option[64];
  field_option("", key, option, sizeof option);
  bool same = was && is && strcmp(was, is) == 0;
  status result = ALIBI_OK;
  if (!same)
    result = fail(error, ALIBI_INVALID,
                  "%s: holds data that was made with %s %s, not %s: repeat the options, or name another --out",
                  folder, option, was ? was : "?", is ? is : "?");
  free(was);
  free(is);
  return result;
}

status data_request_compare(const char *folder, const json_node *root, const json_node *options,
                            const json_node *sources, alibi_error *error)
{
  const json_node *then = node_get(root, "options"), *texts = node_get(root, "sources");
  for (size_t i = 0; i < node_count(options); i++) {
    const char *key;
    const json_node *value = node_member(options, i, &key);
    status result = differs(folder, key, node_get(then, key), value, error);
    if (result != ALIBI_OK) return result;
  }
  if (node_count(texts) != node_count(sources))
    return fail(error, ALIBI_INVALID, "%s: holds data of %zu texts, not %zu: repeat them, or name another --out",
                folder, node_count(texts), node_count(sources));
  for (size_t i = 0; i < node_count(sources); i++) {
    const json_node *was = node_at(texts, i), *is = node_at(sources, i);
    const char *path = node_text(node_get(is, "path"), ""), *then_path = node_text(node_get(was, "path"), "");
    int64_t bytes = node_integer(node_get(is, "bytes"), 0), then_bytes = node_integer(node_get(was, "bytes"), 0);
    if (strcmp(path, then_path) != 0 || bytes != then_bytes ||
        strcmp(node_text(node_get(is, "split"), ""), node_text(node_get(was, "split"), "")) != 0)
      return fail(error, ALIBI_INVALID,
                  "%s: holds data of other texts: number %zu was %s (%" PRId64 " bytes), is %s (%" PRId64
                  " bytes); name another --out",
                  folder, i + 1, then_path, then_bytes, path, bytes);
  }
  return ALIBI_OK;
}
