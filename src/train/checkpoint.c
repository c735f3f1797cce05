/* Checkpoints.  state.json is written last and names the others by fingerprint; the directory gets its name after
 * that. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/fingerprint.h"
#include "base/system.h"
#include "file/safetensors.h"
#include "model/config.h"

#define FORMAT_NAME "alibi-checkpoint"
#define STATE_FILE "state.json"
#define OPTIMISER_FILE "optimiser.safetensors"
#define TOKENIZER_FILE "tokenizer.json"

enum { VERSION = 1, MOMENTS = 2, TENSOR_NAME_SIZE = 128, STEP_DIGITS = 8 };

static const char *const model_files[] = {"config.json", "model.safetensors", OPTIMISER_FILE, NULL};
static const char *const moment_names[MOMENTS] = {"first_moment", "second_moment"};

static status join(const char *directory, const char *name, char **path, alibi_error *error)
{
  *path = path_join(directory, name);
  return *path ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the path of %s", name);
}

/* ---- the moments ---- */

typedef struct tensor_name {
  char text[TENSOR_NAME_SIZE];
} tensor_name;

static void name_moment(const parameter *p, size_t moment, tensor_name *name)
{
  snprintf(name->text, sizeof name->text, "%s.%.96s", moment_names[moment], p->name);
}

/* Both moments of all parameters, laid out as the model's values: of one rank its own; of more, rank 0 collects
 * them, the first where the gradients lie between two steps. */
typedef struct whole_moments {
  const float *blocks[MOMENTS]; /* NULL on other ranks than 0 */
  float *collected;             /* the second one */
} whole_moments;

typedef struct collecting {
  float *block;
  size_t done; /* floats */
} collecting;

static status collect(void *user, const void *data, size_t bytes, alibi_error *error)
{
  collecting *into = user;
  (void)error;
  memcpy(into->block + into->done, data, bytes);
  into->done += bytes / sizeof(float);
  return ALIBI_OK;
}

/* begun: the status of what was done before, on which the ranks agree here. */
static status whole_moments_new(const alibi_trainer *t, status begun, whole_moments *whole, alibi_error *error)
{
  const float *const own[MOMENTS] = {t->moments, t->variances};
  bool first = comm_rank(t->comm) == 0, alone = comm_ranks(t->comm) == 1;
  status result = begun;
  *whole = (whole_moments){0};
  if (result == ALIBI_OK && first && !alone)
    result = memory_new(&whole->collected, t->shards.floats, sizeof(float), "the moments of all ranks", error);
  TRY(comm_agree(t->comm, result, error));
  float *places[MOMENTS] = {t->gradients, whole->collected};
  for (size_t moment = 0; moment < MOMENTS; moment++) {
    collecting into = {.block = places[moment]};
    whole->blocks[moment] = alone ? own[moment] : first ? into.block : NULL;
    for (size_t b = 0; b < t->shards.bucket_count && !alone; b++)
      TRY(comm_collect(t->comm, own[moment] + shards_place(&t->shards, b),
                       shards_own(&t->shards, b).count * sizeof(float), collect, &into, error));
  }
done:
  return result;
}

static void whole_moments_free(whole_moments *whole)
{
  memory_free(whole->collected);
}

static status save_moments(const alibi_trainer *t, const whole_moments *whole, const char *path,
                           alibi_error *error)
{
  const parameter_list *list = &t->model->list;
  const float *const *blocks = whole->blocks;
  file_tensor *tensors = NULL;
  tensor_name *names = NULL;
  status result;
  TRY(memory_new(&tensors, MOMENTS * list->count, sizeof *tensors, "the list of moments", error));
  TRY(memory_new(&names, MOMENTS * list->count, sizeof *names, "the list of moments", error));
  for (size_t i = 0; i < MOMENTS * list->count; i++) {
    const parameter *p = &list->items[i % list->count];
    size_t moment = i / list->count;
    name_moment(p, moment, &names[i]);
    tensors[i] = (file_tensor){.name = names[i].text,
                               .type = TENSOR_F32,
                               .dimensions = 1,
                               .shape = {parameter_elements(p)},
                               .data = blocks[moment] + p->offset,
                               .bytes = parameter_elements(p) * sizeof(float)};
  }
  TRY(safetensors_write(path, tensors, MOMENTS * list->count, NULL, error));
done:
  memory_free(names);
  memory_free(tensors);
  return result;
}

