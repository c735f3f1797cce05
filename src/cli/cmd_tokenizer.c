/* alibi tokenizer: train one on texts, text to ids, ids to text.  The first operand says which; an option that has
 * no meaning there is refused, so that a slip does not pass for a setting. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/tokenizer.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/model_files.h"
#include "cli/run.h"
#include "file/json.h"

typedef struct tokenizer_options {
  int64_t vocab;
  bool json, special, control;
} tokenizer_options;

static const field tokenizer_fields[] = {
    {.name = "vocab",
     .kind = FIELD_INTEGER,
     .offset = offsetof(tokenizer_options, vocab),
     .minimum = 256,
     .maximum = 1000000,
     .initial = 8192,
     .help = "train: tokens at most; 256 is one for every byte"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(tokenizer_options, json),
     .maximum = 1,
     .help = "encode: print the ids as a JSON array"},
    {.name = "special",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(tokenizer_options, special),
     .maximum = 1,
     .help = "encode: also the tokens that the tokenizer puts around a text, such as one that begins it"},
    {.name = "control",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(tokenizer_options, control),
     .maximum = 1,
     .help = "encode: what spells a control token, such as </s>, becomes it; else text stays text"},
};

static tokenizer_options options;
static const char *out, *tokenizer_path;

static void tokenizer_add_options(command_line *line)
{
  out = tokenizer_path = NULL;
  command_add_group(line, "Options", (field_table)FIELD_TABLE(tokenizer_fields), &options, "");
  command_add_text(line, "out", "FILE", &out, "train: the tokenizer.json to write");
  command_add_text(
      line, "tokenizer", "PATH", &tokenizer_path,
      "encode, decode: a tokenizer.json, a SentencePiece .model, a GGUF file, or a model's directory");
}

/* A whole input: a mapped file, or what came from standard input. */
typedef struct input {
  const char *name;
  const unsigned char *data;
  size_t size;
  mapped_file file;
  unsigned char *read;
} input;

static status read_standard_input(input *in, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t capacity = 0;
  for (;;) {
    TRY(memory_grow(&in->read, &capacity, in->size + 65536, 1, "standard input", error));
    size_t got = fread(in->read + in->size, 1, capacity - in->size, stdin);
    in->size += got;
    if (got == 0) break;
  }
  if (ferror(stdin)) RAISE(error, ALIBI_BAD_INPUT, "cannot read standard input");
  in->data = in->read;
done:
  return result;
}

static void input_close(input *in)
{
  if (in->file.data) mapped_file_close(&in->file);
  free(in->read);
  *in = (input){0};
}

/* path NULL: standard input. */
static status input_open(input *in, const char *path, alibi_error *error)
{
  *in = (input){.name = path ? path : "standard input"};
  if (!path) return read_standard_input(in, error);
  status result = mapped_file_open(path, &in->file, error);
  if (result != ALIBI_OK) return result;
  in->data = in->file.data;
  in->size = in->file.size;
  return ALIBI_OK;
}

static status train(const char **paths, size_t count, alibi_error *error)
{
  status result = ALIBI_OK;
  input *inputs = NULL;
  const char **texts = NULL;
  size_t *sizes = NULL, total = 0, opened = 0;
  alibi_tokenizer *t = NULL;
  if (!out) RAISE(error, ALIBI_INVALID, "tokenizer train: --out FILE is missing");
  if (count == 0) RAISE(error, ALIBI_INVALID, "tokenizer train: expected at least one TEXT");
  TRY(memory_new(&inputs, count, sizeof *inputs, "the texts", error));
  TRY(memory_new(&texts, count, sizeof *texts, "the texts", error));
  TRY(memory_new(&sizes, count, sizeof *sizes, "the texts", error));
  for (; opened < count; opened++) {
    TRY(input_open(&inputs[opened], paths[opened], error));
    texts[opened] = (const char *)inputs[opened].data;
    sizes[opened] = inputs[opened].size;
    total = size_add(total, sizes[opened]);
  }
  if (total == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected text to train on, found %s", paths[0],
          count == 1 ? "an empty file" : "that this and every other file is empty");
  TRY(alibi_tokenizer_train(texts, sizes, count, (uint32_t)options.vocab, &t, error));
  TRY(alibi_tokenizer_save(t, out, error));
  if (alibi_tokenizer_vocabulary(t) < options.vocab)
    fprintf(stderr, "warning: only %" PRIu32 " tokens, not %" PRId64 ": no other pair occurs twice in the texts\n",
            alibi_tokenizer_vocabulary(t), options.vocab);
  if (!cli_quiet())
    fprintf(stderr, "%s: %" PRIu32 " tokens, trained on %zu bytes\n", out, alibi_tokenizer_vocabulary(t), total);
done:
  alibi_tokenizer_free(t);
  for (size_t i = 0; i < opened; i++) input_close(&inputs[i]);
  memory_free(inputs);
  memory_free(texts);
  memory_free(sizes);
  return result;
}

