/* alibi convert: a model from one format or type of numbers to another. */
#include <stdio.h>
#include <string.h>

#include "alibi/convert.h"
#include "base/memory.h"
#include "base/system.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "cli/terminal.h"

typedef struct convert_options {
  int format;
  int64_t shard_bytes;
  bool without_tokenizer;
} convert_options;

static const char *const formats[] = {"alibi", "safetensors", "gguf", NULL};

static const field convert_fields[] = {
    {.name = "to",
     .kind = FIELD_CHOICE,
     .offset = offsetof(convert_options, format),
     .initial = ALIBI_FORMAT_GGUF,
     .choices = formats,
     .help = "alibi: fp32, to be trained on; safetensors: a directory for transformers; gguf: one file"},
    {.name = "shard_bytes",
     .kind = FIELD_INTEGER,
     .offset = offsetof(convert_options, shard_bytes),
     .minimum = 1,
     .maximum = 9007199254740992.0,
     .initial = 5e9,
     .help = "safetensors: bytes of data in a file at most"},
    {.name = "without_tokenizer",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(convert_options, without_tokenizer),
     .maximum = 1,
     .help = "leave the tokenizer out, where it is not known here or the format cannot hold it"},
};

/* Settings of the library that are options here, for sentences about them. */
static const field typed[] = {{.name = "type"}, {.name = "ignore_config"}, {.name = "shard_bytes"},
                              {.name = "without_tokenizer"}};

static convert_options options;
static const char *out, *type;
static text_values ignored;

static void convert_add_options(command_line *line)
{
  out = type = NULL;
  ignored = (text_values){0};
  command_add_text(line, "out", "PATH", &out, "the new directory; with --to gguf, the new file");
  command_add_text(
      line, "type", "TYPE", &type,
      "of the numbers of matrices: F32, F16, BF16; of GGUF also Q8_0, Q4_0, Q4_K; without it as they are stored");
  command_add_texts(
      line, "ignore-config", "KEY", &ignored, false,
      "a key of a public model's config.json that counts as absent, though it may change numbers; again for "
      "more");
  command_add_group(line, "Options", (field_table)FIELD_TABLE(convert_fields), &options, "");
}

typedef struct conversion_progress {
  int item; /* -1: not begun */
  double began;
  int64_t total;
} conversion_progress;

/* Beginning takes what checking takes; from then on bytes are counted. */
static void tell(void *user, int64_t done, int64_t total)
{
  conversion_progress *p = user;
  if (p->item < 0) {
    p->began = system_seconds();
    p->item = progress_begin("convert", (double)total * 1e-6, "MB");
    p->total = total;
  }
  progress_update(p->item, (double)done * 1e-6, NULL);
}

static void tell_end(const conversion_progress *p)
{
  double seconds = system_seconds() - p->began;
  char time[32], line[160];
  if (p->item < 0) return;
  progress_format_time(seconds, time, sizeof time);
  snprintf(line, sizeof line, "%.4g MB of tensors in %s (%.0f MB/s)", (double)p->total * 1e-6, time,
           (double)p->total * 1e-6 / (seconds + 1e-9));
  /* Where nobody watches, a line only of what took long. */
  progress_end(p->item, terminal_is(stderr) || seconds >= 10 ? line : NULL);
}

static status convert_run(command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  alibi_convert_options convert;
  conversion_progress progress = {.item = -1};
  const char **keys = NULL;
  status result;
  if (line->operand_count != 1)
    RAISE(error, ALIBI_INVALID, "convert: expected one model, found %zu", line->operand_count);
  if (!out) RAISE(error, ALIBI_INVALID, "--out: expected where to write, found nothing");
  TRY(cli_context(&context, error));
  alibi_convert_options_init(&convert);
  convert.format = options.format;
  convert.type = type;
  convert.shard_bytes = options.shard_bytes;
  convert.without_tokenizer = options.without_tokenizer;
  convert.progress = tell;
  convert.user = &progress;
  TRY(memory_new(&keys, ignored.count + 1, sizeof *keys, "the keys of --ignore-config", error));
  for (size_t i = 0; i < ignored.count; i++) keys[i] = ignored.items[i];
  if (ignored.count > 0) convert.ignore_config = keys;
  result = alibi_model_convert(context, line->operands[0], out, &convert, error);
  if (result == ALIBI_OK) tell_end(&progress);
  else field_say_option((field_table)FIELD_TABLE(typed), "", error);
done:
  memory_free(keys);
  cli_context_free(context);
  return result;
}

const command command_convert = {
    .name = "convert",
    .summary = "Write a model in another format or type of numbers.",
    .operands = "MODEL",
    .details = "What keeps its type is copied to the bit: a model in its stored types computes the same bits in "
               "every format. GGUF files carry their configuration and tokenizer; what they have no words for "
               "is refused before anything is written. MODEL may be a directory, a GGUF file, or a file of "
               "weights with its config.json beside it. What is at PATH already is never touched.",
    .options = convert_add_options,
    .run = convert_run,
};