static status load_moments(alibi_trainer *t, const char *path, alibi_error *error)
{
  const parameter_list *list = &t->model->list;
  float *const blocks[MOMENTS] = {t->moments, t->variances};
  safetensors_file *file;
  status result = safetensors_open(path, &file, error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < MOMENTS * list->count; i++) {
    const parameter *p = &list->items[i % list->count];
    size_t bytes = parameter_elements(p) * sizeof(float);
    tensor_name name;
    name_moment(p, i / list->count, &name);
    const file_tensor *found = safetensors_find(file, name.text);
    if (!found || found->type != TENSOR_F32 || found->bytes != bytes)
      RAISE(error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %zu numbers of type F32, found %s", path, name.text,
            parameter_elements(p), found ? "another size or type" : "no such tensor");
    const char *values = found->data; /* at any address */
    for (size_t b = 0; b < t->shards.bucket_count; b++) {
      shard_span own = shards_own(&t->shards, b);
      shard_span part = shards_common(own, (shard_span){p->offset, parameter_elements(p)});
      if (part.count == 0) continue;
      memcpy(blocks[i / list->count] + shards_place(&t->shards, b) + (part.from - own.from),
             values + (part.from - p->offset) * sizeof(float), part.count * sizeof(float));
    }
  }
done:
  safetensors_close(file);
  return result;
}

/* ---- state.json ---- */

#define AT(member) offsetof(spike_guard, member)

static const field guard_fields[] = {
    {.name = "count", .kind = FIELD_INTEGER, .offset = AT(count), .maximum = 1e15},
    {.name = "loss_mean", .kind = FIELD_REAL, .offset = AT(loss_mean), .minimum = -1e300, .maximum = 1e300},
    {.name = "loss_variance", .kind = FIELD_REAL, .offset = AT(loss_variance), .maximum = 1e300},
    {.name = "norm_mean", .kind = FIELD_REAL, .offset = AT(norm_mean), .maximum = 1e300},
    {.name = "norm_variance", .kind = FIELD_REAL, .offset = AT(norm_variance), .maximum = 1e300},
};

static const field_table guard_table = FIELD_TABLE(guard_fields);

static json_node *sources_node(const batches *b)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < b->source_count; i++) {
    json_node *source = node_new_object();
    char text[FINGERPRINT_TEXT_SIZE];
    fingerprint_to_text(b->sources[i].fingerprint, text);
    node_set_text(source, "name", b->sources[i].name);
    node_set_integer(source, "tokens", (int64_t)b->sources[i].count);
    node_set_text(source, "fingerprint", text);
    node_set_number(source, "share", b->shares[i]);
    node_append(list, source);
  }
  return list;
}

#define OWN_FINGERPRINT "fingerprint"

/* Of state.json itself: of its values, with nothing in the place of the fingerprint. */
static status fingerprint_of_state(json_node *root, char text[FINGERPRINT_TEXT_SIZE], alibi_error *error)
{
  node_set_text(root, OWN_FINGERPRINT, NULL);
  char *values = node_to_text(root);
  if (!values) return fail(error, ALIBI_FAILED, "not enough memory for the state of a checkpoint");
  fingerprint_to_text(fingerprint_of(values, strlen(values)), text);
  free(values);
  return ALIBI_OK;
}

static status check_state(const char *path, json_node *root, alibi_error *error)
{
  uint64_t expected;
  char text[FINGERPRINT_TEXT_SIZE], found[FINGERPRINT_TEXT_SIZE];
  const char *written = node_text(node_get(root, OWN_FINGERPRINT), NULL);
  if (!fingerprint_from_text(written, &expected))
    return fail(error, ALIBI_BAD_INPUT, "%s: expected its own fingerprint, found none", path);
  fingerprint_to_text(expected, text);
  status result = fingerprint_of_state(root, found, error);
  if (result != ALIBI_OK || strcmp(found, text) == 0) return result;
  return fail(error, ALIBI_BAD_INPUT,
              "%s: expected the state that was saved, found a damaged one (its fingerprint differs)", path);
}

static status add_fingerprint(json_node *files, const char *directory, const char *name, alibi_error *error)
{
  char text[FINGERPRINT_TEXT_SIZE], *path;
  uint64_t value;
  status result = join(directory, name, &path, error);
  if (result != ALIBI_OK) return result;
  result = fingerprint_of_file(path, &value, error);
  if (result == ALIBI_OK) {
    fingerprint_to_text(value, text);
    node_set_text(files, name, text);
  }
  free(path);
  return result;
}