static status encode(const alibi_tokenizer *t, const input *in, alibi_error *error)
{
  uint32_t *tokens;
  size_t count;
  alibi_encode_options how;
  alibi_encode_options_init(&how);
  how.add_special = options.special;
  how.control = options.control;
  status result = model_files_encode(t, &how, in->data, in->size, &tokens, &count, error);
  if (result != ALIBI_OK) return result;
  const char *between = options.json ? "," : " ";
  if (options.json) putchar('[');
  for (size_t i = 0; i < count; i++) printf("%s%" PRIu32, i > 0 ? between : "", tokens[i]);
  puts(options.json ? "]" : "");
  alibi_tokens_free(tokens);
  return ALIBI_OK;
}

typedef struct id_list {
  uint32_t *ids;
  size_t count, capacity;
} id_list;

static status add_id(id_list *list, const alibi_tokenizer *t, const char *name, int64_t id, alibi_error *error)
{
  uint32_t vocabulary = alibi_tokenizer_vocabulary(t);
  if (id < 0 || id >= vocabulary)
    return fail(error, ALIBI_BAD_INPUT, "%s: id %zu: expected a number from 0 to %" PRIu32 ", found %" PRId64,
                name, list->count + 1, vocabulary - 1, id);
  status result = memory_grow(&list->ids, &list->capacity, list->count + 1, sizeof *list->ids, "ids", error);
  if (result == ALIBI_OK) list->ids[list->count++] = (uint32_t)id;
  return result;
}

static status read_array(const alibi_tokenizer *t, const input *in, id_list *list, alibi_error *error)
{
  status result = ALIBI_OK;
  json_node *array = NULL;
  TRY(node_parse((const char *)in->data, in->size, in->name, &array, error));
  for (size_t i = 0; i < node_count(array); i++) {
    if (node_kind_of(node_at(array, i)) != NODE_INTEGER)
      RAISE(error, ALIBI_BAD_INPUT, "%s: id %zu: expected a whole number", in->name, i + 1);
    TRY(add_id(list, t, in->name, node_integer(node_at(array, i), -1), error));
  }
done:
  node_free(array);
  return result;
}

