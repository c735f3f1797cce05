/* Models in memory and on disk: a model that was written is read back bit for bit and gives the same logits; every
 * kind of damage is one sentence that names the file and the tensor or key; configurations are checked before
 * anything is made of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/system.h"
#include "file/safetensors.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

static alibi_context *context;
static alibi_error error;

static int setup(void **unused)
{
  (void)unused;
  scratch_make();
  context = tiny_context(NULL, 1);
  alibi_error_init(&error);
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  alibi_context_free(context);
  scratch_remove();
  return 0;
}

static void save(const alibi_model *model, const char *directory)
{
  if (alibi_model_save(model, directory, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static alibi_model *open_model(const char *directory)
{
  alibi_model *model;
  if (alibi_model_open(context, directory, &model, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return model;
}

static void last_logits(alibi_model *model, float *logits)
{
  enum { ROWS = 20 };
  uint32_t tokens[ROWS];
  pass_shape shape = {.rows = ROWS, .segments = 1, .length = ROWS, .head_rows = 1};
  pass_segment segment = {.count = ROWS};
  model_pass *pass;
  tiny_tokens(tokens, ROWS, 1, (uint32_t)model->config.vocabulary);
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
  assert_int_equal(model_forward(pass, tokens, &segment, 1, &error), ALIBI_OK);
  model_logits(pass, ROWS - 1, logits);
  model_pass_free(pass);
}

static void round_trip(const char *settings)
{
  const char *directory = scratch_path("a/b/model");
  alibi_model *written = tiny_model(context, settings);
  save(written, directory);
  alibi_model *read = open_model(directory);
  float expected[29], found[29];
  assert_memory_equal(&written->config, &read->config, sizeof written->config);
  assert_int_equal(written->list.count, read->list.count);
  assert_int_equal(alibi_model_parameter_count(written), alibi_model_parameter_count(read));
  if (tiny_floats_differ(written->values, read->values, written->list.floats))
    fail_msg("%s: other weights", settings);
  last_logits(written, expected);
  last_logits(read, found);
  assert_int_equal(tiny_floats_differ(expected, found, 29), 0);
  alibi_model_free(written);
  alibi_model_free(read);
}

static void written_is_read_back(void **unused)
{
  (void)unused;
  char settings[128];
  for (size_t row = 0; row < position_method_count(); row++) {
    snprintf(settings, sizeof settings, "position=%s", position_method_at(row)->name);
    round_trip(settings);
  }
  for (size_t i = 0; i < TINY_VARIANTS; i++) round_trip(tiny_variants[i]);
  round_trip("position=rope rope_base=12345.678 rope_fraction=0.5 norm_epsilon=3e-6");
  round_trip("position=alibi alibi_max_bias=16 alibi_slope_rule=geometric heads=4");
  round_trip("position=t5 t5_buckets=8 t5_max_distance=40");
}

/* Files of versions without the later fields are read, and what needs none of them is written as they wrote it. */
static void configurations_of_older_versions(void **unused)
{
  (void)unused;
  static const char older[] =
      "{\"format\": \"alibi-decoder\", \"vocabulary\": 29, \"layers\": 2, \"width\": 32, \"heads\": 4, "
      "\"kv_heads\": 4, \"head_size\": 8, \"feed_forward\": 40, \"train_length\": 24, \"norm\": \"layernorm\", "
      "\"norm_bias\": false, \"norm_epsilon\": 1e-05, \"activation\": \"gelu\", \"bias\": true, \"tied\": true, "
      "\"qk_norm\": false, \"initial_deviation\": 0.2, \"embedding_deviation\": 0, \"position\": {\"method\": "
      "\"alibi\", \"slope_rule\": \"interleaved\", \"max_bias\": 8, \"slopes\": \"\"}, \"score_scaling\": "
      "\"none\", \"original_length\": 0}";
  json_node *node;
  alibi_model_config read, made = tiny_config("bias=true");
  assert_int_equal(model_config_resolve(&made, &error), ALIBI_OK);
  if (node_parse(older, strlen(older), "older", &node, &error) != ALIBI_OK) fail_msg("%s", error.message);
  if (model_config_read(node, "older", &read, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_memory_equal(&read, &made, sizeof made);
  assert_true(read.causal && read.final_norm && read.logit_scale == 1 && read.residual_scale == 1);
  json_node *written = model_config_node(&read);
  assert_int_equal(node_count(written), node_count(node));
  for (size_t i = 0; i < node_count(written); i++) {
    const char *key;
    node_member(written, i, &key);
    if (!node_get(node, key)) fail_msg("config.json: a key '%s' that older versions do not know", key);
  }
  node_free(written);
  node_free(node);
}

/* Numbers that print badly: subnormal, negative zero, the largest. */
static void weights_keep_every_bit(void **unused)
{
  (void)unused;
  static const float odd[] = {1e-45f, -0.0f, 3.402823466e38f, 0.1f, -1.17549435e-38f};
  const char *directory = scratch_path("model");
  alibi_model *written = tiny_model(context, "position=alibi");
  memcpy(written->values, odd, sizeof odd);
  save(written, directory);
  alibi_model *read = open_model(directory);
  assert_int_equal(tiny_floats_differ(written->values, read->values, written->list.floats), 0);
  alibi_model_free(written);
  alibi_model_free(read);
}

static void saving_replaces_and_leaves_nothing_beside(void **unused)
{
  (void)unused;
  const char *directory = scratch_path("model");
  alibi_model *first = tiny_model(context, "position=alibi");
  alibi_model *second = tiny_model(context, "position=rope layers=1");
  save(first, directory);
  save(second, directory);
  alibi_model *read = open_model(directory);
  assert_string_equal(alibi_model_get_config(read)->position, "rope");
  assert_int_equal(alibi_model_get_config(read)->layers, 1);
  assert_int_equal(alibi_model_get_config(read)->head_size, 8); /* resolved */
  assert_int_equal(alibi_model_get_config(read)->kv_heads, 4);
  alibi_model_free(read);
  snprintf(scratch_folder + strlen(scratch_folder), 8, "/model");
  assert_int_equal(scratch_entries(), 2);
  *strrchr(scratch_folder, '/') = '\0';
  scratch_write(scratch_path("file"), "x", 1);
  assert_int_equal(alibi_model_save(first, scratch_path("file"), &error), ALIBI_FAILED);
  scratch_says(error.message, scratch_path("file"));
  assert_int_equal(alibi_model_save(first, scratch_path("file/below"), &error), ALIBI_FAILED);
  alibi_model_free(first);
  alibi_model_free(second);
}

static char *in_model(const char *name)
{
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", scratch_path("model"), name);
  return path;
}

static void refuse(const char *named, const char *part)
{
  alibi_model *model = (alibi_model *)1;
  status result = alibi_model_open(context, scratch_path("model"), &model, &error);
  if (result != ALIBI_BAD_INPUT)
    fail_msg("expected it refused (%s), found status %d: %s", part, result, error.message);
  assert_null(model);
  scratch_says(error.message, named);
  scratch_says(error.message, part);
}

/* Another value of a later field beside weights that were saved with its initial one, and the other way round. */
static void configurations_that_differ_in_a_later_field(void **unused)
{
  (void)unused;
  static const char *const settings[] = {"", "logit_scale=0.5"};
  for (int which = 0; which < 2; which++) {
    alibi_model *one = tiny_model(context, settings[which]), *other = tiny_model(context, settings[!which]);
    save(other, scratch_path("model"));
    char *text = scratch_read(in_model("config.json"));
    save(one, scratch_path("model"));
    scratch_write(in_model("config.json"), text, strlen(text));
    refuse("config.json", "logit_scale");
    free(text);
    alibi_model_free(one);
    alibi_model_free(other);
  }
}

/* config.json with one text in place of another. */
static void refuse_config(const char *from, const char *to, const char *part)
{
  char *text = scratch_read(in_model("config.json")), *place = strstr(text, from);
  if (!place) fail_msg("config.json: expected %s in it, found %s", from, text);
  FILE *file = fopen(in_model("config.json"), "wb");
  assert_non_null(file);
  fprintf(file, "%.*s%s%s", (int)(place - text), text, to, place + strlen(from));
  fclose(file);
  refuse("config.json", part);
  scratch_write(in_model("config.json"), text, strlen(text));
  free(text);
}

static void damaged_configuration(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(context, "position=rope");
  save(model, scratch_path("model"));
  alibi_model_free(model);
  refuse_config("\"layers\"", "\"layerz\"", "layerz");
  refuse_config("\"base\"", "\"bass\"", "bass");
  refuse_config("\"layers\": 2", "\"layers\": 0", "layers");
  refuse_config("\"layers\": 2", "\"layers\": 2.5", "layers");
  refuse_config("\"layers\": 2", "\"layers\": \"two\"", "layers");
  refuse_config("\"layers\": 2", "\"layers\": -9223372036854775808", "layers");
  refuse_config("\"layers\": 2", "\"layers\": 2, \"layers\": 2", "layers");
  refuse_config("\"heads\": 4", "\"heads\": 5", "kv_heads");
  refuse_config("\"kv_heads\": 4", "\"kv_heads\": 3", "kv_heads");
  refuse_config("\"base\": 10000", "\"base\": -1", "base");
  refuse_config("\"rope\"", "\"ropes\"", "ropes");
  refuse_config("\"layernorm\"", "\"batchnorm\"", "batchnorm");
  refuse_config("alibi-decoder", "something-else", "something-else");
  refuse_config("\"format\"", "\"shape\"", "format");
  refuse_config("\"position\"", "\"pose\"", "pose");
  refuse_config("{", "", "config.json");
  refuse_config("\"tied\": true", "\"tied\": 1", "tied");
  scratch_write(in_model("config.json"), "", 0);
  refuse("config.json", "config.json");
  scratch_write(in_model("config.json"), "[]", 2);
  refuse("config.json", "format");
  scratch_write(in_model("config.json"), "{\"format\": \"alibi-decoder\", \"position\": \"rope\"}", 47);
  refuse("config.json", "position");
}

/* A configuration that claims more than there is must not make memory of it. */
static void weights_of_another_configuration(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(context, "position=t5 bias=true tied=false");
  save(model, scratch_path("model"));
  alibi_model_free(model);
  char *text = scratch_read(in_model("config.json"));
  static const struct { const char *from, *to, *part; } cases[] = {
      {"\"layers\": 2", "\"layers\": 3", "'blocks.2.attention_norm.gain', found none"},
      {"\"layers\": 2", "\"layers\": 1", "'blocks.1."},
      {"\"layers\": 2", "\"layers\": 1024", "'blocks.2.attention_norm.gain'"},
      {"\"vocabulary\": 29", "\"vocabulary\": 30", "'embedding.weight': expected shape [30, 32], found [29, 32]"},
      {"\"feed_forward\": 40", "\"feed_forward\": 262144",
       "'blocks.0.feed_forward.input.weight': expected shape [262144, 32]"},
      {"\"head_size\": 8", "\"head_size\": 16", "'blocks.0.attention.qkv.weight'"},
      {"\"tied\": false", "\"tied\": true", "'output.weight': expected no such tensor"},
      {"\"bias\": true", "\"bias\": false", "attention.qkv.bias'"},
      {"\"norm_bias\": false", "\"norm_bias\": true", "'blocks.0.attention_norm.shift'"},
      {"\"buckets\": 32", "\"buckets\": 16", "'position.table': expected shape [16, 4], found [32, 4]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *place = strstr(text, cases[i].from);
    if (!place) fail_msg("config.json has no %s", cases[i].from);
    FILE *file = fopen(in_model("config.json"), "wb");
    assert_non_null(file);
    fprintf(file, "%.*s%s%s", (int)(place - text), text, cases[i].to, place + strlen(cases[i].from));
    fclose(file);
    /* refuse() wants the file's name too: it stays the path of the weights, for config.json itself is legal */
    alibi_model *none;
    if (alibi_model_open(context, scratch_path("model"), &none, &error) != ALIBI_BAD_INPUT)
      fail_msg("accepted: %s", cases[i].to);
    scratch_says(error.message, "model.safetensors");
    scratch_says(error.message, cases[i].part);
  }
  free(text);
}

static void damaged_weights(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(context, "position=alibi");
  save(model, scratch_path("model"));
  mapped_file whole;
  assert_int_equal(mapped_file_open(in_model("model.safetensors"), &whole, &error), ALIBI_OK);
  unsigned char *bytes = malloc(whole.size);
  assert_non_null(bytes);
  memcpy(bytes, whole.data, whole.size);
  size_t size = whole.size;
  mapped_file_close(&whole);
  static const size_t cuts[] = {1, 4, 1000, 20000};
  for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
    scratch_write(in_model("model.safetensors"), bytes, size - cuts[i]);
    refuse("model.safetensors", "tensor '");
  }
  scratch_write(in_model("model.safetensors"), bytes, 100);
  refuse("model.safetensors", "header");
  scratch_write(in_model("model.safetensors"), bytes, 0);
  refuse("model.safetensors", "0 bytes");
  free(bytes);
  file_tensor *tensors = calloc(model->list.count, sizeof *tensors);
  assert_non_null(tensors);
  for (size_t i = 0; i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    tensors[i] = (file_tensor){.name = p->name, .type = TENSOR_F32, .dimensions = p->vector ? 1 : 2,
                               .shape = {p->rows, p->vector ? 0 : p->columns},
                               .data = model->values + p->offset, .bytes = parameter_elements(p) * sizeof(float)};
  }
  assert_int_equal(safetensors_write(in_model("model.safetensors"), tensors, model->list.count, NULL, &error),
                   ALIBI_OK);
  alibi_model_free(open_model(scratch_path("model"))); /* it is the damage that is refused below */
  tensors[0].shape[0] = 32, tensors[0].shape[1] = 29; /* the other way round */
  assert_int_equal(safetensors_write(in_model("model.safetensors"), tensors, model->list.count, NULL, &error),
                   ALIBI_OK);
  refuse("model.safetensors", "'embedding.weight': expected shape [29, 32], found [32, 29]");
  tensors[0].dimensions = 3, tensors[0].shape[0] = 29, tensors[0].shape[1] = 32, tensors[0].shape[2] = 1;
  assert_int_equal(safetensors_write(in_model("model.safetensors"), tensors, model->list.count, NULL, &error),
                   ALIBI_OK);
  refuse("model.safetensors", "'embedding.weight': expected 2 dimensions, found 3");
  tensors[0].dimensions = 2, tensors[0].name = "embeddings.weight";
  assert_int_equal(safetensors_write(in_model("model.safetensors"), tensors, model->list.count, NULL, &error),
                   ALIBI_OK);
  refuse("model.safetensors", "'embedding.weight', found none");
  tensors[0].name = "embedding.weight", tensors[0].shape[2] = 0;
  model->values[7] = NAN;
  assert_int_equal(safetensors_write(in_model("model.safetensors"), tensors, model->list.count, NULL, &error),
                   ALIBI_OK);
  refuse("model.safetensors", "'embedding.weight': expected finite numbers, found nan at element 7");
  free(tensors);
  alibi_model_free(model);
}

/* Writes the weights of the folder again, with this metadata. */
static void rewrite(const alibi_model *model, const char *config_text)
{
  const char *metadata[] = {"config", config_text, NULL};
  file_tensor *tensors = calloc(model->list.count, sizeof *tensors);
  assert_non_null(tensors);
  for (size_t i = 0; i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    tensors[i] = (file_tensor){.name = p->name,
                               .type = TENSOR_F32,
                               .dimensions = p->vector ? 1 : 2,
                               .shape = {p->rows, p->vector ? 0 : p->columns},
                               .data = model->values + p->offset,
                               .bytes = parameter_elements(p) * sizeof(float)};
  }
  assert_int_equal(safetensors_write(in_model("model.safetensors"), tensors, model->list.count, metadata, &error),
                   ALIBI_OK);
  free(tensors);
}

/* What a save leaves that is killed between its two files: the weights of the new model and the configuration of
 * the old one. */
static void refuse_pair(const char *old_settings, const char *new_settings, const char *key)
{
  alibi_model *before = tiny_model(context, old_settings), *after = tiny_model(context, new_settings);
  save(before, scratch_path("model"));
  char *config = scratch_read(in_model("config.json"));
  save(after, scratch_path("model"));
  scratch_write(in_model("config.json"), config, strlen(config));
  refuse("model.safetensors", key);
  scratch_says(error.message, in_model("config.json"));
  scratch_says(error.message, in_model("model.safetensors"));
  save(after, scratch_path("model")); /* again, and to its end */
  alibi_model_free(open_model(scratch_path("model")));
  free(config);
  alibi_model_free(before);
  alibi_model_free(after);
}

static void pairs_that_do_not_belong_together(void **unused)
{
  (void)unused;
  refuse_pair("position=none", "position=alibi", "another 'position'");
  refuse_pair("position=alibi", "position=rope", "another 'position'");
  refuse_pair("position=rope", "position=rope rope_base=500000", "another 'position'");
  refuse_pair("position=sinusoidal", "position=none", "another 'position'");
  refuse_pair("position=alibi activation=gelu-tanh", "position=alibi", "another 'activation'");
  refuse_pair("position=alibi", "position=alibi train_length=48", "another 'train_length'");
}

/* The same configuration in other words is the same: keys in another order, or left to their defaults by an older
 * version. */
static void configurations_are_compared_by_meaning(void **unused)
{
  (void)unused;
  static const char shuffled[] =
      "{\"position\": {\"base\": 1e4, \"method\": \"rope\", \"fraction\": 1.0},\n"
      " \"heads\": 4, \"width\": 32, \"layers\": 2, \"vocabulary\": 29, \"feed_forward\": 40,"
      " \"initial_deviation\": 0.20, \"train_length\": 24, \"format\": \"alibi-decoder\"}";
  alibi_model *model = tiny_model(context, "position=rope");
  save(model, scratch_path("model"));
  scratch_write(in_model("config.json"), shuffled, strlen(shuffled));
  alibi_model_free(open_model(scratch_path("model")));
  save(model, scratch_path("model"));
  rewrite(model, shuffled);
  alibi_model_free(open_model(scratch_path("model")));
  rewrite(model, "{\"format\": \"alibi-decoder\"");
  refuse("model.safetensors", "model.safetensors");
  rewrite(model, "{\"format\": \"alibi-decoder\", \"position\": {\"method\": \"ropes\"}}");
  refuse("model.safetensors", "ropes");
  alibi_model_free(model);
}

static void missing_files(void **unused)
{
  (void)unused;
  alibi_model *model = tiny_model(context, "position=none");
  refuse("model", "expected the directory of a model");
  scratch_write(scratch_path("model"), "text", 4);
  refuse("model", "expected a file of safetensors, GGUF or PyTorch's");
  unlink(scratch_path("model"));
  save(model, scratch_path("model"));
  unlink(in_model("model.safetensors"));
  refuse("model.safetensors", "No such file");
  save(model, scratch_path("model"));
  unlink(in_model("config.json"));
  refuse("model", "expected a config.json beside these weights, found none");
  alibi_model_free(model);
}

static void refuse_fields(const char *settings, const char *part)
{
  alibi_model_config config = tiny_config(settings);
  alibi_model *model;
  assert_int_equal(alibi_model_config_check(&config, &error), ALIBI_INVALID);
  scratch_says(error.message, part);
  assert_int_equal(alibi_model_new(context, &config, 1, &model, &error), ALIBI_INVALID);
  assert_null(model);
}

static void configurations_are_checked(void **unused)
{
  (void)unused;
  refuse_fields("width=33", "heads: expected a divisor of the width 33, found 4");
  refuse_fields("kv_heads=3", "kv_heads: expected a divisor of the 4 heads, found 3");
  refuse_fields("norm=rmsnorm norm_bias=true", "norm_bias");
  refuse_fields("width=4096 heads=2", "head_size: expected at most 256");
  refuse_fields("position=rope head_size=7", "rope");
  refuse_fields("position=t5 t5_max_distance=3", "t5");
  alibi_model_config config = tiny_config("position=rope");
  assert_int_equal(alibi_model_config_set(&config, "colour", "red", &error), ALIBI_INVALID);
  scratch_says(error.message, "colour");
  assert_int_equal(alibi_model_config_set(&config, "t5_buckets", "8", &error), ALIBI_INVALID);
  scratch_says(error.message, "t5_buckets");
  assert_int_equal(alibi_model_config_set(&config, "layers", "x", &error), ALIBI_INVALID);
  scratch_says(error.message, "layers");
  assert_int_equal(alibi_model_config_set(&config, "position", "rops", &error), ALIBI_INVALID);
  scratch_says(error.message, "alibi, sinusoidal");
  assert_string_equal(config.position, "rope");
  config.size = 3;
  alibi_model *model;
  assert_int_equal(alibi_model_new(context, &config, 1, &model, &error), ALIBI_INVALID);
  scratch_says(error.message, "alibi_model_config_init");
}

/* Widths of the feed-forward part that nobody chose. */
static void usual_feed_forward(void **unused)
{
  (void)unused;
  static const struct {
    const char *settings;
    int64_t expected;
    size_t rows; /* of the input weight */
  } cases[] = {{"width=96 heads=4", 384, 384},
               {"width=96 heads=4 activation=silu", 384, 384},
               {"width=96 heads=4 activation=swiglu", 256, 512},
               {"width=128 heads=4 activation=swiglu", 384, 768}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    alibi_model_config config = tiny_config(cases[i].settings);
    alibi_model *model;
    config.feed_forward = 0;
    assert_int_equal(alibi_model_new(context, &config, 1, &model, &error), ALIBI_OK);
    assert_int_equal(alibi_model_get_config(model)->feed_forward, cases[i].expected);
    assert_int_equal(parameter_find(&model->list, "blocks.0.feed_forward.input.weight")->rows, cases[i].rows);
    assert_int_equal(parameter_find(&model->list, "blocks.0.feed_forward.output.weight")->columns,
                     cases[i].expected);
    alibi_model_free(model);
  }
}

static void initial_weights_are_a_function_of_the_seed(void **unused)
{
  (void)unused;
  alibi_model_config config = tiny_config("position=rope"), other = tiny_config("position=alibi layers=1");
  alibi_model *a, *b, *c, *d;
  assert_int_equal(alibi_model_new(context, &config, 5, &a, &error), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, &config, 5, &b, &error), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, &config, 6, &c, &error), ALIBI_OK);
  assert_int_equal(alibi_model_new(context, &other, 5, &d, &error), ALIBI_OK);
  assert_int_equal(tiny_floats_differ(a->values, b->values, a->list.floats), 0);
  assert_int_not_equal(tiny_floats_differ(a->values, c->values, a->list.floats), 0);
  /* another method begins with the same shared weights */
  const parameter *p = parameter_find(&a->list, "blocks.0.attention.qkv.weight");
  const parameter *q = parameter_find(&d->list, p->name);
  assert_int_equal(tiny_floats_differ(a->values + p->offset, d->values + q->offset, parameter_elements(p)), 0);
  alibi_model_free(a);
  alibi_model_free(b);
  alibi_model_free(c);
  alibi_model_free(d);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {
      WITH_FOLDER(written_is_read_back),
      WITH_FOLDER(configurations_of_older_versions),
      WITH_FOLDER(configurations_that_differ_in_a_later_field),
      WITH_FOLDER(weights_keep_every_bit),
      WITH_FOLDER(saving_replaces_and_leaves_nothing_beside),
      WITH_FOLDER(damaged_configuration),
      WITH_FOLDER(weights_of_another_configuration),
      WITH_FOLDER(damaged_weights),
      WITH_FOLDER(pairs_that_do_not_belong_together),
      WITH_FOLDER(configurations_are_compared_by_meaning),
      WITH_FOLDER(missing_files),
      WITH_FOLDER(configurations_are_checked),
      WITH_FOLDER(usual_feed_forward),
      WITH_FOLDER(initial_weights_are_a_function_of_the_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
