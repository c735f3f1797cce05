/* What is left of a training: the model and train.json, every setting and what came of it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/directory.h"
#include "base/system.h"
#include "cli/train_command.h"
#include "model/config.h"

extern const command command_train;

/* In the order in which they are moved into place. */
static const char *const names[] = {"tokenizer.json", "model.safetensors", "config.json", "train.json"};

alibi_model *training_model(const training *t)
{
  return t->best ? t->best : alibi_trainer_model(t->trainer);
}

static json_node *losses_node(const run_state *s)
{
  json_node *node = node_new_object(), *steps = node_new_array(), *losses = node_new_array();
  for (int64_t point = 0; point * s->stride < s->steps; point++) {
    int64_t last = (point + 1) * s->stride;
    node_append_integer(steps, last < s->steps ? last : s->steps);
    node_append_number(losses, s->losses[point]);
  }
  node_set_integer(node, "mean_of_steps", s->stride);
  node_set(node, "step", steps);
  node_set(node, "loss", losses);
  return node;
}

static json_node *test_node(const alibi_evaluate_result *test)
{
  json_node *node = node_new_object();
  node_set_text(node, "protocol", alibi_protocol_name(ALIBI_SLIDING));
  node_set_integer(node, "window", test->window);
  node_set_integer(node, "stride", test->stride);
  node_set_integer(node, "tokens", test->tokens);
  node_set_number(node, "perplexity", test->perplexity);
  node_set_number(node, "standard_error", test->standard_error);
  node_set_number(node, "bits_per_byte", test->bits_per_byte);
  return node;
}

static void set_bytes(json_node *node, const char *key, size_t bytes, bool known)
{
  if (known) node_set_integer(node, key, (int64_t)bytes);
  else node_set_null(node, key);
}

static void set_data(const training *t, json_node *root)
{
  const train_data *d = &t->data;
  json_node *texts = node_new_array();
  for (size_t i = 0; i < t->line->operand_count; i++) node_append_text(texts, t->line->operands[i]);
  node_set(root, "texts", texts);
  node_set_text(root, "valid", t->valid_path);
  if (!t->valid_path && !d->in_files) node_set_number(root, "held_out", t->held_out);
  node_set_text(root, "from", t->from_path);
  node_set_text(root, "tokenizer", d->tokenizer ? alibi_tokenizer_kind(d->tokenizer) : NULL);
  set_bytes(root, "train_bytes", d->train_bytes, !d->in_files);
  node_set_integer(root, "train_tokens", (int64_t)d->train_count);
  set_bytes(root, "valid_bytes", d->valid_bytes, !d->in_files);
  node_set_integer(root, "valid_tokens", (int64_t)d->valid_count);
}

static void set_outcome(const training *t, json_node *root)
{
  const run_state *s = &t->state;
  node_set_integer(root, "steps_done", s->steps);
  node_set_boolean(root, "finished", s->steps == t->options.steps || s->stopped_early);
  if (s->best_step) node_set_integer(root, "best_step", s->best_step);
  node_set_integer(root, "tokens_done", s->tokens);
  node_set_number(root, "seconds", s->seconds);
  node_set_number(root, "tokens_per_second", s->seconds > 0 ? (double)s->tokens / s->seconds : 0);
  node_set_integer(root, "peak_memory_bytes", (int64_t)system_peak_memory());
  node_set_integer(root, "threads", alibi_context_threads(t->context));
  node_set_text(root, "instruction_set", alibi_context_isa(t->context));
  node_set(root, "losses", losses_node(s));
  if (t->test.size) node_set(root, "test", test_node(&t->test));
  else node_set_null(root, "test");
}

static status write_record(const training *t, const char *folder, alibi_error *error)
{
  char *path = path_join(folder, "train.json"), *text = command_line_text(t->line, &command_train);
  json_node *root = node_new_object(), *options = node_new_object();
  const alibi_model *model = training_model(t);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_text(root, "command", text);
  set_data(t, root);
  node_set(root, "model", model_config_node(alibi_model_get_config(model)));
  node_set_integer(root, "parameters", alibi_model_parameter_count(model));
  node_set_fields(options, train_option_fields(), &t->options);
  node_set(root, "training", options);
  node_set(root, "settings", node_copy(t->settings));
  set_outcome(t, root);
  status result =
      path ? node_write_file(root, path, error) : fail(error, ALIBI_FAILED, "not enough memory for a path");
  node_free(root);
  free(text);
  free(path);
  return result;
}

status train_write_record(const training *t, alibi_error *error)
{
  return write_record(t, t->out, error);
}

static status move_into_place(const training *t, const char *folder, const char *name, alibi_error *error)
{
  char *from = path_join(folder, name), *to = path_join(t->out, name);
  status result =
      from && to ? file_move(from, to, error) : fail(error, ALIBI_FAILED, "not enough memory for a path");
  free(to);
  free(from);
  return result;
}

/* Ids of which nobody knows the text: the tokenizer of the model that was there before is none of this one. */
static void remove_tokenizer(const training *t)
{
  char *path = path_join(t->out, names[0]);
  if (path) remove(path);
  free(path);
}

/* A full disk costs nothing that was there. */
status train_write_model(const training *t, alibi_error *error)
{
  const size_t count = sizeof names / sizeof names[0], first = t->data.tokenizer ? 0 : 1;
  char *folder = path_join(t->out, ".new"), *path = folder ? path_join(folder, names[0]) : NULL;
  status result;
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  TRY(directory_remove(folder, error)); /* of a training that was killed here */
  TRY(directory_make(folder, error));
  if (t->data.tokenizer) TRY(alibi_tokenizer_save(t->data.tokenizer, path, error));
  TRY(alibi_model_save(training_model(t), folder, error));
  TRY(write_record(t, folder, error));
  for (size_t i = first; i < count; i++) TRY(move_into_place(t, folder, names[i], error));
  if (!t->data.tokenizer) remove_tokenizer(t);
done:
  if (folder) directory_remove(folder, NULL);
  free(path);
  free(folder);
  return result;
}
