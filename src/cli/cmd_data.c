/* alibi data: texts to shards of token ids, what lies in such a folder or file, and whether it is undamaged; and
 * sets of ids that are no text (data_synthetic.c).  The first operand says which; an option that has no meaning
 * there is refused, so that a slip does not pass for a setting. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/system.h"
#include "cli/command.h"
#include "cli/data_synthetic.h"
#include "cli/json_output.h"
#include "cli/progress.h"
#include "cli/run.h"
#include "train/data_build.h"
#include "train/token_source.h"

enum { LEAST_VOCABULARY = 256 }; /* of a BPE: all bytes */

typedef struct data_options {
  int64_t vocabulary, shard_tokens;
  double held_out, sample_mb;
  int format;
  char name[FIELD_TEXT_SIZE];
  bool skip_bad_lines, json;
} data_options;

static const char *const formats[] = {"auto", "text", "jsonl", NULL}; /* as text_format */

static const field data_fields[] = {
    {.name = "vocabulary",
     .kind = FIELD_INTEGER,
     .offset = offsetof(data_options, vocabulary),
     .minimum = 4,
     .maximum = 1000000,
     .initial = 8192,
     .help = "build: tokens of the BPE that is trained on the texts, at least 256; synthetic: ids, without it "
             "256"},
    {.name = "sample_mb",
     .kind = FIELD_REAL,
     .offset = offsetof(data_options, sample_mb),
     .minimum = 0.001,
     .maximum = 100000,
     .initial = 100,
     .help = "build: megabytes of text at most that this BPE is trained on, from all over the texts"},
    {.name = "held_out",
     .kind = FIELD_REAL,
     .offset = offsetof(data_options, held_out),
     .maximum = 0.9,
     .initial = 0.05,
     .help = "build: share that is only tested on: the end of each text; of many texts and of JSON lines whole "
             "documents"},
    {.name = "format",
     .kind = FIELD_CHOICE,
     .offset = offsetof(data_options, format),
     .choices = formats,
     .help = "build: what the files are; auto: as their names say"},
    {.name = "field",
     .kind = FIELD_TEXT,
     .offset = offsetof(data_options, name),
     .initial_text = "text",
     .help = "build: the field of a line of JSON that holds the text"},
    {.name = "skip_bad_lines",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(data_options, skip_bad_lines),
     .maximum = 1,
     .help = "build: leave out lines that are no JSON with that field, rather than stop"},
    {.name = "shard_tokens",
     .kind = FIELD_INTEGER,
     .offset = offsetof(data_options, shard_tokens),
     .minimum = 1,
     .maximum = 1e11,
     .initial = 1e8,
     .help = "build: a shard is closed after the document with which it has so many tokens"},
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(data_options, json),
     .maximum = 1,
     .help = "show: print JSON"},
};

static data_options options;
static const char *out, *tokenizer_path, *valid;

static void data_add_options(command_line *line)
{
  out = tokenizer_path = valid = NULL;
  command_add_text(line, "out", "DIR", &out, "build, synthetic: where the shards go");
  command_add_text(line, "tokenizer", "FILE", &tokenizer_path,
                   "build: a tokenizer.json, or bytes; without it a BPE is trained on the texts");
  command_add_text(line, "valid", "LIST", &valid,
                   "build: files and folders, between commas, that are only tested on");
  command_add_group(line, "Options", (field_table)FIELD_TABLE(data_fields), &options, "");
  data_synthetic_add_options(line);
}

/* ---- build ---- */

typedef struct watch {
  const char *doing;
  int item;
} watch;

static void on_progress(void *user, const data_build_progress *p)
{
  watch *w = user;
  char tokens[64];
  if (w->doing != p->doing) {
    if (w->doing) progress_end(w->item, NULL);
    w->doing = p->doing;
    w->item = progress_begin(p->doing, (double)p->bytes_total, "bytes");
  }
  snprintf(tokens, sizeof tokens, "%.3gM tokens", (double)p->tokens / 1e6);
  progress_update(w->item, (double)p->bytes, p->tokens > 0 ? tokens : NULL);
}

static const char *plural(uint64_t count)
{
  return count == 1 ? "" : "s";
}

static void say_result(const data_build_result *built, double seconds)
{
  const data_catalogue *c = &built->catalogue;
  if (built->was_finished) fprintf(stderr, "%s: was built already\n", out);
  if (built->kept_shards > 0)
    fprintf(stderr, "%zu shard%s kept from an earlier run\n", built->kept_shards, plural(built->kept_shards));
  if (built->left_out_files > 0)
    fprintf(stderr, "left out: %zu file%s with names that are none of texts\n", built->left_out_files,
            plural(built->left_out_files));
  if (c->left_out_empty > 0)
    fprintf(stderr, "left out: %" PRIu64 " empty document%s\n", c->left_out_empty, plural(c->left_out_empty));
  if (c->left_out_bad > 0)
    fprintf(stderr, "left out: %" PRIu64 " line%s with no document\n", c->left_out_bad, plural(c->left_out_bad));
  if (built->was_finished || built->tokens == 0) return;
  char time[32];
  progress_format_time(seconds, time, sizeof time);
  fprintf(stderr, "%s: %" PRIu64 " tokens in %s (%.0f tokens/s)\n", out, built->tokens, time,
          (double)built->tokens / seconds);
}

