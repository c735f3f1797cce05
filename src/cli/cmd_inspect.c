/* alibi inspect: what a model is, before it is run: its configuration in our words, where its weights lie and in
 * which types, what its positions do, what it will need in memory.  No weight is read. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/model_files.h"
#include "cli/run.h"
#include "file/tensor_file.h"
#include "model/model.h"
#include "report/drawing.h"

typedef struct inspect_options {
  bool tensors, json;
} inspect_options;

static const field inspect_fields[] = {
    {.name = "tensors",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(inspect_options, tensors),
     .maximum = 1,
     .help = "list every tensor of the files: type, shape, bytes"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(inspect_options, json),
     .maximum = 1,
     .help = "print JSON, with every digit"},
};

static inspect_options options;

static void inspect_add_options(command_line *line)
{
  model_files_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(inspect_fields), &options, "");
}

/* What is lost in the rounding of fp32. */
static const double NOTHING = 0x1p-24;

typedef struct inspection {
  const char *path;
  alibi_context *context;
  alibi_model *model;
  const alibi_model_config *config;
  tensor_file *file;
  position_tables position;
  size_t bytes[TENSOR_TYPES], counts[TENSOR_TYPES], total;
} inspection;

static status count_tensors(inspection *in, alibi_error *error)
{
  status result = tensor_file_open(in->path, &in->file, error);
  for (size_t i = 0; result == ALIBI_OK && i < tensor_file_count(in->file); i++) {
    const file_tensor *t = tensor_file_at(in->file, i);
    in->bytes[t->type] += t->bytes;
    in->counts[t->type]++;
    in->total += t->bytes;
  }
  return result;
}

/* The tables of a single position: slopes do not depend on how many there are, unless an extension says so. */
static status prepare_position(inspection *in, alibi_error *error)
{
  const alibi_model_config *c = in->config;
  extension_choice own = model_config_extension(c);
  position_request request = {.shape = model_config_position_shape(c),
                              .options = c->position_options.bytes,
                              .length = (size_t)c->train_length,
                              .extension = own.extension,
                              .extension_options = own.options.bytes};
  for (size_t i = 0; i < POSITION_MAX_PARAMETERS; i++) request.parameters[i] = in->model->parameters.position[i];
  return position_prepare(in->model->method, &request, &in->position, error);
}

/* (-ln nothing - ln(1 - e^-m)) / m: all farther keys together (docs/horizon.md, with G = 0). */
static double horizon_of(double slope)
{
  return slope > 0 ? ceil((-log(NOTHING) - log(-expm1(-slope))) / slope) : INFINITY;
}

static double cache_bytes(const alibi_model_config *c) /* of a token */
{
  return (double)c->layers * (double)c->kv_heads * (double)c->head_size * 2 * sizeof(float);
}

/* ---- for people ---- */

static void print_size(const char *before, double bytes, const char *after)
{
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) bytes /= 1024, unit++;
  printf("%s%.*f %s%s", before, unit > 0 && bytes < 100 ? 1 : 0, bytes, units[unit], after);
}

/* Settings that are not what a new configuration has; initial NULL: all that say something. */
static void print_fields(field_table table, const void *values, const void *initial)
{
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    char text[ALIBI_POSITION_OPTIONS_SIZE];
    bool size = strcmp(f->name, "kv_heads") == 0 || strcmp(f->name, "head_size") == 0 ||
                strcmp(f->name, "feed_forward") == 0;
    if (initial && !size && field_equal(f, values, initial)) continue;
    field_get_text(f, values, text, sizeof text);
    if (!text[0]) continue;
    printf("  %-22s %.200s\n", f->name, text);
  }
}

static void print_configuration(const inspection *in)
{
  alibi_model_config initial;
  alibi_model_config_init(&initial);
  initial.vocabulary = initial.layers = initial.width = initial.heads = initial.train_length =
      -1; /* always told */
  printf("\nconfiguration (but for what is as alibi train --help has it)\n");
  print_fields(model_config_fields(), in->config, &initial);
}

static void print_positions(const inspection *in)
{
  const position_method *method = in->model->method;
  const position_plan *plan = &in->position.plan;
  extension_choice own = model_config_extension(in->config);
  position_shape shape = model_config_position_shape(in->config);
  size_t limit = position_method_limit(method, &shape, in->config->position_options.bytes, own.extension);
  printf("\npositions: %s\n", method->title);
  print_fields(method->fields, in->config->position_options.bytes, NULL);
  if (own.extension) {
    printf("  extended by %s:\n", own.extension->name);
    print_fields(own.extension->fields, own.options.bytes, NULL);
  }
  if (limit < SIZE_MAX) printf("  %-22s %zu tokens: there are no positions beyond\n", "longest text", limit);
  else
    printf("  %-22s no end: positions go on beyond the %" PRId64 " of its training\n", "longest text",
           in->config->train_length);
  if (!plan->slopes) return;
  printf("  head          slope  horizon\n");
  for (size_t h = 0; h < (size_t)in->config->heads; h++)
    printf("  %-5zu %13.9g  %7.0f\n", h, (double)plan->slopes[h], horizon_of((double)plan->slopes[h]));
  printf("  horizon: tokens, beyond which all keys that fit a query no better than its own weigh less than 2^-24 "
         "of it;\n"
         "  alibi horizon tells what holds for every text\n");
}

static void print_memory(const inspection *in)
{
  const alibi_model_config *c = in->config;
  double token = cache_bytes(c);
  char count[64];
  number_grouped((double)alibi_model_parameter_count(in->model), count, sizeof count);
  printf("\nmemory: %s parameters\n", count);
  for (size_t t = 0; t < TENSOR_TYPES; t++) {
    if (in->counts[t] == 0) continue;
    printf("  %-6s %6zu tensors", tensor_type_name((tensor_type)t), in->counts[t]);
    print_size(", ", (double)in->bytes[t], "\n");
  }
  if (!c->causal) return;
  print_size("  keys and values ", token, " a token");
  print_size(", ", token * (double)c->train_length, "");
  printf(" for the %" PRId64 " of its length\n", c->train_length);
}