static bool is_blank(unsigned char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static status read_list(const alibi_tokenizer *t, const input *in, id_list *list, alibi_error *error)
{
  const unsigned char *p = in->data, *end = p + in->size;
  for (;;) {
    while (p < end && is_blank(*p)) p++;
    if (p == end) return ALIBI_OK;
    const unsigned char *word = p;
    int64_t id = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
      if (id <= UINT32_MAX) id = id * 10 + (*p - '0'); /* what is larger is refused as it is */
    if (p == word || (p < end && !is_blank(*p)))
      return fail(error, ALIBI_BAD_INPUT, "%s: id %zu: expected a whole number, then a blank", in->name,
                  list->count + 1);
    status result = add_id(list, t, in->name, id, error);
    if (result != ALIBI_OK) return result;
  }
}

/* Reads what encode prints, with or without --json; writes nothing unless all of it is right. */
static status decode(const alibi_tokenizer *t, const input *in, alibi_error *error)
{
  status result = ALIBI_OK;
  id_list list = {0};
  size_t first = 0, size;
  char *text = NULL;
  alibi_decode_options decode_options;
  alibi_decode_options_init(&decode_options);
  while (first < in->size && is_blank(in->data[first])) first++;
  if (first < in->size && in->data[first] == '[') TRY(read_array(t, in, &list, error));
  else TRY(read_list(t, in, &list, error));
  decode_options.valid_utf8 = 0; /* bytes as they were */
  TRY(alibi_tokenizer_decode(t, &decode_options, list.ids, list.count, &text, &size, error));
  fwrite(text, 1, size, stdout);
done:
  alibi_text_free(text);
  free(list.ids);
  return result;
}

/* A file of any kind, or what a model's directory has. */
static status open_tokenizer(alibi_tokenizer **t, alibi_error *error)
{
  if (!path_is_directory(tokenizer_path)) return alibi_tokenizer_open(tokenizer_path, t, error);
  status result = alibi_model_tokenizer_open(tokenizer_path, NULL, t, error);
  if (result != ALIBI_OK || *t) return result;
  return fail(
      error, ALIBI_BAD_INPUT,
      "--tokenizer: %s: expected tokenizer.json, tokenizer.model or a GGUF file in the directory, found none",
      tokenizer_path);
}

static status convert(const char *verb, const command_line *line, alibi_error *error)
{
  status result = ALIBI_OK;
  alibi_tokenizer *t = NULL;
  input in = {0};
  if (!tokenizer_path) RAISE(error, ALIBI_INVALID, "tokenizer %s: --tokenizer PATH is missing", verb);
  if (line->operand_count > 2)
    RAISE(error, ALIBI_INVALID, "tokenizer %s: expected one file, found %s too", verb, line->operands[2]);
  TRY(open_tokenizer(&t, error));
  TRY(input_open(&in, line->operand_count == 2 ? line->operands[1] : NULL, error));
  TRY((strcmp(verb, "encode") == 0 ? encode : decode)(t, &in, error));
done:
  input_close(&in);
  alibi_tokenizer_free(t);
  return result;
}

static status refuse_option(bool given, const char *option, const char *where, const char *verb,
                            alibi_error *error)
{
  if (!given) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "%s belongs to tokenizer %s, not to tokenizer %s", option, where, verb);
}

static status tokenizer_run(command_line *line, alibi_error *error)
{
  status result = ALIBI_OK;
  const char *verb = line->operand_count > 0 ? line->operands[0] : "";
  bool trains = strcmp(verb, "train") == 0, encodes = strcmp(verb, "encode") == 0;
  if (!trains && !encodes && strcmp(verb, "decode") != 0)
    RAISE(error, ALIBI_INVALID, "tokenizer: expected train, encode or decode, found %s",
          verb[0] ? verb : "nothing");
  if (!trains) {
    TRY(refuse_option(out != NULL, "--out", "train", verb, error));
    TRY(refuse_option(command_line_given(line, &options, "vocab"), "--vocab", "train", verb, error));
  }
  if (trains) TRY(refuse_option(tokenizer_path != NULL, "--tokenizer", "encode and decode", verb, error));
  static const char *const of_encode[] = {"json", "special", "control"};
  for (size_t i = 0; i < sizeof of_encode / sizeof *of_encode && !encodes; i++) {
    char option[FIELD_TEXT_SIZE];
    field_option("", of_encode[i], option, sizeof option);
    TRY(refuse_option(command_line_given(line, &options, of_encode[i]), option, "encode", verb, error));
  }
  result = trains ? train(line->operands + 1, line->operand_count - 1, error) : convert(verb, line, error);
done:
  return result;
}

const command command_tokenizer = {
    .name = "tokenizer",
    .summary = "Train a tokenizer on texts; text to ids and back.",
    .operands = "train|encode|decode [FILE...]",
    .details = "alibi tokenizer train --vocab N --out FILE TEXT...\n"
               "alibi tokenizer encode --tokenizer PATH [TEXT]\n"
               "alibi tokenizer decode --tokenizer PATH [IDS]\n"
               "\n"
               "train makes a byte-level BPE, in a tokenizer.json. encode prints the ids of a text on one line; "
               "decode reads such ids and writes the text. Both take the tokenizers of public models too, and "
               "read standard input where no file is named.",
    .options = tokenizer_add_options,
    .run = tokenizer_run,
};
