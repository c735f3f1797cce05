/* The options of `alibi bench train`, checked, a run of it, and its table.  --heads, --repeats, --tolerance and
 * --model are words of `bench attention` too, and stand there. */
#include "cli/bench_train_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "bench/bench_train.h"
#include "cli/bench_attention_command.h"
#include "cli/json_output.h"
#include "cli/progress.h"
#include "cli/run.h"

typedef struct train_options {
  int64_t layers, width, length, vocabulary, batch;
  bool recompute;
} train_options;

#define OF_SHAPE(member, most, text)                                                                              \
  {                                                                                                               \
    .name = #member, .kind = FIELD_INTEGER, .offset = offsetof(train_options, member), .maximum = (most),         \
    .help = "train: " text "; 0: the model's"                                                                     \
  }

static const field train_fields[] = {
    OF_SHAPE(layers, 1024, "blocks"),
    OF_SHAPE(width, 1 << 16, "channels"),
    OF_SHAPE(length, 1 << 24, "tokens of a sequence"),
    OF_SHAPE(vocabulary, 1 << 24, "ids"),
    OF_SHAPE(batch, 1 << 20, "sequences a step"),
    {.name = "recompute",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(train_options, recompute),
     .maximum = 1,
     .help = "train: keep the inputs of blocks alone and compute the rest again in backward"},
};

static train_options options;
static const char *position_list, *team_list;

void bench_train_add_options(command_line *line)
{
  position_list = "alibi";
  team_list = NULL;
  command_add_text(line, "position", "LIST", &position_list,
                   "train: position methods; the first is what others are compared with");
  command_add_text(line, "teams", "LIST", &team_list,
                   "train: numbers of threads, each a run of its own, instead of --threads");
  command_add_group(line, "bench train", (field_table)FIELD_TABLE(train_fields), &options, "");
}

/* --- what runs --- */

static void set_if_given(int64_t *value, int64_t given)
{
  if (given > 0) *value = given;
}

static status read_shape(const bench_attention_shared *shared, bench_train_shape *shape, alibi_error *error)
{
  const char *model = shared->model ? shared->model : "A";
  if (!bench_train_named(model, shape))
    return fail(error, ALIBI_INVALID, "--model: expected A, B or C for bench train, found '%s'", model);
  if (shared->repeats > BENCH_TRAIN_TURNS)
    return fail(error, ALIBI_INVALID, "--repeats: expected at most %d for bench train, found %" PRId64,
                BENCH_TRAIN_TURNS, shared->repeats);
  set_if_given(&shape->layers, options.layers);
  set_if_given(&shape->width, options.width);
  set_if_given(&shape->heads, shared->heads);
  set_if_given(&shape->length, options.length);
  set_if_given(&shape->vocabulary, options.vocabulary);
  set_if_given(&shape->batch, options.batch);
  shape->recompute = options.recompute;
  return ALIBI_OK;
}

typedef struct run_lists {
  char positions[BENCH_TRAIN_RUNS][LIST_ITEM_SIZE];
  double tolerances[BENCH_TRAIN_RUNS];
  int64_t teams[BENCH_TRAIN_RUNS];
  size_t position_count, tolerance_count, team_count;
} run_lists;

static status read_positions(run_lists *lists, alibi_error *error)
{
  const char *item;
  size_t size;
  status result;
  TRY(list_check("--position", position_list, error));
  for (const char *rest = position_list; list_next(&rest, &item, &size);) {
    if (lists->position_count == BENCH_TRAIN_RUNS)
      RAISE(error, ALIBI_INVALID, "--position: expected at most %d methods, found more", BENCH_TRAIN_RUNS);
    TRY(list_item("--position", item, size, lists->positions[lists->position_count], error));
    for (size_t i = 0; i < lists->position_count; i++)
      if (strcmp(lists->positions[i], lists->positions[lists->position_count]) == 0)
        RAISE(error, ALIBI_INVALID, "--position: '%s' stands there twice", lists->positions[i]);
    lists->position_count++;
  }
done:
  return result;
}

/* Each number of threads with each method with each tolerance. */
static status list_runs(const bench_attention_shared *shared, run_lists *lists, bench_train_run *runs,
                        size_t *count, alibi_error *error)
{
  status result;
  TRY(read_positions(lists, error));
  lists->team_count = lists->tolerance_count = 1;
  lists->teams[0] = shared->threads;
  lists->tolerances[0] = shared->tolerance;
  if (shared->tolerances)
    TRY(bench_attention_tolerances(shared->tolerances, BENCH_TRAIN_RUNS, lists->tolerances,
                                   &lists->tolerance_count, error));
  if (team_list)
    TRY(list_lengths("--teams", team_list, 1024, lists->teams, BENCH_TRAIN_RUNS, &lists->team_count, error));
  if (lists->team_count * lists->position_count * lists->tolerance_count > BENCH_TRAIN_RUNS)
    RAISE(error, ALIBI_INVALID, "bench train: expected at most %d runs in turns, found %zu", BENCH_TRAIN_RUNS,
          lists->team_count * lists->position_count * lists->tolerance_count);
  for (size_t i = 0; i < lists->team_count; i++)
    for (size_t p = 0; p < lists->position_count; p++)
      for (size_t t = 0; t < lists->tolerance_count; t++)
        runs[(*count)++] = (bench_train_run){
            .position = lists->positions[p], .tolerance = lists->tolerances[t], .threads = (int)lists->teams[i]};
done:
  return result;
}