static void print_tensors(const inspection *in)
{
  printf("\ntensors\n");
  for (size_t i = 0; i < tensor_file_count(in->file); i++) {
    const file_tensor *t = tensor_file_at(in->file, i);
    printf("  %-48s %-5s [", t->name, tensor_type_name(t->type));
    for (int d = 0; d < t->dimensions; d++) printf("%s%zu", d ? ", " : "", t->shape[d]);
    printf("] %zu\n", t->bytes);
  }
}

/* In lines of words. */
static void print_note(const char *note)
{
  enum { COLUMNS = 110 };
  for (const char *indent = "  "; *note; indent = "    ") {
    size_t room = COLUMNS - strlen(indent), size = strlen(note);
    if (size > room) {
      size = room;
      while (size > 0 && note[size] != ' ') size--;
      if (size == 0) size = strcspn(note, " "); /* a word that is longer than a line */
    }
    printf("%s%.*s\n", indent, (int)size, note);
    note += size + (note[size] == ' ');
  }
}

static void print_text(const inspection *in)
{
  printf("%s: %s, %s", in->path, alibi_model_family(in->model), tensor_file_format(in->file));
  print_size(", ", (double)in->total, "\n");
  print_configuration(in);
  print_positions(in);
  print_memory(in);
  if (alibi_model_note_count(in->model) > 0) printf("\nnotes\n");
  for (size_t i = 0; i < alibi_model_note_count(in->model); i++) print_note(alibi_model_note(in->model, i));
  if (options.tensors) print_tensors(in);
}

/* ---- for programs ---- */

static json_node *slopes_node(const inspection *in)
{
  json_node *list = node_new_array();
  const float *slopes = in->position.plan.slopes;
  for (size_t h = 0; h < (size_t)in->config->heads; h++) {
    json_node *head = node_new_object();
    node_set_number(head, "slope", (double)slopes[h]);
    node_set_number(head, "horizon", horizon_of((double)slopes[h]));
    node_append(list, head);
  }
  return list;
}

static json_node *types_node(const inspection *in)
{
  json_node *types = node_new_object();
  for (size_t t = 0; t < TENSOR_TYPES; t++) {
    if (in->counts[t] == 0) continue;
    json_node *type = node_new_object();
    node_set_integer(type, "tensors", (int64_t)in->counts[t]);
    node_set_integer(type, "bytes", (int64_t)in->bytes[t]);
    node_set(types, tensor_type_name((tensor_type)t), type);
  }
  return types;
}

static json_node *tensors_node(const inspection *in)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < tensor_file_count(in->file); i++) {
    const file_tensor *t = tensor_file_at(in->file, i);
    json_node *tensor = node_new_object(), *shape = node_new_array();
    node_set_text(tensor, "name", t->name);
    node_set_text(tensor, "type", tensor_type_name(t->type));
    for (int d = 0; d < t->dimensions; d++) node_append_integer(shape, (int64_t)t->shape[d]);
    node_set(tensor, "shape", shape);
    node_set_integer(tensor, "bytes", (int64_t)t->bytes);
    node_set_text(tensor, "file", tensor_file_path(in->file, i));
    node_append(list, tensor);
  }
  return list;
}

static status print_json(const inspection *in, alibi_error *error)
{
  json_node *root = node_new_object(), *notes = node_new_array();
  node_set_integer(root, "schema", 1);
  node_set_text(root, "path", in->path);
  node_set_text(root, "family", alibi_model_family(in->model));
  node_set_text(root, "format", tensor_file_format(in->file));
  node_set_integer(root, "parameters", alibi_model_parameter_count(in->model));
  node_set_integer(root, "bytes", (int64_t)in->total);
  node_set(root, "types", types_node(in));
  node_set(root, "configuration", model_config_node(in->config));
  if (in->position.plan.slopes) node_set(root, "heads", slopes_node(in));
  if (in->config->causal) node_set_number(root, "cache_bytes_per_token", cache_bytes(in->config));
  for (size_t i = 0; i < alibi_model_note_count(in->model); i++)
    node_append_text(notes, alibi_model_note(in->model, i));
  node_set(root, "notes", notes);
  if (options.tensors) node_set(root, "tensors", tensors_node(in));
  return print_node(root, error);
}

static status inspect_run(command_line *line, alibi_error *error)
{
  inspection in = {0};
  status result;
  if (line->operand_count != 1)
    RAISE(error, ALIBI_INVALID, "inspect: expected one model, found %zu", line->operand_count);
  in.path = line->operands[0];
  TRY(cli_context(&in.context, error));
  TRY(model_files_open(in.context, in.path, &in.model, error));
  in.config = alibi_model_get_config(in.model);
  TRY(count_tensors(&in, error));
  TRY(prepare_position(&in, error));
  if (options.json) TRY(print_json(&in, error));
  else print_text(&in);
done:
  position_release(&in.position);
  tensor_file_close(in.file);
  alibi_model_free(in.model);
  cli_context_free(in.context);
  return result;
}

const command command_inspect = {
    .name = "inspect",
    .summary = "Say what a model is: configuration, tensors, positions, memory.",
    .operands = "MODEL",
    .details = "MODEL: a directory of alibi train; one as published for transformers (config.json with "
               "safetensors or PyTorch files); or a GGUF file. Keys of its configuration that change no number, "
               "and those that --ignore-config takes for absent, are told under notes.",
    .options = inspect_add_options,
    .run = inspect_run,
};
