/* The words of a tokenizer.json for what other formats say in theirs. */
#include "text/pipeline_parts.h"

json_node *part_added_token(int64_t id, const char *content, bool control)
{
  json_node *token = node_new_object();
  node_set_integer(token, "id", id);
  node_set_text(token, "content", content);
  node_set_boolean(token, "single_word", false);
  node_set_boolean(token, "lstrip", false);
  node_set_boolean(token, "rstrip", false);
  node_set_boolean(token, "normalized", false);
  node_set_boolean(token, "special", control);
  return token;
}

json_node *part_step(const char *type)
{
  json_node *step = node_new_object();
  node_set_text(step, "type", type);
  return step;
}

json_node *part_sequence(const char *list, json_node **steps)
{
  json_node *sequence = part_step("Sequence");
  *steps = node_new_array();
  node_set(sequence, list, *steps);
  return sequence;
}

static json_node *pattern(const char *key, const char *text)
{
  json_node *node = node_new_object();
  node_set_text(node, key, text);
  return node;
}

json_node *part_replace(const char *from, const char *to)
{
  json_node *step = part_step("Replace");
  node_set(step, "pattern", pattern("String", from));
  node_set_text(step, "content", to);
  return step;
}

json_node *part_split(const char *regex)
{
  json_node *step = part_step("Split");
  node_set(step, "pattern", pattern("Regex", regex));
  node_set_text(step, "behavior", "Isolated");
  node_set_boolean(step, "invert", false);
  return step;
}

json_node *part_byte_level(bool add_prefix_space)
{
  json_node *step = part_step("ByteLevel");
  node_set_boolean(step, "add_prefix_space", add_prefix_space);
  node_set_boolean(step, "trim_offsets", true);
  node_set_boolean(step, "use_regex", false);
  return step;
}

static json_node *template_entry(const char *key, const char *id, int64_t type)
{
  json_node *entry = node_new_object(), *value = node_new_object();
  node_set_text(value, "id", id);
  node_set_integer(value, "type_id", type);
  node_set(entry, key, value);
  return entry;
}

static void add_token(json_node *tokens, const char *content, int64_t id)
{
  if (node_get(tokens, content)) return;
  json_node *token = node_new_object(), *ids = node_new_array(), *names = node_new_array();
  node_append_integer(ids, id);
  node_append_text(names, content);
  node_set_text(token, "id", content);
  node_set(token, "ids", ids);
  node_set(token, "tokens", names);
  node_set(tokens, content, token);
}

json_node *part_template(const char *begin, int64_t begin_id, const char *end, int64_t end_id)
{
  json_node *step = part_step("TemplateProcessing"), *tokens = node_new_object();
  json_node *single = node_new_array(), *pair = node_new_array();
  if (begin) {
    node_append(single, template_entry("SpecialToken", begin, 0));
    node_append(pair, template_entry("SpecialToken", begin, 0));
    add_token(tokens, begin, begin_id);
  }
  node_append(single, template_entry("Sequence", "A", 0));
  node_append(pair, template_entry("Sequence", "A", 0));
  node_append(pair, template_entry("Sequence", "B", 1));
  if (end) {
    node_append(single, template_entry("SpecialToken", end, 0));
    node_append(pair, template_entry("SpecialToken", end, 1));
    add_token(tokens, end, end_id);
  }
  node_set(step, "single", single);
  node_set(step, "pair", pair);
  node_set(step, "special_tokens", tokens);
  return step;
}