/* Takes over `run`. */
static status write_state(const alibi_trainer *t, bool tokenizer, json_node *run, const char *directory,
                          alibi_error *error)
{
  json_node *root = node_new_object(), *options = node_new_object(), *guard = node_new_object(),
            *files = node_new_object();
  char *path = NULL, own[FINGERPRINT_TEXT_SIZE];
  status result;
  node_set_text(root, "format", FORMAT_NAME);
  node_set_integer(root, "version", VERSION);
  node_set_null(root, OWN_FINGERPRINT);
  node_set_text(root, "alibi_version", alibi_version());
  node_set_integer(root, "step", t->step);
  node_set_integer(root, "tokens_done", t->tokens_done);
  node_set(root, "model", model_config_node(&t->model->config));
  node_set_fields(options, train_option_fields(), &t->options);
  node_set(root, "training", options);
  node_set_fields(guard, guard_table, &t->guard);
  node_set(root, "spike_guard", guard);
  node_set(root, "sources", sources_node(&t->batches));
  if (run) node_set(root, "run", run);
  node_set(root, "files", files);
  for (size_t i = 0; model_files[i]; i++) TRY(add_fingerprint(files, directory, model_files[i], error));
  if (tokenizer) TRY(add_fingerprint(files, directory, TOKENIZER_FILE, error));
  TRY(fingerprint_of_state(root, own, error));
  node_set_text(root, OWN_FINGERPRINT, own);
  TRY(join(directory, STATE_FILE, &path, error));
  TRY(node_write_file(root, path, error));
done:
  free(path);
  node_free(root);
  return result;
}

/* ---- one checkpoint ---- */

static status write_files(const alibi_trainer *t, const whole_moments *whole, const alibi_tokenizer *tokenizer,
                          json_node *run, const char *folder, alibi_error *error)
{
  char *optimiser = NULL, *tokens = NULL;
  status result;
  TRY(join(folder, OPTIMISER_FILE, &optimiser, error));
  TRY(join(folder, TOKENIZER_FILE, &tokens, error));
  TRY(alibi_model_save(t->model, folder, error));
  TRY(save_moments(t, whole, optimiser, error));
  if (tokenizer) TRY(alibi_tokenizer_save(tokenizer, tokens, error));
  result = write_state(t, tokenizer != NULL, run, folder, error);
  run = NULL;
done:
  node_free(run);
  free(tokens);
  free(optimiser);
  return result;
}

static status begin_directory(const char *directory, char **beside, alibi_error *error)
{
  size_t size = strlen(directory) + sizeof ".new";
  *beside = malloc(size);
  if (!*beside) return fail(error, ALIBI_FAILED, "not enough memory for a path");
  snprintf(*beside, size, "%s.new", directory);
  status result = directory_remove(*beside, error);
  return result == ALIBI_OK ? directory_make(*beside, error) : result;
}

status checkpoint_save(const alibi_trainer *t, const alibi_tokenizer *tokenizer, json_node *run,
                       const char *directory, alibi_error *error)
{
  bool writes = comm_rank(t->comm) == 0;
  char *beside = NULL;
  whole_moments whole;
  status result = writes ? begin_directory(directory, &beside, error) : ALIBI_OK;
  result = whole_moments_new(t, result, &whole, error);
  if (result == ALIBI_OK) {
    if (writes) {
      result = write_files(t, &whole, tokenizer, run, beside, error);
      run = NULL;
      if (result == ALIBI_OK) result = directory_replace(beside, directory, error);
    }
    result = comm_agree(t->comm, result, error);
  }
  if (result != ALIBI_OK && beside) directory_remove(beside, NULL); /* room for the next try */
  whole_moments_free(&whole);
  node_free(run);
  free(beside);
  return result;
}

static status check_files(const char *directory, const json_node *files, alibi_error *error)
{
  char *path = NULL;
  status result = ALIBI_OK;
  for (size_t i = 0; model_files[i]; i++)
    if (!node_get(files, model_files[i]))
      RAISE(error, ALIBI_BAD_INPUT, "%s: %s: files: expected a fingerprint of %s, found none", directory,
            STATE_FILE, model_files[i]);
  for (size_t i = 0; i < node_count(files); i++) {
    const char *name;
    const char *text = node_text(node_member(files, i, &name), NULL);
    uint64_t expected, found;
    if (!fingerprint_from_text(text, &expected))
      RAISE(error, ALIBI_BAD_INPUT, "%s: %s: files: %s: expected a fingerprint, found none", directory, STATE_FILE,
            name);
    TRY(join(directory, name, &path, error));
    TRY(fingerprint_of_file(path, &found, error));
    if (found != expected)
      RAISE(error, ALIBI_BAD_INPUT,
            "%s: expected the file that was saved, found another or a damaged one (its fingerprint differs)",
            path);
    free(path);
    path = NULL;
  }
done:
  free(path);
  return result;
}

