/* Converting: what is left behind, what is never touched, how far it is, what has no place; tokenizers that
 * travel. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "alibi/convert.h"
#include "base/context.h"
#include "base/directory.h"
#include "base/system.h"
#include "file/tensor_file.h"
#include "file/tensor_file.h"
#include "kernel/weight_plain.h"
#include "model/model.h"
#include "text/tokenizer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/family_case.h"

#ifndef FAMILY_CASES
#error "FAMILY_CASES: where tests/golden/families is (tests/CMakeLists.txt)"
#endif

static alibi_convert_options options;

/* A path of the scratch folder that stays valid. */
static const char *place(const char *name)
{
  static char paths[24][512];
  static const char *known[24];
  size_t i = 0;
  while (i < 24 && known[i] && strcmp(known[i], name) != 0) i++;
  assert_true(i < 24);
  known[i] = name;
  snprintf(paths[i], sizeof paths[0], "%s/%s", scratch_folder, name);
  return paths[i];
}

static void begin_case(const char *family)
{
  scratch_remove_tree(place("out"));
  unlink(place("out"));
  begin(family);
  family_tensors_write(&tensors, folder());
  alibi_convert_options_init(&options);
}

static status convert(const char *from, const char *to, int format)
{
  alibi_error_init(&error);
  options.format = format;
  return alibi_model_convert(context, from, to, &options, &error);
}

static void converted(const char *from, const char *to, int format)
{
  if (convert(from, to, format) != ALIBI_OK) fail_msg("%s", error.message);
}

static size_t entries_of(const char *path)
{
  directory_list list = {0};
  assert_int_equal(directory_read(path, &list, &error), ALIBI_OK);
  size_t count = list.count;
  directory_list_free(&list);
  return count;
}

/* Refused with these words, and nothing but the source is there. */
static void leaves_nothing(const char *from, int format, status expected, const char *part)
{
  size_t before = entries_of(scratch_folder);
  status result = convert(from, place("out"), format);
  if (result != expected) fail_msg("format %d: status %d: %s", format, (int)result, error.message);
  scratch_says(error.message, part);
  assert_false(path_exists(place("out")));
  assert_int_equal(entries_of(scratch_folder), before);
}

/* ---- progress, cancel ---- */

typedef struct told {
  int64_t done, total;
  size_t calls, cancel_at;
  alibi_context *context;
} told;

static void tell(void *user, int64_t done, int64_t total)
{
  told *t = user;
  assert_true(done >= t->done && done <= total && (t->calls == 0 || total == t->total));
  t->done = done;
  t->total = total;
  if (++t->calls == t->cancel_at) alibi_context_cancel(t->context);
}

static void progress_ends_at_all_bytes(void **unused)
{
  (void)unused;
  size_t bytes = 0;
  for (int format = ALIBI_FORMAT_ALIBI; format <= ALIBI_FORMAT_GGUF; format++) {
    told t = {.context = context};
    begin_case("llama");
    bytes = 0;
    for (size_t i = 0; i < tensors.count; i++) bytes += tensors.list[i].bytes;
    options.progress = tell;
    options.user = &t;
    converted(folder(), place("out"), format);
    assert_true(t.calls > 0 && t.done == t.total);
    assert_int_equal(t.total, bytes); /* F32 stays F32, and nothing is added */
  }
}

static void a_cancel_leaves_nothing(void **unused)
{
  (void)unused;
  for (int format = ALIBI_FORMAT_ALIBI; format <= ALIBI_FORMAT_GGUF; format++)
    for (size_t at = 1; at < 200; at = 3 * at) {
      told t = {.cancel_at = at};
      alibi_context *own, *others = context;
      alibi_context_options threads;
      alibi_context_options_init(&threads);
      threads.threads = 1;
      assert_int_equal(alibi_context_new(&threads, &own, &error), ALIBI_OK);
      t.context = own;
      begin_case("bloom");
      options.progress = tell;
      options.user = &t;
      if (format == ALIBI_FORMAT_SAFETENSORS) options.shard_bytes = 2000;
      context = own;
      status result = convert(folder(), place("out"), format);
      context = others;
      alibi_context_free(own);
      if (t.calls < at) break;
      assert_int_equal(result, ALIBI_CANCELLED);
      assert_false(path_exists(place("out")));
      assert_int_equal(entries_of(scratch_folder), 1);
    }
}

