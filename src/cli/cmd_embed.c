/* alibi embed: texts as vectors, one a file, of any length. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alibi/embed.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/json_output.h"
#include "cli/model_files.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "model/config.h"

typedef struct embed_options {
  double tolerance;
  int64_t most;
  bool normalise, similarity;
} embed_options;

static const field embed_fields[] = {
    {.name = "most",
     .kind = FIELD_INTEGER,
     .offset = offsetof(embed_options, most),
     .maximum = 1 << 30,
     .help = "read so many tokens of a text at most, with those that the tokenizer puts around it; 0: all"},
    {.name = "tolerance",
     .kind = FIELD_REAL,
     .offset = offsetof(embed_options, tolerance),
     .maximum = 0.999,
     .initial = 0x1p-24,
     .initial_text = "2^-24",
     .help = "of each row's attention at most this share is left out, by proof; 0: none"},
    {.name = "normalise",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(embed_options, normalise),
     .maximum = 1,
     .initial = 1,
     .help = "vectors of length 1"},
    {.name = "similarity",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(embed_options, similarity),
     .maximum = 1,
     .help = "print the cosines of all pairs of texts instead of the vectors"},
};

static embed_options options;
static text_values texts;

static void embed_add_options(command_line *line)
{
  texts = (text_values){0};
  command_add_texts(line, "text", "FILE...", &texts, true, "the texts, a vector each");
  model_files_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(embed_fields), &options, "");
}

typedef struct embedding {
  alibi_context *context;
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  size_t width;
  float *vectors; /* [texts, width] */
} embedding;

/* At most so many as asked for, by cutting the text: what the tokenizer puts around it, such as the [SEP] that an
 * encoder was trained with, stays. */
static status keep_most(const embedding *e, const mapped_file *file, uint32_t *tokens, size_t *count,
                        alibi_error *error)
{
  uint32_t *text = NULL;
  size_t most = (size_t)options.most, size, before = 0;
  status result = ALIBI_OK;
  if (most == 0 || *count <= most) return ALIBI_OK;
  TRY(model_files_encode(e->tokenizer, NULL, file->data, file->size, &text, &size, error));
  if (size > *count) size = *count;
  while (before + size < *count && memcmp(tokens + before, text, size * sizeof *text) != 0) before++;
  size_t around = *count - size;
  if (around >= most)
    RAISE(error, ALIBI_INVALID,
          "--most: expected more than the %zu token%s that the tokenizer puts around a text, found %zu", around,
          around == 1 ? "" : "s", most);
  memmove(tokens + before + most - around, tokens + before + size, (around - before) * sizeof *tokens);
  *count = most;
done:
  alibi_tokens_free(text);
  return result;
}

static status check_length(const embedding *e, const char *path, size_t count, alibi_error *error)
{
  const alibi_model_config *config = alibi_model_get_config(e->model);
  position_shape shape = model_config_position_shape(config);
  size_t limit = position_method_limit(model_config_method(config), &shape, config->position_options.bytes,
                                       model_config_extension(config).extension);
  if (count <= limit) return ALIBI_OK;
  return fail(
      error, ALIBI_INVALID,
      "%s: expected at most the %zu tokens that the model has positions for, found %zu: --most %zu reads the "
      "first of them",
      path, limit, count, limit);
}

/* Where memory is out, what helps. */
static status say(const char *path, size_t count, status result, alibi_error *error)
{
  alibi_error found = *error;
  if (result != ALIBI_FAILED) return result;
  return fail(error, result, "%s, %zu tokens: %s; --most reads fewer of them", path, count, found.message);
}