static status read_state(const char *path, checkpoint_about *about, alibi_error *error)
{
  json_node *root = about->root;
  static const char *const none[] = {NULL};
  status result = ALIBI_OK;
  const char *format = node_text(node_get(root, "format"), "nothing");
  if (strcmp(format, FORMAT_NAME) != 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: format: expected '%s', found '%.64s'", path, FORMAT_NAME, format);
  if (node_integer(node_get(root, "version"), 0) != VERSION)
    RAISE(error, ALIBI_BAD_INPUT, "%s: version: expected %d, found %" PRId64, path, VERSION,
          node_integer(node_get(root, "version"), 0));
  TRY(check_state(path, root, error));
  about->step = node_integer(node_get(root, "step"), -1);
  about->tokens_done = node_integer(node_get(root, "tokens_done"), -1);
  if (about->step < 0 || about->tokens_done < 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected a step and tokens_done, found none", path);
  TRY(model_config_read(node_get(root, "model"), path, &about->config, error));
  alibi_train_options_init(&about->options);
  TRY(node_get_fields(node_get(root, "training"), train_option_fields(), &about->options, path, none, error));
  about->run = node_get(root, "run");
done:
  return result;
}

void checkpoint_about_free(checkpoint_about *about)
{
  node_free(about->root);
  *about = (checkpoint_about){0};
}

status checkpoint_read(const char *directory, checkpoint_about *about, alibi_error *error)
{
  char *path = NULL;
  status result;
  *about = (checkpoint_about){0};
  TRY(join(directory, STATE_FILE, &path, error));
  TRY(node_read_file(path, &about->root, error));
  TRY(read_state(path, about, error));
  TRY(check_files(directory, node_get(about->root, "files"), error));
done:
  free(path);
  if (result != ALIBI_OK) checkpoint_about_free(about);
  return result;
}

static status check_sources(const char *directory, const json_node *saved, const batches *b, alibi_error *error)
{
  if (node_count(saved) != b->source_count)
    return fail(error, ALIBI_INVALID, "%s: expected the %zu sources of tokens that it was trained on, found %zu",
                directory, node_count(saved), b->source_count);
  for (size_t i = 0; i < b->source_count; i++) {
    const json_node *node = node_at(saved, i);
    const char *name = node_text(node_get(node, "name"), "?"),
               *text = node_text(node_get(node, "fingerprint"), NULL);
    uint64_t expected;
    if (!fingerprint_from_text(text, &expected) || expected != b->sources[i].fingerprint)
      return fail(error, ALIBI_INVALID,
                  "%s: expected the tokens that it was trained on, %.200s with fingerprint %.16s, found other "
                  "ones in %.200s",
                  directory, name, text ? text : "none", b->sources[i].name);
    if (node_number(node_get(node, "share"), 0) != b->shares[i])
      return fail(error, ALIBI_INVALID, "%s: share of %.200s: expected that of the checkpoint, %g, found %g",
                  directory, name, node_number(node_get(node, "share"), 0), b->shares[i]);
  }
  return ALIBI_OK;
}

status checkpoint_trainer(alibi_context *context, const char *directory, const checkpoint_about *about,
                          const token_source *sources, const double *shares, size_t count, alibi_trainer **trainer,
                          alibi_error *error)
{
  static const char *const none[] = {NULL};
  alibi_model *model = NULL;
  alibi_trainer *t = NULL;
  char *optimiser = NULL;
  status result;
  *trainer = NULL;
  TRY(alibi_model_open(context, directory, &model, error));
  TRY(join(directory, OPTIMISER_FILE, &optimiser, error));
  TRY(trainer_new(context, model, &about->config, &about->options, sources, shares, count, &t, error));
  TRY(check_sources(directory, node_get(about->root, "sources"), &t->batches, error));
  TRY(load_moments(t, optimiser, error));
  TRY(node_get_fields(node_get(about->root, "spike_guard"), guard_table, &t->guard, directory, none, error));
  t->step = about->step;
  t->tokens_done = about->tokens_done;
  *trainer = t;
  t = NULL;
done:
  alibi_trainer_free(t);
  free(optimiser);
  alibi_model_free(model);
  return result;
}

status checkpoint_open(alibi_context *context, const char *directory, const token_source *sources,
                       const double *shares, size_t count, alibi_trainer **trainer, alibi_error *error)
{
  checkpoint_about about;
  *trainer = NULL;
  status result = checkpoint_read(directory, &about, error);
  if (result == ALIBI_OK)
    result = checkpoint_trainer(context, directory, &about, sources, shares, count, trainer, error);
  checkpoint_about_free(&about);
  return result;
}

status alibi_trainer_save(alibi_trainer *trainer, const char *directory, alibi_error *error)
{
  return checkpoint_save(trainer, NULL, NULL, directory, error);
}

status alibi_trainer_open(alibi_context *context, const char *directory, const uint32_t *tokens, size_t count,
                          alibi_trainer **trainer, alibi_error *error)
{
  checkpoint_about about;
  token_source *source = NULL;
  status result;
  *trainer = NULL;
  TRY(checkpoint_read(directory, &about, error));
  TRY(trainer_own_source(&about.config, tokens, count, &source, error));
  TRY(checkpoint_trainer(context, directory, &about, source, NULL, 1, trainer, error));
  (*trainer)->own = source;
  source = NULL;
done:
  if (source) token_source_close(source);
  memory_free(source);
  checkpoint_about_free(&about);
  return result;
}

/* ---- the checkpoints of a run ---- */

char *checkpoint_path(const char *folder, int64_t step)
{
  char name[64];
  snprintf(name, sizeof name, "step-%0*" PRId64, STEP_DIGITS, step);
  return path_join(folder, name);
}

/* "step-" and digits alone: no unfinished save. */
static bool is_checkpoint(const char *name)
{
  size_t digits = strncmp(name, "step-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
  return digits >= STEP_DIGITS && name[5 + digits] == '\0';
}

/* By their steps, which have more digits where they are more than STEP_DIGITS can write. */
static int by_step(const void *left, const void *right)
{
  const char *a = *(char *const *)left, *b = *(char *const *)right;
  size_t size = strlen(a), other = strlen(b);
  return size != other ? (size > other) - (size < other) : strcmp(a, b);
}

static status read_folder(const char *folder, directory_list *list, alibi_error *error)
{
  status result = directory_read(folder, list, error);
  if (result == ALIBI_OK && list->count > 1) qsort(list->names, list->count, sizeof *list->names, by_step);
  return result;
}

static bool is_unfinished(const char *name)
{
  const char *point = strchr(name, '.');
  return strncmp(name, "step-", 5) == 0 && point && (strcmp(point, ".new") == 0 || strcmp(point, ".old") == 0);
}

status checkpoint_newest(const char *folder, void (*damaged)(void *user, const char *sentence), void *user,
                         char **path, checkpoint_about *about, alibi_error *error)
{
  directory_list list = {0};
  status result = ALIBI_OK;
  *path = NULL;
  *about = (checkpoint_about){0};
  if (!path_is_directory(folder)) return ALIBI_OK;
  TRY(read_folder(folder, &list, error));
  for (size_t i = list.count; i-- > 0 && !*path;) {
    alibi_error why = {0};
    if (!is_checkpoint(list.names[i])) continue;
    TRY(join(folder, list.names[i], path, error));
    if (checkpoint_read(*path, about, &why) == ALIBI_OK) break;
    if (damaged) damaged(user, why.message);
    free(*path);
    *path = NULL;
  }
done:
  directory_list_free(&list);
  return result;
}

status checkpoint_prune(const char *folder, size_t keep, alibi_error *error)
{
  directory_list list = {0};
  char *path = NULL;
  size_t kept = 0;
  status result;
  TRY(read_folder(folder, &list, error));
  for (size_t i = list.count; i-- > 0;) {
    bool old = is_checkpoint(list.names[i]) && kept++ >= keep;
    if (!old && !is_unfinished(list.names[i])) continue;
    TRY(join(folder, list.names[i], &path, error));
    TRY(old ? directory_drop(path, error) : directory_remove(path, error));
    free(path);
    path = NULL;
  }
done:
  free(path);
  directory_list_free(&list);
  return result;
}