/* ---- places ---- */

static void a_disk_that_is_full_is_one_sentence(void **unused)
{
  (void)unused;
  struct rlimit before, small;
  begin_case("bloom");
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 10000; /* the model has three times as many bytes */
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int format = ALIBI_FORMAT_ALIBI; format <= ALIBI_FORMAT_GGUF; format++) {
    status result = convert(folder(), place("out"), format);
    if (result != ALIBI_FAILED || !strstr(error.message, "cannot write")) {
      setrlimit(RLIMIT_FSIZE, &before);
      fail_msg("format %d: status %d: %s", format, (int)result, error.message);
    }
    assert_false(path_exists(place("out")));
    assert_int_equal(entries_of(scratch_folder), 1);
  }
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
}

static void what_is_there_is_not_touched(void **unused)
{
  (void)unused;
  begin_case("bloom");
  for (int format = ALIBI_FORMAT_ALIBI; format <= ALIBI_FORMAT_GGUF; format++) {
    scratch_write(place("out"), "mine", 4);
    assert_int_equal(convert(folder(), place("out"), format), ALIBI_FAILED);
    scratch_says(error.message, "expected nothing there yet");
    scratch_expect(place("out"), "mine");
    unlink(place("out"));
    assert_int_equal(mkdir(place("out"), 0777), 0);
    assert_int_equal(convert(folder(), place("out"), format), ALIBI_FAILED);
    assert_int_equal(entries_of(place("out")), 0);
    rmdir(place("out"));
    assert_int_equal(convert(folder(), folder(), format), ALIBI_FAILED); /* itself */
    assert_int_equal(convert(folder(), "/proc/none/out", format), ALIBI_FAILED);
    scratch_says(error.message, "/proc/none");
    assert_int_equal(convert(folder(), place("model/config.json/out"), format), ALIBI_FAILED);
  }
}

static void what_is_no_model_is_refused(void **unused)
{
  (void)unused;
  begin_case("bloom");
  leaves_nothing(place("none"), ALIBI_FORMAT_GGUF, ALIBI_BAD_INPUT, "none: cannot open");
  leaves_nothing(scratch_folder, ALIBI_FORMAT_ALIBI, ALIBI_BAD_INPUT, "expected model.safetensors");
  leaves_nothing(place("model/config.json"), ALIBI_FORMAT_GGUF, ALIBI_BAD_INPUT, "config.json");
  leaves_nothing(place("model/model.safetensors"), ALIBI_FORMAT_SAFETENSORS, ALIBI_INVALID, "found a file");
  leaves_nothing(folder(), 7, ALIBI_INVALID, "format: expected");
  options.shard_bytes = 0;
  leaves_nothing(folder(), ALIBI_FORMAT_SAFETENSORS, ALIBI_INVALID, "shard_bytes: expected at least 1");
  unlink(place("model/config.json"));
  alibi_convert_options_init(&options);
  leaves_nothing(folder(), ALIBI_FORMAT_SAFETENSORS, ALIBI_BAD_INPUT, "config.json");
}