static status build(const command_line *line, alibi_error *error)
{
  alibi_context *context = NULL;
  watch w = {0};
  data_build_result built = {0};
  status result = ALIBI_OK;
  if (!out) RAISE(error, ALIBI_INVALID, "data build: --out DIR is missing");
  if (line->operand_count < 2)
    RAISE(error, ALIBI_INVALID, "data build: expected at least one TEXT or DIR, found none");
  if (tokenizer_path &&
      (command_line_given(line, &options, "vocabulary") || command_line_given(line, &options, "sample_mb")))
    RAISE(
        error, ALIBI_INVALID,
        "--vocabulary and --sample-mb are for a tokenizer that is trained, and --tokenizer names a finished one");
  if (options.vocabulary < LEAST_VOCABULARY)
    RAISE(error, ALIBI_INVALID, "--vocabulary: expected an integer from %d to 1000000, found %" PRId64,
          LEAST_VOCABULARY, options.vocabulary);
  if (valid && command_line_given(line, &options, "held_out"))
    RAISE(error, ALIBI_INVALID, "--held-out and --valid: expected one of them");
  data_build_request request = {.texts = line->operands + 1,
                                .text_count = line->operand_count - 1,
                                .valid = valid,
                                .held_out = valid ? 0 : options.held_out,
                                .format = (text_format)options.format,
                                .name = options.name,
                                .leave_out_bad = options.skip_bad_lines,
                                .tokenizer = tokenizer_path,
                                .vocabulary = (uint32_t)options.vocabulary,
                                .sample_bytes = (uint64_t)(options.sample_mb * 1e6),
                                .shard_tokens = (uint64_t)options.shard_tokens,
                                .out = out,
                                .report = on_progress,
                                .user = &w};
  double began = system_seconds();
  TRY(cli_context(&context, error));
  result = data_build(context, &request, &built, error);
  if (w.doing) progress_end(w.item, NULL);
  if (result == ALIBI_CANCELLED && path_exists(out) && !cli_quiet())
    fprintf(stderr, "%s: the shards that are finished stay; the same command goes on from there\n", out);
  if (result == ALIBI_OK && !cli_quiet()) say_result(&built, system_seconds() - began);
done:
  data_catalogue_free(&built.catalogue);
  cli_context_free(context);
  return result;
}

/* ---- show ---- */

static void print_folder(const char *folder, const data_catalogue *c)
{
  printf("%s: tokenizer %s, %" PRIu32 " tokens; ids of %d bits\n", folder, c->tokenizer_kind, c->vocabulary,
         c->vocabulary > 65536 ? 32 : 16);
  for (int s = 0; s < SPLIT_COUNT; s++) {
    const data_shards *shards = &c->splits[s];
    data_shard sum = data_catalogue_sum(c, (data_split)s);
    if (shards->count == 0) continue;
    printf("%-6s %" PRIu64 " tokens, %" PRIu64 " document%s", data_split_names[s], sum.tokens, sum.documents,
           plural(sum.documents));
    if (c->tokenizer)
      printf(", %" PRIu64 " bytes of text (%.2f a token)", sum.bytes, (double)sum.bytes / (double)sum.tokens);
    printf(", %zu shard%s\n", shards->count, plural(shards->count));
    for (size_t i = 0; shards->count > 1 && i < shards->count; i++)
      printf("  %s  %" PRIu64 " tokens, %" PRIu64 " document%s\n", shards->shards[i].file,
             shards->shards[i].tokens, shards->shards[i].documents, plural(shards->shards[i].documents));
  }
  if (c->left_out_empty > 0)
    printf("left out: %" PRIu64 " empty document%s\n", c->left_out_empty, plural(c->left_out_empty));
  if (c->left_out_bad > 0)
    printf("left out: %" PRIu64 " line%s with no document\n", c->left_out_bad, plural(c->left_out_bad));
}

static void print_source(const token_source *s)
{
  const token_part *part = &s->parts[0];
  char seal[FINGERPRINT_TEXT_SIZE];
  fingerprint_to_text(s->fingerprint, seal);
  printf("%s: %s, %zu tokens of %d bits, the largest id is %" PRIu32 "\n", s->name, s->format, s->count,
         part->wide ? 32 : 16, s->largest);
  if (s->vocabulary) printf("vocabulary %" PRIu32 "\n", s->vocabulary);
  if (token_source_has_documents(s)) printf("%zu document%s\n", s->document_count, plural(s->document_count));
  else printf("where documents begin is not known\n");
  printf("fingerprint %s\n", seal);
}