/* --- output --- */

static void print_rows(const bench_train_shape *s, const char *isa, const bench_train_run *runs, size_t count)
{
  double tokens = (double)s->batch * (double)s->length;
  printf("%" PRId64 " layers, width %" PRId64 ", %" PRId64 " heads, batch of %" PRId64 " x %" PRId64
         " tokens, vocabulary %" PRId64 "%s: %.2f million parameters, %.3g operations a step; %s\n",
         s->layers, s->width, s->heads, s->batch, s->length, s->vocabulary, s->recompute ? ", recompute" : "",
         runs[0].parameters * 1e-6, runs[0].operations, isa);
  printf("%-14s %9s %7s %10s %9s %9s %8s %7s %7s %10s %10s\n", "position", "tolerance", "threads", "ms a step",
         "fastest", "tokens/s", "GFLOP/s", "of peak", "beside", "weights MB", "pass MB");
  for (size_t i = 0; i < count; i++) {
    const bench_train_run *r = &runs[i];
    printf("%-14s %9.3g %7d %10.2f %9.2f %9.0f %8.1f %6.1f%% %7.3f %10.1f %10.1f\n", r->position, r->tolerance,
           r->threads, r->seconds * 1e3, r->fastest * 1e3, tokens / r->seconds, r->share * r->peak * 1e-9,
           100 * r->share, r->beside, (double)r->weight_bytes * 1e-6, (double)r->pass_bytes * 1e-6);
  }
  printf("peak %.1f GFLOP/s; beside: time over that of the first row\n", runs[0].peak * 1e-9);
}

static json_node *run_to_node(const bench_train_shape *s, const bench_train_run *r)
{
  json_node *node = node_new_object();
  node_set_text(node, "position", r->position);
  node_set_number(node, "tolerance", r->tolerance);
  node_set_integer(node, "threads", r->threads);
  node_set_number(node, "seconds", r->seconds);
  node_set_number(node, "fastest_seconds", r->fastest);
  node_set_number(node, "tokens_per_second", (double)s->batch * (double)s->length / r->seconds);
  node_set_number(node, "gflops", r->share * r->peak * 1e-9);
  node_set_number(node, "peak_gflops", r->peak * 1e-9);
  node_set_number(node, "share_of_peak", r->share);
  node_set_number(node, "beside_first", r->beside);
  node_set_number(node, "parameters", r->parameters);
  node_set_number(node, "operations", r->operations);
  node_set_integer(node, "weight_bytes", (int64_t)r->weight_bytes);
  node_set_integer(node, "pass_bytes", (int64_t)r->pass_bytes);
  return node;
}

static status print_json(const bench_train_shape *s, const char *isa, const bench_train_run *runs, size_t count,
                         alibi_error *error)
{
  json_node *root = node_new_object(), *list = node_new_array();
  node_set_text(root, "group", "train");
  node_set_text(root, "instruction_set", isa);
  node_set_integer(root, "layers", s->layers);
  node_set_integer(root, "width", s->width);
  node_set_integer(root, "heads", s->heads);
  node_set_integer(root, "length", s->length);
  node_set_integer(root, "vocabulary", s->vocabulary);
  node_set_integer(root, "batch", s->batch);
  node_set_boolean(root, "recompute", s->recompute);
  for (size_t i = 0; i < count; i++) node_append(list, run_to_node(s, &runs[i]));
  node_set(root, "rows", list);
  return print_node(root, error);
}

static void on_progress(void *user, size_t done, size_t total)
{
  static int item = -1;
  (void)user;
  if (item < 0) item = progress_begin("steps in turns", (double)total, "steps");
  progress_update(item, (double)done, NULL);
  if (done < total) return;
  progress_end(item, NULL);
  item = -1;
}

status bench_train_command(const command_line *line, bool json, alibi_error *error)
{
  static run_lists lists;
  bench_attention_shared shared = bench_attention_shared_options(line);
  bench_train_shape shape;
  bench_train_run runs[BENCH_TRAIN_RUNS];
  size_t count = 0;
  alibi_context *context = NULL;
  status result;
  memset(&lists, 0, sizeof lists);
  TRY(read_shape(&shared, &shape, error));
  TRY(cli_context(&context, error));
  if (shared.threads == 0) shared.threads = 1;
  shared.tolerance = context->tolerance;
  TRY(list_runs(&shared, &lists, runs, &count, error));
  TRY(bench_train(context, &shape, shared.repeats, runs, count, on_progress, NULL, error));
  progress_clear();
  if (json) TRY(print_json(&shape, alibi_context_isa(context), runs, count, error));
  else print_rows(&shape, alibi_context_isa(context), runs, count);
done:
  progress_clear();
  cli_context_free(context);
  return result;
}