/* A model that was trained here, with these fields changed ("position", "rope"; ended by NULL). */
static void make_trained(const char *const *fields, const char *to)
{
  alibi_model_config config;
  alibi_model *model = NULL;
  alibi_model_config_init(&config);
  config.vocabulary = 260;
  config.layers = 2;
  config.width = 32;
  config.heads = 4;
  config.train_length = 16;
  for (; *fields; fields += 2)
    if (alibi_model_config_set(&config, fields[0], fields[1], &error) != ALIBI_OK) fail_msg("%s", error.message);
  scratch_remove_tree(to);
  if (alibi_model_new(context, &config, 7, &model, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(alibi_model_save(model, to, &error), ALIBI_OK);
  alibi_model_free(model);
}

static const char *family_of(const char *path)
{
  alibi_model *model = NULL;
  if (alibi_model_open(context, path, &model, &error) != ALIBI_OK) fail_msg("%s", error.message);
  const char *family = alibi_model_family(model);
  alibi_model_free(model);
  return family;
}

static void expect_same_weights(const char *first, const char *second)
{
  tensor_file *one = NULL, *other = NULL;
  assert_int_equal(tensor_file_open(first, &one, &error), ALIBI_OK);
  assert_int_equal(tensor_file_open(second, &other, &error), ALIBI_OK);
  assert_int_equal(tensor_file_count(one), tensor_file_count(other));
  for (size_t i = 0; i < tensor_file_count(one); i++) {
    const file_tensor *t = tensor_file_at(one, i), *u = tensor_file_find(other, t->name);
    assert_non_null(u);
    assert_int_equal(u->bytes, t->bytes);
    assert_memory_equal(u->data, t->data, t->bytes);
  }
  tensor_file_close(other);
  tensor_file_close(one);
}

/* What was trained here goes to the first family that has words for all of it, and back to the same numbers. */
static void trained_models_become_public_ones(void **unused)
{
  (void)unused;
  static const struct {
    const char *fields[13], *family, *gguf; /* NULL: none has words for it */
  } cases[] = {
      {{NULL}, "mpt", "mpt"},
      {{"clip_qkv", "6", NULL}, "mpt", "mpt"},
      {{"alibi_max_bias", "16", NULL}, NULL, "mpt"}, /* transformers' class has slopes for 8 only */
      {{"bias", "true", "norm_bias", "true", NULL}, NULL, "mpt"},
      {{"position", "rope-window", "norm", "rmsnorm", "activation", "swiglu", NULL}, "mistral", NULL},
      {{"position", "rope", "norm", "rmsnorm", "activation", "swiglu", NULL}, "llama", "llama"},
      {{"position", "rope", "rope_layout", "adjacent", "norm", "rmsnorm", "activation", "swiglu", "kv_heads", "2",
        NULL},
       "llama",
       "llama"},
      {{"position", "rope", "norm", "rmsnorm", "activation", "swiglu", "qkv_bias", "yes", "tied", "false", NULL},
       "qwen2", "llama"},
      {{"position", "rope", "norm", "rmsnorm", "activation", "swiglu", "qk_norm", "true", NULL}, "qwen3", "qwen3"},
      {{"position", "rope-window", "rope-window_window", "9", "norm", "rmsnorm", "activation", "swiglu", NULL},
       "mistral", NULL},
      {{"position", "learned", "bias", "true", "norm_bias", "true", "activation", "gelu-tanh", NULL},
       "gpt2",
       "gpt2"},
      {{"position", "rope", "rope_layout", "adjacent", "rope_fraction", "0.5", "bias", "true", "norm_bias", "true",
        NULL},
       "gpt_neox",
       NULL}, /* llama.cpp's has an output weight of its own: */
      {{"position", "rope", "rope_fraction", "0.5", "bias", "true", "norm_bias", "true", "tied", "false", NULL},
       "gpt_neox",
       "gpt_neox"},
      {{"position", "rope-window", "rope-window_window", "9", "norm", "rmsnorm", "activation", "swiglu",
        "extension", "llama3:factor=4,original_length=16", NULL},
       "mistral",
       NULL}, /* not without its window */
      {{"heads", "1", "qk_norm", "true", NULL}, NULL, NULL}, /* which is no norm of all heads' channels */
      {{"position", "kerple-log", NULL}, NULL, NULL},
      {{"position", "t5", NULL}, NULL, NULL},
      {{"score_scaling", "log-n", NULL}, NULL, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    static const int formats[] = {ALIBI_FORMAT_SAFETENSORS, ALIBI_FORMAT_GGUF};
    const char *ours = place("ours"), *out = place("out"), *again = place("again");
    begin_case("bloom");
    make_trained(cases[i].fields, ours);
    for (size_t f = 0; f < 2; f++) {
      const char *family = f ? cases[i].gguf : cases[i].family;
      if (!family) {
        leaves_nothing(ours, formats[f], ALIBI_INVALID, "a public family has words for");
        continue;
      }
      converted(ours, out, formats[f]);
      assert_string_equal(family_of(out), family);
      converted(out, again, ALIBI_FORMAT_ALIBI);
      if (!strstr(family, "llama") || !f) {
        bool exchanged = cases[i].fields[2] && strcmp(cases[i].fields[2], "rope_layout") == 0;
        if (!exchanged) expect_same_weights(ours, again);
      }
      scratch_remove_tree(again);
      scratch_remove_tree(out);
      unlink(out);
    }
    scratch_remove_tree(ours);
  }
}

static void directories_of_quantised_models_have_a_type(void **unused)
{
  (void)unused;
  const char *quantised = FAMILY_CASES "/gguf-llama-q4_0/model.gguf";
  begin_case("llama");
  options.without_tokenizer = 1;
  leaves_nothing(quantised, ALIBI_FORMAT_SAFETENSORS, ALIBI_INVALID, "type: expected F32, F16 or BF16 for");
  options.type = "BF16";
  converted(quantised, place("out"), ALIBI_FORMAT_SAFETENSORS);
  assert_string_equal(family_of(place("out")), "llama");
}

/* ---- numbers without a place ---- */

static void numbers_beyond_a_type_are_refused(void **unused)
{
  (void)unused;
  static const struct {
    float number;
    const char *type;
    int format;
    status status;
  } cases[] = {{65600, "F16", ALIBI_FORMAT_SAFETENSORS, ALIBI_INVALID},
               {-65600, "F16", ALIBI_FORMAT_GGUF, ALIBI_INVALID},
               {9e6F, "Q8_0", ALIBI_FORMAT_GGUF, ALIBI_INVALID},
               {-6e5F, "Q4_0", ALIBI_FORMAT_GGUF, ALIBI_INVALID},
               /* the file's fault, not that of who chose the type */
               {NAN, "BF16", ALIBI_FORMAT_SAFETENSORS, ALIBI_BAD_INPUT},
               {NAN, "Q8_0", ALIBI_FORMAT_GGUF, ALIBI_BAD_INPUT},
               {INFINITY, "BF16", ALIBI_FORMAT_GGUF, ALIBI_BAD_INPUT}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    begin_case("gpt_neox");
    file_tensor *t = family_tensors_find(&tensors, "gpt_neox.layers.1.mlp.dense_4h_to_h.weight");
    ((float *)(void *)(uintptr_t)t->data)[77] = cases[i].number;
    family_tensors_write(&tensors, folder());
    options.type = cases[i].type;
    leaves_nothing(folder(), cases[i].format, cases[i].status,
                   cases[i].status == ALIBI_INVALID ? "which is what" : "expected numbers, to be written as");
    scratch_says(error.message, folder());
    options.type = NULL;
    converted(folder(), place("out"), cases[i].format);
  }
}

static char warned[512];

static void on_log(void *user, alibi_log_level level, const char *sentence)
{
  (void)user;
  if (level == ALIBI_LOG_WARNING) snprintf(warned, sizeof warned, "%s", sentence);
}

/* Copied to the bit, but not in silence. */
static void numbers_that_are_none_are_told_of(void **unused)
{
  (void)unused;
  static const int formats[] = {ALIBI_FORMAT_ALIBI, ALIBI_FORMAT_SAFETENSORS, ALIBI_FORMAT_GGUF};
  for (size_t i = 0; i < 3; i++)
    for (size_t bad = 0; bad < 2; bad++) {
      begin_case("gpt_neox");
      file_tensor *t = family_tensors_find(&tensors, "gpt_neox.layers.1.mlp.dense_4h_to_h.weight");
      if (bad) ((float *)(void *)(uintptr_t)t->data)[77] = NAN;
      if (bad) ((float *)(void *)(uintptr_t)t->data)[78] = -INFINITY;
      family_tensors_write(&tensors, folder());
      context->log = on_log;
      warned[0] = '\0';
      converted(folder(), place("out"), formats[i]);
      context->log = NULL;
      if (bad) scratch_says(warned, "model: 2 of its numbers are NaN or infinite");
      else assert_string_equal(warned, "");
    }
}

/* What is quantised has numbers of no meaning where a scale has none. */
static void scales_that_are_none_are_told_of(void **unused)
{
  (void)unused;
  static const char source[] = FAMILY_CASES "/gguf-llama-q8_0/model.gguf";
  mapped_file file;
  tensor_file *whole = NULL;
  begin_case("llama");
  assert_int_equal(tensor_file_open(source, &whole, &error), ALIBI_OK);
  const file_tensor *t = NULL;
  for (size_t i = 0; i < tensor_file_count(whole) && !t; i++)
    if (tensor_file_at(whole, i)->type == TENSOR_Q8_0) t = tensor_file_at(whole, i);
  assert_int_equal(mapped_file_open(source, &file, &error), ALIBI_OK);
  assert_non_null(t);
  size_t at = file.size;
  for (size_t i = 0; i + t->bytes <= file.size && at == file.size; i++)
    if (memcmp((const char *)file.data + i, t->data, t->bytes) == 0) at = i;
  assert_true(at < file.size);
  unsigned char *copy = malloc(file.size);
  assert_non_null(copy);
  memcpy(copy, file.data, file.size);
  copy[at] = 0, copy[at + 1] = 0x7C; /* infinity */
  scratch_write(place("damaged.gguf"), copy, file.size);
  free(copy);
  mapped_file_close(&file);
  tensor_file_close(whole);
  context->log = on_log;
  warned[0] = '\0';
  converted(place("damaged.gguf"), place("out"), ALIBI_FORMAT_GGUF);
  context->log = NULL;
  scratch_says(warned, "of its numbers are NaN or infinite");
  unlink(place("damaged.gguf"));
}

/* The largest numbers of each type stay finite, so what is not refused can be read. */
static void largest_numbers_stay_finite(void **unused)
{
  (void)unused;
  static const struct {
    weight_type type;
    float largest;
  } cases[] = {{WEIGHT_F16, 65504},
               {WEIGHT_BF16, 0x1.FEp127F},
               {WEIGHT_Q8_0, 127 * 65504.F},
               {WEIGHT_Q4_0, 8 * 65504.F},
               {WEIGHT_Q4_K, 15 * 65504.F}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int sign = -1; sign <= 1; sign += 2) {
      float wide[256] = {0};
      unsigned char narrow[1024];
      wide[3] = (float)sign * cases[i].largest;
      weight_narrow(cases[i].type, 256, wide, narrow);
      weight_widen(cases[i].type, 256, narrow, wide);
      for (size_t e = 0; e < 256; e++) assert_true(isfinite(wide[e]));
    }
}

/* ---- tokenizers ---- */

static const char json_tokenizer[] = "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 9, \"content\": "
                                     "\"<|end|>\", \"special\": true, \"single_word\": false,"
                                     " \"lstrip\": false, \"rstrip\": false, \"normalized\": false}], "
                                     "\"normalizer\": null, \"pre_tokenizer\": {\"type\":"
                                     " \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
                                     "\"use_regex\": true}, \"post_processor\": null,"
                                     " \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
                                     "\"trim_offsets\": true, \"use_regex\": true}, \"model\":"
                                     " {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
                                     "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,"
                                     " \"fuse_unk\": false, \"byte_fallback\": false, \"vocab\": {\"a\": 0, "
                                     "\"b\": 1, \"c\": 2, \"\\u0120\": 3, \"\\u010a\": 4,"
                                     " \"ab\": 5, \"\\u0120ab\": 6, \"abc\": 7, \"ba\": 8}, \"merges\": [\"a b\", "
                                     "\"\\u0120 ab\", \"ab c\", \"b a\"]}}";

static const char word_tokenizer[] = "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, "
                                     "\"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"post_processor\": null,"
                                     " \"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": "
                                     "0, \"[UNK]\": 1}, \"unk_token\": \"[UNK]\"}}";

/* A vocabulary of more rows. */
static void widen(const char *name, size_t rows)
{
  file_tensor *t = family_tensors_find(&tensors, name);
  float *values = calloc(rows * t->shape[1], sizeof *values);
  assert_non_null(values);
  for (size_t e = 0; e < rows * t->shape[1]; e++) values[e] = family_number(name, e);
  free((void *)(uintptr_t)t->data);
  t->data = values;
  t->shape[0] = rows;
  t->bytes = rows * t->shape[1] * sizeof *values;
}

/* WordLevel, with so many words. */
static void write_words(const char *path, size_t count)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fprintf(file,
          "{\"version\": \"1.0\", \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\":"
          " \"Whitespace\"}, \"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\","
          " \"unk_token\": \"[UNK]\", \"vocab\": {\"[UNK]\": 0");
  for (size_t i = 1; i < count; i++) fprintf(file, ", \"w%zu\": %zu", i, i);
  fprintf(file, "}}}");
  fclose(file);
}

static void same_ids(const char *first, const char *second)
{
  static const char *const texts[] = {"", "ab", "abcab ab\nabba", "  a b  ", "ca<|end|>b", "cab\n\n ab abab ba"};
  alibi_tokenizer *t[2] = {NULL};
  const char *paths[2] = {first, second};
  for (size_t i = 0; i < 2; i++)
    if (alibi_tokenizer_open(paths[i], &t[i], &error) != ALIBI_OK) fail_msg("%s", error.message);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    uint32_t *ids[2] = {NULL};
    size_t count[2];
    for (size_t k = 0; k < 2; k++) {
      assert_int_equal(alibi_tokenizer_encode(t[k], texts[i], strlen(texts[i]), &ids[k], &count[k], &error),
                       ALIBI_OK);
    }
    assert_int_equal(count[0], count[1]);
    if (count[0] > 0) assert_memory_equal(ids[0], ids[1], count[0] * sizeof **ids);
    for (size_t k = 0; k < 2; k++) alibi_tokens_free(ids[k]);
  }
  for (size_t i = 0; i < 2; i++) alibi_tokenizer_free(t[i]);
}

static void tokenizers_travel(void **unused)
{
  (void)unused;
  begin_case("gpt_neox");
  scratch_write(place("model/tokenizer.json"), json_tokenizer, sizeof json_tokenizer - 1);
  converted(folder(), place("n.gguf"), ALIBI_FORMAT_GGUF);
  converted(place("n.gguf"), place("ours"), ALIBI_FORMAT_ALIBI);
  converted(folder(), place("copy"), ALIBI_FORMAT_SAFETENSORS);
  same_ids(place("model/tokenizer.json"), place("n.gguf"));
  same_ids(place("model/tokenizer.json"), place("ours/tokenizer.json"));
  same_ids(place("model/tokenizer.json"), place("copy/tokenizer.json"));
  alibi_tokenizer *t = NULL;
  assert_int_equal(alibi_tokenizer_open(place("n.gguf"), &t, &error), ALIBI_OK);
  assert_int_equal(alibi_tokenizer_vocabulary(t), 20); /* a token for each row of the model */
  alibi_tokenizer_free(t);
  scratch_remove_tree(place("ours"));
  scratch_remove_tree(place("copy"));
  unlink(place("n.gguf"));
}

/* NULL: none is found. */
static void tokenizer_of_is(const char *path, const char *expected)
{
  alibi_tokenizer *t = NULL, *same = NULL;
  if (alibi_model_tokenizer_open(path, NULL, &t, &error) != ALIBI_OK) fail_msg("%s", error.message);
  if (expected) {
    assert_int_equal(alibi_tokenizer_open(expected, &same, &error), ALIBI_OK);
    assert_non_null(t);
    assert_int_equal(alibi_tokenizer_vocabulary(t), alibi_tokenizer_vocabulary(same));
  } else {
    assert_null(t);
  }
  alibi_tokenizer_free(same);
  alibi_tokenizer_free(t);
}

/* What its file holds, then what lies in its folder, whichever of both the path names. */
static void a_tokenizer_is_found_where_its_model_is(void **unused)
{
  (void)unused;
  alibi_tokenizer *t = NULL;
  begin_case("gpt_neox");
  tokenizer_of_is(folder(), NULL);
  scratch_write(place("model/tokenizer.json"), json_tokenizer, sizeof json_tokenizer - 1);
  tokenizer_of_is(folder(), place("model/tokenizer.json"));
  tokenizer_of_is(place("model/model.safetensors"), place("model/tokenizer.json"));
  converted(place("model/model.safetensors"), place("n.gguf"), ALIBI_FORMAT_GGUF);
  same_ids(place("model/tokenizer.json"), place("n.gguf"));
  converted(place("model/model.safetensors"), place("ours"), ALIBI_FORMAT_ALIBI);
  same_ids(place("model/tokenizer.json"), place("ours/tokenizer.json"));

  /* Beside a GGUF with a vocabulary of 20, and beside one with none. */
  unlink(place("n.gguf"));
  assert_int_equal(directory_make(place("whole"), &error), ALIBI_OK);
  converted(folder(), place("whole/m.gguf"), ALIBI_FORMAT_GGUF);
  scratch_write(place("whole/tokenizer.json"), json_tokenizer, sizeof json_tokenizer - 1);
  tokenizer_of_is(place("whole"), place("whole/m.gguf"));
  tokenizer_of_is(place("whole/m.gguf"), place("whole/m.gguf"));
  unlink(place("whole/m.gguf"));
  tokenizer_of_is(place("whole"), place("whole/tokenizer.json"));
  options.without_tokenizer = 1;
  converted(folder(), place("whole/m.gguf"), ALIBI_FORMAT_GGUF);
  tokenizer_of_is(place("whole"), place("whole/tokenizer.json"));
  tokenizer_of_is(place("whole/m.gguf"), place("whole/tokenizer.json"));
  unlink(place("whole/tokenizer.json"));
  tokenizer_of_is(place("whole/m.gguf"), NULL);
  tokenizer_of_is(place("nowhere"), NULL);

  assert_int_equal(alibi_model_tokenizer_open(NULL, NULL, &t, &error), ALIBI_INVALID);
  assert_int_equal(alibi_model_tokenizer_open(folder(), NULL, NULL, &error), ALIBI_INVALID);
  scratch_remove_tree(place("whole"));
  scratch_remove_tree(place("ours"));
}

static void a_tokenizer_that_gguf_cannot_hold_is_refused(void **unused)
{
  (void)unused;
  begin_case("gpt_neox");
  scratch_write(place("model/tokenizer.json"), word_tokenizer, sizeof word_tokenizer - 1);
  leaves_nothing(
      folder(), ALIBI_FORMAT_GGUF, ALIBI_INVALID,
      "the tokenizer cannot be written to GGUF: only byte-level BPE and SentencePiece vocabularies can");
  options.without_tokenizer = 1;
  converted(folder(), place("out"), ALIBI_FORMAT_GGUF);
  alibi_tokenizer *t = NULL;
  assert_int_equal(alibi_tokenizer_open(place("out"), &t, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "the file has no tokenizer");
}

static void a_tokenizer_of_another_model_is_refused(void **unused)
{
  (void)unused;
  begin_case("gpt_neox");
  char *text = malloc(sizeof json_tokenizer);
  assert_non_null(text);
  memcpy(text, json_tokenizer, sizeof json_tokenizer);
  memcpy(strstr(text, "\"id\": 9"), "\"id\":20", 7);
  scratch_write(place("model/tokenizer.json"), text, strlen(text));
  free(text);
  leaves_nothing(folder(), ALIBI_FORMAT_GGUF, ALIBI_BAD_INPUT, "at most 20 tokens, found 21");
  leaves_nothing(folder(), ALIBI_FORMAT_ALIBI, ALIBI_BAD_INPUT, "at most 20 tokens, found 21");
  scratch_write(place("model/tokenizer.json"), "{", 1);
  leaves_nothing(folder(), ALIBI_FORMAT_GGUF, ALIBI_BAD_INPUT, "tokenizer.json");
}

/* A tokenizer.model travels; also where a tokenizer.json that GGUF cannot hold lies beside it, if it has as many
 * tokens. */
static void sentencepiece_travels(void **unused)
{
  (void)unused;
  const char *pieces = FAMILY_CASES "/../pieces/bpe_llama.model";
  mapped_file file;
  alibi_tokenizer *t = NULL;
  assert_int_equal(alibi_tokenizer_open(pieces, &t, &error), ALIBI_OK);
  size_t count = alibi_tokenizer_vocabulary(t);
  alibi_tokenizer_free(t);
  begin("gpt_neox");
  widen("gpt_neox.embed_in.weight", count + 3);
  widen("embed_out.weight", count + 3);
  change("gpt_neox", "'vocab_size': 20", "'vocab_size': 600");
  family_tensors_write(&tensors, folder());
  alibi_convert_options_init(&options);
  assert_int_equal(mapped_file_open(pieces, &file, &error), ALIBI_OK);
  scratch_write(place("model/tokenizer.model"), file.data, file.size);
  mapped_file_close(&file);
  for (size_t words = 0; words <= count; words += count) {
    if (words > 0) write_words(place("model/tokenizer.json"), words);
    converted(folder(), place("n.gguf"), ALIBI_FORMAT_GGUF);
    converted(place("n.gguf"), place("ours"), ALIBI_FORMAT_ALIBI);
    same_ids(pieces, place("n.gguf"));
    same_ids(pieces, place("ours/tokenizer.json"));
    scratch_remove_tree(place("ours"));
    unlink(place("n.gguf"));
  }
  write_words(place("model/tokenizer.json"), count + 1);
  scratch_remove_tree(place("out"));
  unlink(place("out"));
  leaves_nothing(folder(), ALIBI_FORMAT_GGUF, ALIBI_INVALID, "the tokenizer cannot be written to GGUF");
}

/* Norms of query and key heads; what GGUF holds is what the directory holds, to the bit. */
static void qwen3_goes_through_gguf(void **unused)
{
  (void)unused;
  begin_case("llama");
  change("llama", "'model_type': 'llama'", "'model_type': 'qwen3', 'head_dim': 4");
  for (int block = 0; block < 2; block++)
    for (int k = 0; k < 2; k++) {
      char name[96];
      snprintf(name, sizeof name, "model.layers.%d.self_attn.%s_norm.weight", block, k ? "k" : "q");
      family_tensors_add(&tensors, name, 4, 0);
    }
  family_tensors_write(&tensors, folder());
  converted(folder(), place("q.gguf"), ALIBI_FORMAT_GGUF);
  converted(folder(), place("one"), ALIBI_FORMAT_ALIBI);
  converted(place("q.gguf"), place("two"), ALIBI_FORMAT_ALIBI);
  safetensors_file *files[2];
  assert_int_equal(safetensors_open(place("one/model.safetensors"), &files[0], &error), ALIBI_OK);
  assert_int_equal(safetensors_open(place("two/model.safetensors"), &files[1], &error), ALIBI_OK);
  assert_int_equal(safetensors_count(files[0]), safetensors_count(files[1]));
  for (size_t i = 0; i < safetensors_count(files[0]); i++) {
    const file_tensor *a = safetensors_at(files[0], i), *b = safetensors_find(files[1], a->name);
    assert_non_null(b);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->data, b->data, a->bytes);
  }
  for (size_t i = 0; i < 2; i++) safetensors_close(files[i]);
  scratch_remove_tree(place("one"));
  scratch_remove_tree(place("two"));
  unlink(place("q.gguf"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(progress_ends_at_all_bytes),
      cmocka_unit_test(a_cancel_leaves_nothing),
      cmocka_unit_test(a_disk_that_is_full_is_one_sentence),
      cmocka_unit_test(what_is_there_is_not_touched),
      cmocka_unit_test(what_is_no_model_is_refused),
      cmocka_unit_test(trained_models_become_public_ones),
      cmocka_unit_test(directories_of_quantised_models_have_a_type),
      cmocka_unit_test(numbers_beyond_a_type_are_refused),
      cmocka_unit_test(numbers_that_are_none_are_told_of),
      cmocka_unit_test(scales_that_are_none_are_told_of),
      cmocka_unit_test(largest_numbers_stay_finite),
      cmocka_unit_test(tokenizers_travel),
      cmocka_unit_test(a_tokenizer_is_found_where_its_model_is),
      cmocka_unit_test(a_tokenizer_that_gguf_cannot_hold_is_refused),
      cmocka_unit_test(a_tokenizer_of_another_model_is_refused),
      cmocka_unit_test(sentencepiece_travels),
      cmocka_unit_test(qwen3_goes_through_gguf),
  };
  return cmocka_run_group_tests(tests, family_setup, family_teardown);
}
