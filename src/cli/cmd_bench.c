/* alibi bench: what the kernels reach on one core of this machine, and what attention does on one or more. */
#include <stdio.h>
#include <string.h>

#include "alibi/base.h"
#include "bench/bench.h"
#include "cli/bench_attention_command.h"
#include "cli/bench_train_command.h"
#include "cli/command.h"
#include "cli/json_output.h"

typedef struct bench_options {
  bool json;
} bench_options;

static const field bench_fields[] = {
    {.name = "json", .kind = FIELD_BOOLEAN, .offset = offsetof(bench_options, json), .maximum = 1,
     .help = "print JSON"},
};

static bench_options options;

static void bench_add_options(command_line *line)
{
  bench_attention_add_options(line);
  bench_train_add_options(line);
  command_add_group(line, "Options", (field_table)FIELD_TABLE(bench_fields), &options, "");
}

typedef struct bench_group {
  const char *name;
  size_t (*count)(void);
  status (*measure)(const char *isa, size_t index, bench_row *row, alibi_error *error);
  void (*print)(const bench_row *row);
} bench_group;

static void print_matmul(const bench_row *row)
{
  double peak = row->peak * 1e-9;
  if (row->rows == 0) {
    printf("%6s %6s %8s %16s %16s %16s %16s\n", "rows", "inner", "columns", "GFLOP/s, of peak", "with packing",
           "A turned", "oneDNN");
    return;
  }
  printf("%6zu %6zu %8zu", row->rows, row->inner, row->columns);
  const double shares[] = {row->share, row->share_with_packing, row->share_turned, row->share_onednn};
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    if (shares[i] > 0)
      printf(" %9.1f %5.1f%%", shares[i] * peak, 100 * shares[i]);
    else
      printf(" %16s", "-");
  }
  printf("\n");
  fflush(stdout);
}

static void print_kernels(const bench_row *row)
{
  if (!row->name[0]) {
    printf("%-46s %12s %10s %8s\n", "kernel", "microseconds", "GFLOP/s", "of peak");
    return;
  }
  printf("%-46s %12.2f", row->name, row->seconds * 1e6);
  if (row->share > 0)
    printf(" %10.1f %7.1f%%\n", row->share * row->peak * 1e-9, 100 * row->share);
  else
    printf(" %10.3f ns an element\n", row->seconds * 1e9 / row->operations);
  fflush(stdout);
}

static void print_weights(const bench_row *row)
{
  if (!row->name[0]) {
    printf("%-20s %8s %12s %16s\n", "weight", "GB/s", "of reading", "ns a number");
    return;
  }
  printf("%-20s %8.2f %11.1f%% %16.4f\n", row->name, row->bytes / row->seconds * 1e-9, 100 * row->share_of_reading,
         row->seconds * 1e9 / row->numbers);
  fflush(stdout);
}

static const bench_group groups[] = {{"matmul", bench_matmul_count, bench_matmul, print_matmul},
                                     {"kernels", bench_kernels_count, bench_kernels, print_kernels},
                                     {"weights", bench_weights_count, bench_weights, print_weights}};

static json_node *row_to_node(const bench_row *row)
{
  json_node *node = node_new_object();
  node_set_text(node, "name", row->name);
  if (row->rows > 0) {
    node_set_integer(node, "rows", (int64_t)row->rows);
    node_set_integer(node, "inner", (int64_t)row->inner);
    node_set_integer(node, "columns", (int64_t)row->columns);
  }
  node_set_number(node, "seconds", row->seconds);
  if (row->peak > 0) node_set_number(node, "peak_gflops", row->peak * 1e-9);
  if (row->bytes > 0) {
    node_set_number(node, "gigabytes_per_second", row->bytes / row->seconds * 1e-9);
    node_set_number(node, "reading", row->reading * 1e-9);
    node_set_number(node, "share_of_reading", row->share_of_reading);
    node_set_number(node, "nanoseconds_a_number", row->seconds * 1e9 / row->numbers);
  }
  if (row->share > 0) node_set_number(node, "share_of_peak", row->share);
  if (row->rows > 0) {
    node_set_number(node, "share_with_packing", row->share_with_packing);
    node_set_number(node, "share_turned", row->share_turned);
  }
  if (row->share_onednn > 0) node_set_number(node, "share_onednn", row->share_onednn);
  return node;
}