static json_node *source_node(const token_source *s)
{
  json_node *node = node_new_object();
  char seal[FINGERPRINT_TEXT_SIZE];
  fingerprint_to_text(s->fingerprint, seal);
  node_set_text(node, "file", s->name);
  node_set_text(node, "format", s->format);
  node_set_integer(node, "tokens", (int64_t)s->count);
  node_set_integer(node, "id_bytes", s->parts[0].wide ? 4 : 2);
  node_set_integer(node, "largest", s->largest);
  if (s->vocabulary) node_set_integer(node, "vocabulary", s->vocabulary);
  if (token_source_has_documents(s)) node_set_integer(node, "documents", (int64_t)s->document_count);
  node_set_text(node, "fingerprint", seal);
  return node;
}

static status show_file(const char *path, alibi_error *error)
{
  token_source source;
  status result = token_source_open(path, "train", &source, error);
  if (result != ALIBI_OK) return result;
  if (options.json) result = print_node(source_node(&source), error);
  else print_source(&source);
  token_source_close(&source);
  return result;
}

static status show(const char *path, alibi_error *error)
{
  data_catalogue catalogue;
  if (!path_is_directory(path)) return show_file(path, error);
  status result = data_catalogue_read(path, DATA_FINISHED, &catalogue, error);
  if (result != ALIBI_OK) return result;
  if (options.json) {
    result = print_node(catalogue.root, error);
    catalogue.root = NULL;
  } else {
    print_folder(path, &catalogue);
  }
  data_catalogue_free(&catalogue);
  return result;
}

/* ---- check ---- */

static status check(const char *path, alibi_error *error)
{
  data_catalogue catalogue;
  token_source source;
  if (!path_is_directory(path)) {
    status result = token_source_open(path, "train", &source, error);
    if (result == ALIBI_OK && !cli_quiet()) printf("%s: %zu tokens, nothing is wrong\n", path, source.count);
    if (result == ALIBI_OK) token_source_close(&source);
    return result;
  }
  status result = data_check(path, &catalogue, error);
  if (result != ALIBI_OK) return result;
  uint64_t tokens = 0;
  size_t shards = 0;
  for (int s = 0; s < SPLIT_COUNT; s++) {
    tokens += data_catalogue_sum(&catalogue, (data_split)s).tokens;
    shards += catalogue.splits[s].count;
  }
  if (!cli_quiet())
    printf("%s: %zu shard%s with %" PRIu64 " tokens, nothing is wrong\n", path, shards, plural(shards), tokens);
  data_catalogue_free(&catalogue);
  return ALIBI_OK;
}

/* ---- which of them ---- */

static status data_run(command_line *line, alibi_error *error)
{
  static const char *const of_show[] = {"json", "threads", "quiet", NULL}, *const of_check[] = {"threads", "quiet",
                                                                                                NULL};
  const char *verb = line->operand_count > 0 ? line->operands[0] : "nothing";
  if (strcmp(verb, "synthetic") == 0)
    return data_synthetic(line, out, command_line_given(line, &options, "vocabulary") ? options.vocabulary : 0,
                          error);
  const char *synthetic = data_synthetic_given(line);
  if (synthetic)
    return fail(error, ALIBI_INVALID, "%s belongs to data synthetic, not to data %s", synthetic, verb);
  if (strcmp(verb, "build") == 0) {
    if (command_line_given(line, &options, "json"))
      return fail(error, ALIBI_INVALID, "--json belongs to data show, not to data build");
    return build(line, error);
  }
  bool shows = strcmp(verb, "show") == 0;
  if (!shows && strcmp(verb, "check") != 0)
    return fail(error, ALIBI_INVALID, "data: expected build, synthetic, show or check, found %s", verb);
  const char *other = command_line_given_other(line, shows ? of_show : of_check);
  if (other)
    return fail(error, ALIBI_INVALID, "%s belongs to data %s, not to data %s", other,
                strcmp(other, "--json") == 0 ? "show" : "build", verb);
  if (line->operand_count != 2)
    return fail(error, ALIBI_INVALID, "data %s: expected one DIR or FILE, found %zu", verb,
                line->operand_count - 1);
  return shows ? show(line->operands[1], error) : check(line->operands[1], error);
}

const command command_data = {
    .name = "data",
    .summary = "Turn texts into shards of token ids, which train maps instead of reading texts.",
    .operands = "build TEXT|DIR... | synthetic TASK | show DIR|FILE | check DIR|FILE",
    .details = "build: files and folders to shards in --out. A plain text is one document; a file of JSON lines "
               "(.jsonl, .jsonlines, "
               ".json-lines, .ndjson) has one in each line. Both may be packed with gzip or zstd. A folder is "
               "walked in the order of "
               "its names; it gives the files that end in .txt, .text, .md or like JSON lines, with .gz or .zst "
               "behind or not. A build "
               "that was stopped goes on when it is asked for again.\n"
               "synthetic: sequences of ids that are no text, for a task that a small model can learn, such as "
               "recall: alibi train DIR "
               "--order documents --train-length N, with the --length N of here, then alibi task.\n"
               "show: what is in a folder that was built, or in a file: a shard, a token file of llm.c, or "
               "nanogpt:FILE.\n"
               "check: reads all of it and compares the fingerprints.\n"
               "\n"
               "  alibi data build --out data --vocabulary 8192 books/\n"
               "  alibi train --out model data",
    .options = data_add_options,
    .run = data_run,
};