/* *count: tokens that were read. */
static status embed_text(embedding *e, const char *model, const char *path, float *vector, size_t *count,
                         alibi_error *error)
{
  mapped_file file = {0};
  uint32_t *tokens = NULL;
  alibi_encode_options encode;
  alibi_embed_options embed;
  status result;
  alibi_encode_options_init(&encode);
  encode.add_special = 1;
  alibi_embed_options_init(&embed);
  embed.tolerance = options.tolerance;
  embed.normalise = options.normalise;
  TRY(mapped_file_open(path, &file, error));
  TRY(model_files_encode(e->tokenizer, &encode, file.data, file.size, &tokens, count, error));
  if (file.size == 0 || *count == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a text of at least one token, found none", path);
  TRY(keep_most(e, &file, tokens, count, error));
  TRY(check_length(e, path, *count, error));
  cli_work_alone(); /* memory of a long text alone may take seconds */
  result = alibi_embed(e->model, tokens, *count, &embed, vector, error);
  cli_work_done();
  result = say(path, *count, model_files_say(model, result, error), error);
done:
  alibi_tokens_free(tokens);
  if (file.data) mapped_file_close(&file);
  return result;
}

/* A line of JSON a text, as it is done. */
static status print_vector(const embedding *e, const char *path, size_t count, const float *vector,
                           alibi_error *error)
{
  json_node *line = node_new_object(), *list = node_new_array();
  node_set_text(line, "text", path);
  node_set_integer(line, "tokens", (int64_t)count);
  for (size_t c = 0; c < e->width; c++) node_append_number(list, (double)vector[c]);
  node_set(line, "embedding", list);
  return print_node(line, error);
}

static double cosine(const embedding *e, size_t i, size_t j)
{
  const float *a = e->vectors + i * e->width, *b = e->vectors + j * e->width;
  double product = 0, aa = 0, bb = 0;
  for (size_t c = 0; c < e->width; c++) {
    product += (double)a[c] * (double)b[c];
    aa += (double)a[c] * (double)a[c];
    bb += (double)b[c] * (double)b[c];
  }
  return product / sqrt(aa * bb);
}

static void print_similarity(const embedding *e)
{
  for (size_t i = 0; i < texts.count; i++) {
    for (size_t j = 0; j < texts.count; j++) printf(" %8.5f", cosine(e, i, j));
    printf("  %s\n", texts.items[i]);
  }
}

static status embed_run(command_line *line, alibi_error *error)
{
  embedding e = {0};
  status result;
  if (line->operand_count != 1)
    RAISE(error, ALIBI_INVALID, "embed: expected one model, found %zu", line->operand_count);
  if (texts.count == 0) RAISE(error, ALIBI_INVALID, "--text: expected at least one file, found none");
  TRY(cli_context(&e.context, error));
  TRY(model_files_open(e.context, line->operands[0], &e.model, error));
  TRY(model_files_open_tokenizer(line->operands[0], e.model, true, &e.tokenizer, error));
  e.width = (size_t)alibi_model_get_config(e.model)->width;
  TRY(memory_new(&e.vectors, size_mul(texts.count, e.width), sizeof *e.vectors, "the vectors", error));
  for (size_t i = 0; i < texts.count; i++) {
    size_t count;
    double began = system_seconds();
    TRY(embed_text(&e, line->operands[0], texts.items[i], e.vectors + i * e.width, &count, error));
    if (!options.similarity) TRY(print_vector(&e, texts.items[i], count, e.vectors + i * e.width, error));
    if (!cli_quiet()) progress_note("%s: %zu tokens in %.2f s", texts.items[i], count, system_seconds() - began);
  }
  if (options.similarity) print_similarity(&e);
done:
  memory_free(e.vectors);
  alibi_tokenizer_free(e.tokenizer);
  alibi_model_free(e.model);
  cli_context_free(e.context);
  return result;
}

const command command_embed = {
    .name = "embed",
    .summary = "Turn texts into vectors, by an encoder.",
    .operands = "MODEL",
    .details = "Each file of --text is read whole, whatever its length, and becomes the mean of the last hidden "
               "states of its tokens: a line of JSON with its vector. Meant for encoders such as jina-bert-v2; "
               "of a decoder the same is told.",
    .options = embed_add_options,
    .run = embed_run,
};