static status measure_group(const bench_group *group, const char *isa, alibi_error *error)
{
  status result = ALIBI_OK;
  json_node *root = node_new_object(), *list = node_new_array();
  bench_row row = {0};
  double worst = 1;
  node_set_text(root, "group", group->name);
  node_set_text(root, "instruction_set", isa);
  if (!options.json) {
    printf("%s, one core, %s; oneDNN: %s\n", group->name, isa,
           bench_onednn_name() ? bench_onednn_name() : "not found");
    group->print(&row);
  }
  for (size_t i = 0; i < group->count(); i++) {
    TRY(group->measure(isa, i, &row, error));
    if (row.share > 0 && row.share < worst) worst = row.share;
    if (options.json)
      node_append(list, row_to_node(&row));
    else
      group->print(&row);
  }
  node_set(root, "rows", list);
  list = NULL;
  if (options.json) {
    result = print_node(root, error);
    root = NULL;
  } else {
    if (row.peak > 0) printf("peak %.1f GFLOP/s\n", row.peak * 1e-9);
    if (row.reading > 0) printf("reading %.1f GB/s\n", row.reading * 1e-9);
    if (row.rows > 0) printf("least share of it %.1f%%\n", 100 * worst);
  }
done:
  node_free(list);
  node_free(root);
  return result;
}

/* What each word knows.  The others measure one core, so --threads is not for them. */
static const char *const attention_knows[] = {"lengths", "passes", "tolerance", "method",   "model",     "text",
                                              "csv",     "plot",   "heads",     "kv_heads", "head_size", "score",
                                              "repeats", "json",   "quiet",     "threads",  NULL};
static const char *const train_knows[] = {"layers",   "width", "length",  "vocabulary", "batch",   "recompute",
                                          "position", "teams", "model",   "heads",      "repeats", "tolerance",
                                          "json",     "quiet", "threads", NULL};
static const char *const others_know[] = {"json", "quiet", NULL};

static status check_options(const command_line *line, const char *const *known, alibi_error *error)
{
  const char *other = command_line_given_other(line, known);
  if (!other) return ALIBI_OK;
  return fail(error, ALIBI_INVALID, "%s: no option of bench %s", other, line->operands[0]);
}

static status bench_run(command_line *line, alibi_error *error)
{
  static const char *const expected = "attention, train, matmul, kernels, weights";
  status result = ALIBI_OK;
  alibi_context *context = NULL;
  if (line->operand_count != 1)
    return fail(error, ALIBI_INVALID, "bench: expected one of %s; found %zu words", expected, line->operand_count);
  if (strcmp(line->operands[0], "attention") == 0) {
    TRY(check_options(line, attention_knows, error));
    return bench_attention_command(line, options.json, error);
  }
  if (strcmp(line->operands[0], "train") == 0) {
    TRY(check_options(line, train_knows, error));
    return bench_train_command(line, options.json, error);
  }
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++)
    if (strcmp(line->operands[0], groups[i].name) == 0) {
      TRY(check_options(line, others_know, error));
      TRY(alibi_context_new(NULL, &context, error));
      TRY(measure_group(&groups[i], alibi_context_isa(context), error));
      goto done;
    }
  RAISE(error, ALIBI_INVALID, "bench: expected one of %s; found '%s'", expected, line->operands[0]);
done:
  alibi_context_free(context);
  return result;
}

const command command_bench = {
    .name = "bench",
    .summary = "Measure attention and the kernels, beside what this machine can do.",
    .operands = "attention|train|matmul|kernels|weights",
    .details =
        "attention: forward, backward and one step of decoding at one length after another, visiting every key "
        "(tolerance 0) and skipping what cannot be seen, on one thread unless --threads says more. GFLOP/s count "
        "the visited pairs of query and key, 4 operations a channel, backward 10; visited is the share of blocks; "
        "faster is how many times as fast as tolerance 0; error is the largest difference of sampled rows from a "
        "reference in double, over the largest |v| (backward: of dq, over the largest |dq|); skipping is what "
        "skipping alone does to the reference, and bound what it was proved not to exceed. Decoding compares "
        "bytes "
        "of keys and values a second with reading as many bytes.\n"
        "train: whole steps of training on random tokens, for one model (A: 4 layers, width 128, 8 heads, 16 "
        "sequences of 128 tokens, "
        "vocabulary 1024; B: 6, 384, 6, 8 of 256, 8192; C: 12, 768, 12, 4 of 512, 50257; or what --layers and so "
        "on say) with each "
        "method of --position, each --tolerance and each number of threads in --teams. GFLOP/s count 6 operations "
        "a parameter and "
        "token, and 12 a layer, channel, query and key of causal attention, also of keys that are skipped; beside "
        "is the time over "
        "that of the first row.\n"
        "matmul: the packed matrix product on one core, without and with packing B, with A given by columns, and "
        "oneDNN's sgemm where libdnnl is installed.\n"
        "kernels: attention, norms, activations and the rest, on one core.\n"
        "weights: one row times rows of 4096 stored weights, as decoding has it, on one core, by the type of the "
        "weights; also with the row rounded to 8 bits (--activations int8). It takes turns with reading as many "
        "bytes from memory.\n"
        "Everything takes turns with a loop of multiply-adds that never leaves the registers; shares are medians "
        "of "
        "the ratios, so other load on the machine cancels out. ALIBI_ISA=avx2 (and so on) picks the instruction "
        "set. One thread is timed by its processor time.",
    .options = bench_add_options,
    .run = bench_run,
};
