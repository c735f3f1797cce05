/* alibi generate: go on with a prompt, token by token, with a cache.  Text is written as it comes, never half a
 * character. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "alibi/tokenizer.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/extend_option.h"
#include "cli/model_files.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/terminal.h"
#include "model/config.h"

typedef struct generate_options {
  int64_t tokens, keep, top_k, seed;
  double temperature, top_p;
  bool echo, control;
} generate_options;

static const field generate_fields[] = {
    {.name = "tokens",
     .kind = FIELD_INTEGER,
     .offset = offsetof(generate_options, tokens),
     .minimum = 1,
     .maximum = 1 << 30,
     .initial = 200,
     .help = "tokens to add"},
    {.name = "keep",
     .kind = FIELD_INTEGER,
     .offset = offsetof(generate_options, keep),
     .maximum = 1 << 30,
     .help =
         "keep keys and values of so many tokens at most and the same text, or say why not (for methods such as "
         "alibi, alibi-learned, fox); 0: all"},
    {.name = "temperature",
     .kind = FIELD_REAL,
     .offset = offsetof(generate_options, temperature),
     .maximum = 100,
     .initial = 0.8,
     .help = "0: always the most probable token"},
    {.name = "top_k",
     .kind = FIELD_INTEGER,
     .offset = offsetof(generate_options, top_k),
     .maximum = 1 << 30,
     .help = "choose among so many of the most probable tokens; 0: all"},
    {.name = "top_p",
     .kind = FIELD_REAL,
     .offset = offsetof(generate_options, top_p),
     .minimum = 1e-6,
     .maximum = 1,
     .initial = 0.95,
     .help = "choose among the most probable tokens that together have this probability"},
    {.name = "seed",
     .kind = FIELD_INTEGER,
     .offset = offsetof(generate_options, seed),
     .maximum = 9007199254740992.0,
     .initial = 1,
     .help = "another seed, another text"},
    {.name = "echo",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(generate_options, echo),
     .maximum = 1,
     .initial = 1,
     .help = "write the prompt before what follows it"},
    {.name = "control",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(generate_options, control),
     .maximum = 1,
     .help =
         "what spells a control token in the prompt becomes it, as a chat's template wants; else text stays text"},
};

static generate_options options;
static extend_option extension;
static const char *prompt, *prompt_file;
static const char *extend; /* what --extend and --beyond come to */

static void generate_add_options(command_line *line)
{
  prompt = prompt_file = NULL;
  command_add_text(line, "prompt", "TEXT", &prompt, "the text to go on with; without it an empty line");
  command_add_text(line, "prompt-file", "FILE", &prompt_file, "the same, from a file");
  extend_option_add(line, &extension);
  model_files_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(generate_fields), &options, "");
}

typedef struct generation {
  const char *path;
  alibi_context *context;
  alibi_model *model;
  alibi_tokenizer *tokenizer;
  alibi_session *session;
  mapped_file file;
  const unsigned char *prompt;
  size_t prompt_size;
  uint32_t *ids; /* of the prompt */
  size_t id_count;
  int64_t wanted; /* tokens to add */
  alibi_decoder *decoder;
  end_tokens ends;
  char *told; /* what the decoder may still say of the prompt, from `told_from` on */
  size_t told_from, told_size;
  float *logits; /* of the last token, -infinity for the holes; NULL where there are none */
  uint32_t *holes; /* ids below the vocabulary that are no tokens and no end */
  size_t hole_count;
  bool terminal;
} generation;

static status read_prompt(generation *g, alibi_error *error)
{
  g->prompt = (const unsigned char *)(prompt ? prompt : "\n");
  g->prompt_size = strlen((const char *)g->prompt);
  if (!prompt_file) return ALIBI_OK;
  if (prompt) return fail(error, ALIBI_INVALID, "--prompt and --prompt-file: expected one of them");
  status result = mapped_file_open(prompt_file, &g->file, error);
  if (result != ALIBI_OK) return result;
  if (g->file.size == 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected a prompt, found an empty file", prompt_file);
  g->prompt = g->file.data;
  g->prompt_size = g->file.size;
  return ALIBI_OK;
}

static status open_model(const char *path, generation *g, alibi_error *error)
{
  status result = model_files_open(g->context, path, &g->model, error);
  if (result == ALIBI_OK) result = model_files_open_tokenizer(path, g->model, true, &g->tokenizer, error);
  return result == ALIBI_OK ? model_files_read_ends(path, g->tokenizer, &g->ends, error) : result;
}

/* What a session says of its settings, for somebody who typed options. */
static status typed(status result, alibi_error *error)
{
  if (result == ALIBI_INVALID || result == ALIBI_FAILED)
    field_say_option((field_table)FIELD_TABLE(generate_fields), "", error);
  return result;
}

/* Where positions end (learned) and --tokens was not given, as many tokens as there is room for. */
static status open_session(const command_line *line, generation *g, alibi_error *error)
{
  const alibi_model_config *config = alibi_model_get_config(g->model);
  const position_method *method = position_method_find(config->position);
  alibi_session_options session;
  alibi_session_options_init(&session);
  g->wanted = options.tokens;
  if (!command_line_given(line, &options, "tokens")) {
    position_shape shape = model_config_position_shape(config);
    extension_choice choice = model_config_extension(config);
    if (extend && extension_text_read("--extend", config->position, extend, &choice, error) != ALIBI_OK)
      return ALIBI_INVALID;
    size_t limit = position_method_limit(method, &shape, config->position_options.bytes, choice.extension);
    if (g->id_count < limit && limit - g->id_count < (size_t)g->wanted) g->wanted = (int64_t)(limit - g->id_count);
  }
  session.capacity = (int64_t)g->id_count + g->wanted;
  session.extend = extend;
  session.keep = options.keep;
  return typed(alibi_session_new(g->model, &session, &g->session, error), error);
}

/* Tokenizers of public models put a beginning token before a text where the model was trained with one. */
static status read_ids(generation *g, alibi_error *error)
{
  alibi_encode_options encode;
  status result;
  alibi_encode_options_init(&encode);
  encode.add_special = 1;
  encode.control = options.control;
  TRY(alibi_tokenizer_encode_with(g->tokenizer, &encode, g->prompt, g->prompt_size, &g->ids, &g->id_count, error));
  if (g->id_count == 0)
    RAISE(error, ALIBI_INVALID,
          "--prompt: expected a text of at least one token, found one of which the tokenizer leaves nothing");
done:
  return result;
}

static status decode_prompt(generation *g, alibi_error *error)
{
  const char *text;
  size_t size;
  status result = ALIBI_OK;
  for (size_t i = 0; i < g->id_count; i++) TRY(alibi_decoder_add(g->decoder, g->ids[i], &text, &size, error));
done:
  return result;
}

/* One that has seen the prompt: what a token's text is may depend on what stands before it.  Some decoders hold a
 * token back until they know whether it is the last: of the prompt's end they would speak again. */
static status open_decoder(generation *g, alibi_error *error)
{
  alibi_decode_options decode;
  const char *text;
  size_t size;
  status result;
  alibi_decode_options_init(&decode);
  decode.valid_utf8 = 0;
  TRY(alibi_decoder_new(g->tokenizer, &decode, &g->decoder, error));
  TRY(decode_prompt(g, error));
  TRY(alibi_decoder_end(g->decoder, &text, &size, error));
  TRY(memory_new(&g->told, size + 1, 1, "the end of the prompt", error));
  memcpy(g->told, text, size);
  g->told_size = size;
  TRY(decode_prompt(g, error));
done:
  return result;
}

static void write_new(generation *g, const char *text, size_t size)
{
  size_t again = 0;
  while (again < size && g->told_from < g->told_size && text[again] == g->told[g->told_from]) {
    again++;
    g->told_from++;
  }
  if (again < size) g->told_from = g->told_size;
  fwrite(text + again, 1, size - again, stdout);
}

static status write_token(generation *g, uint32_t token, alibi_error *error)
{
  const char *text;
  size_t size;
  status result = alibi_decoder_add(g->decoder, token, &text, &size, error);
  if (result != ALIBI_OK) return result;
  write_new(g, text, size);
  if (g->terminal) fflush(stdout);
  return ALIBI_OK;
}

static void write_rest(generation *g)
{
  const char *text;
  size_t size;
  if (alibi_decoder_end(g->decoder, &text, &size, NULL) == ALIBI_OK) write_new(g, text, size);
  if (g->terminal) putchar('\n');
  fflush(stdout);
}

/* What the model makes of a right command cannot be read: that is the file's fault. */
static status of_model(generation *g, status result, alibi_error *error)
{
  alibi_error found = *error;
  if (result != ALIBI_INVALID) return result;
  return fail(error, ALIBI_BAD_INPUT, "%s: the model and its tokenizer: %s", g->path, found.message);
}

static bool is_hole(const generation *g, uint32_t id)
{
  size_t size;
  return !alibi_tokenizer_bytes(g->tokenizer, id, &size) && !end_tokens_have(&g->ends, id);
}

static status find_holes(generation *g, size_t vocabulary, alibi_error *error)
{
  size_t count = 0;
  status result = ALIBI_OK;
  for (uint32_t id = 0; id < vocabulary; id++) count += is_hole(g, id);
  if (count == 0) return ALIBI_OK;
  TRY(memory_new(&g->logits, vocabulary, sizeof *g->logits, "logits", error));
  TRY(memory_new(&g->holes, count, sizeof *g->holes, "the holes of a vocabulary", error));
  for (uint32_t id = 0; id < vocabulary; id++)
    if (is_hole(g, id)) g->holes[g->hole_count++] = id;
done:
  return result;
}

static const float *logits_of_tokens(const generation *g, size_t vocabulary)
{
  const float *logits = alibi_session_logits(g->session);
  if (!g->logits) return logits;
  memcpy(g->logits, logits, vocabulary * sizeof *logits);
  for (size_t i = 0; i < g->hole_count; i++) g->logits[g->holes[i]] = -INFINITY;
  return g->logits;
}

static status add_tokens(generation *g, alibi_error *error)
{
  alibi_sampling sampling;
  alibi_sampling_init(&sampling);
  sampling.temperature = options.temperature;
  sampling.top_k = options.top_k;
  sampling.top_p = options.top_p;
  sampling.seed = (uint64_t)options.seed;
  /* Rows of public models beyond the tokenizer's vocabulary stand for nothing. */
  size_t vocabulary = alibi_tokenizer_vocabulary(g->tokenizer);
  int64_t added = 0;
  status result = ALIBI_OK;
  double began = system_seconds(), fed = began;
  TRY(find_holes(g, vocabulary, error));
  TRY(typed(alibi_session_feed(g->session, g->ids, g->id_count, error), error));
  fed = system_seconds();
  while (added < g->wanted && !ferror(stdout)) {
    uint32_t token;
    TRY(of_model(g,
                 alibi_sample(logits_of_tokens(g, vocabulary), vocabulary, &sampling,
                              (uint64_t)alibi_session_length(g->session), &token, error),
                 error));
    if (end_tokens_have(&g->ends, token)) break;
    TRY(of_model(g, write_token(g, token, error), error));
    if (++added < g->wanted) TRY(typed(alibi_step(g->model, &g->session, &token, 1, error), error));
  }
done:
  write_rest(g);
  if (result == ALIBI_OK && !cli_quiet())
    progress_note("%zu tokens read in %.2f s, %" PRId64 " added in %.2f s (%.0f tokens/s)", g->id_count,
                  fed - began, added, system_seconds() - fed, (double)added / (system_seconds() - fed + 1e-9));
  return result;
}

static status generate_run(command_line *line, alibi_error *error)
{
  generation g = {.terminal = terminal_is(stdout)};
  status result;
  if (line->operand_count != 1)
    RAISE(error, ALIBI_INVALID, "generate: expected one model, found %zu", line->operand_count);
  TRY(cli_context(&g.context, error));
  TRY(read_prompt(&g, error));
  g.path = line->operands[0];
  TRY(open_model(g.path, &g, error));
  TRY(extend_option_read(&extension, alibi_model_get_config(g.model), &extend, error));
  TRY(read_ids(&g, error));
  TRY(open_session(line, &g, error));
  TRY(open_decoder(&g, error));
  if (options.echo) fwrite(g.prompt, 1, g.prompt_size, stdout);
  TRY(add_tokens(&g, error));
done:
  memory_free(g.holes);
  memory_free(g.logits);
  memory_free(g.told);
  alibi_decoder_free(g.decoder);
  alibi_session_free(g.session);
  alibi_tokens_free(g.ids);
  alibi_tokenizer_free(g.tokenizer);
  alibi_model_free(g.model);
  if (g.file.data) mapped_file_close(&g.file);
  cli_context_free(g.context);
  return result;
}

const command command_generate = {
    .name = "generate",
    .summary = "Let a model go on with a text.",
    .operands = "MODEL",
    .details = "Writes the prompt and what the model adds to it, as it comes, until --tokens are added or the "
               "model ends its text. The same seed gives the same text, on any number of threads.",
    .options = generate_add_options,
    .run = generate_run,
};
