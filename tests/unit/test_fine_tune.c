/* An extension as part of a model, and training that goes on from a trained model: files keep the extension, it is
 * used wherever the model runs, frequencies refer to the first trained length, a longer length is learned, and
 * what cannot change is refused by name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "alibi/session.h"
#include "train/fine_tune.h"
#include "train/trainer.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/tiny_model.h"

enum { VOCABULARY = 29, CORPUS = 4000, TRAINED = 24, LONG = 96 };

static alibi_context *context;
static alibi_error error;
static uint32_t corpus[CORPUS];

/* A text with something to learn that needs positions: most tokens follow from the one two before. */
static int setup(void **unused)
{
  (void)unused;
  tiny_tokens(corpus, CORPUS, 31, VOCABULARY);
  for (size_t i = 2; i < CORPUS; i++)
    if (random_below(9, 0, i, 8)) corpus[i] = (corpus[i - 2] * 3 + 1) % VOCABULARY;
  context = tiny_context(NULL, 1);
  alibi_error_init(&error);
  scratch_make();
  return 0;
}

static int teardown(void **unused)
{
  (void)unused;
  scratch_remove();
  alibi_context_free(context);
  return 0;
}

static alibi_model *tuned(alibi_model *from, const char *settings, int64_t steps, double *first, double *last)
{
  alibi_model_config config = *alibi_model_get_config(from);
  alibi_train_options o;
  alibi_train_report report;
  alibi_trainer *trainer;
  alibi_model *copy;
  tiny_set(&config, settings);
  alibi_train_options_init(&o);
  o.steps = steps, o.batch_tokens = 4 * config.train_length, o.warmup_steps = 0, o.learning_rate = 3e-3;
  if (alibi_trainer_new_from(context, from, &config, &o, corpus, CORPUS, &trainer, &error) != ALIBI_OK)
    fail_msg("%s: %s", settings, error.message);
  for (int64_t i = 0; i < steps; i++) {
    if (alibi_trainer_step(trainer, &report, &error) != ALIBI_OK) fail_msg("%s: %s", settings, error.message);
    if (i == 0 && first) *first = report.loss;
  }
  if (last) *last = report.loss;
  const char *folder = scratch_path("tuned");
  assert_int_equal(alibi_model_save(alibi_trainer_model(trainer), folder, &error), ALIBI_OK);
  if (alibi_model_open(context, folder, &copy, &error) != ALIBI_OK) fail_msg("%s", error.message);
  assert_int_equal(tiny_floats_differ(copy->values, alibi_trainer_model(trainer)->values, copy->list.floats), 0);
  alibi_trainer_free(trainer);
  return copy;
}

static alibi_model *trained(const char *settings, int64_t steps)
{
  alibi_model_config config = tiny_config(settings);
  alibi_train_options o;
  alibi_train_report report;
  alibi_trainer *trainer;
  alibi_model *copy;
  alibi_train_options_init(&o);
  o.steps = steps, o.batch_tokens = 8 * config.train_length;
  if (alibi_trainer_new(context, &config, &o, corpus, CORPUS, &trainer, &error) != ALIBI_OK)
    fail_msg("%s", error.message);
  for (int64_t i = 0; i < steps; i++) assert_int_equal(alibi_trainer_step(trainer, &report, &error), ALIBI_OK);
  const char *folder = scratch_path("trained");
  assert_int_equal(alibi_model_save(alibi_trainer_model(trainer), folder, &error), ALIBI_OK);
  assert_int_equal(alibi_model_open(context, folder, &copy, &error), ALIBI_OK);
  alibi_trainer_free(trainer);
  return copy;
}

static double nll(alibi_model *model, int64_t window, const char *extend)
{
  alibi_evaluate_options o;
  alibi_evaluate_result r;
  alibi_evaluate_options_init(&o);
  o.protocol = ALIBI_NONOVERLAPPING, o.window = window, o.extend = extend, o.max_targets = 960;
  if (alibi_evaluate(model, corpus, CORPUS, NULL, &o, &r, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return r.nll;
}

static void a_model_runs_with_its_extension(void **unused)
{
  (void)unused;
  static const char *const texts[] = {"ntk:factor=4", "yarn:factor=2,beta_fast=8", "linear"};
  for (size_t i = 0; i < 3; i++) {
    char settings[128];
    snprintf(settings, sizeof settings, "position=rope extension=%s", texts[i]);
    alibi_model *plain = tiny_model(context, "position=rope"), *own = tiny_model(context, settings), *read;
    const char *folder = scratch_path("model");
    assert_int_equal(alibi_model_save(own, folder, &error), ALIBI_OK);
    if (alibi_model_open(context, folder, &read, &error) != ALIBI_OK) fail_msg("%s", error.message);
    assert_memory_equal(&own->config, &read->config, sizeof own->config);
    double expected = nll(plain, LONG, texts[i]);
    assert_true(expected != nll(plain, LONG, NULL));
    assert_true(nll(own, LONG, NULL) == expected && nll(read, LONG, NULL) == expected);
    /* a session too */
    alibi_session_options o;
    alibi_session *a, *b;
    alibi_session_options_init(&o);
    o.capacity = LONG;
    assert_int_equal(alibi_session_new(read, &o, &b, &error), ALIBI_OK);
    o.extend = texts[i];
    assert_int_equal(alibi_session_new(plain, &o, &a, &error), ALIBI_OK);
    assert_int_equal(alibi_session_feed(a, corpus, 70, &error), ALIBI_OK);
    assert_int_equal(alibi_session_feed(b, corpus, 70, &error), ALIBI_OK);
    assert_int_equal(tiny_floats_differ(alibi_session_logits(a), alibi_session_logits(b), VOCABULARY), 0);
    alibi_session_free(a);
    alibi_session_free(b);
    assert_int_equal(alibi_session_new(own, &o, &a, &error), ALIBI_INVALID);
    scratch_says(error.message, "extend: expected none, since the model has the extension");
    alibi_model_free(plain);
    alibi_model_free(own);
    alibi_model_free(read);
  }
}

/* Of a config.json with one text replaced by another. */
static void opens_not(const char *from, const char *to, const char *sentence)
{
  alibi_model *model = tiny_model(context, "position=rope extension=yarn:factor=4"), *read;
  const char *folder = scratch_path("model"), *path = scratch_path("model/config.json");
  assert_int_equal(alibi_model_save(model, folder, &error), ALIBI_OK);
  json_node *root;
  assert_int_equal(node_read_file(path, &root, &error), ALIBI_OK);
  char *text = node_to_text(root), *at = strstr(text, from), *changed = NULL;
  assert_non_null(at);
  size_t size = strlen(text) + strlen(to) + 1;
  changed = malloc(size);
  snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  scratch_write(path, changed, strlen(changed));
  assert_int_equal(alibi_model_open(context, folder, &read, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, sentence);
  free(changed);
  free(text);
  node_free(root);
  alibi_model_free(model);
}

static void files_are_read_strictly(void **unused)
{
  (void)unused;
  opens_not("\"name\":\"yarn\"", "\"name\":\"yearn\"",
            "extension: expected an extension of position method 'rope'");
  opens_not("\"name\":\"yarn\",", "", "extension: expected an object with a name");
  opens_not("\"beta_fast\"", "\"beta_faster\"", "beta_faster");
  opens_not("\"beta_fast\":32.0", "\"beta_fast\":0.5",
            "expected beta_fast of at least beta_slow, found 0.5 and 1");
  opens_not("\"factor\":4.0", "\"factor\":-4.0", "factor");
  opens_not("\"factor\":4.0", "\"factor\":2.0", "expected the configuration that");
  opens_not("\"original_length\":0,", "\"original_length\":-1,", "original_length");
}

static void an_extension_is_set_and_taken_away(void **unused)
{
  (void)unused;
  alibi_model_config c = tiny_config("position=rope extension=yarn:factor=4");
  assert_string_equal(c.extension, "yarn");
  tiny_set(&c, "extension=none");
  assert_string_equal(c.extension, "");
  tiny_set(&c, "extension=ntk position=alibi");
  assert_string_equal(c.extension, "");
  assert_int_equal(alibi_model_config_set(&c, "extension", "yarn", &error), ALIBI_INVALID);
  scratch_says(error.message, "extension: ");
  tiny_set(&c, "position=rope extension=yarn:beta_fast=1,beta_slow=2");
  assert_int_equal(alibi_model_config_check(&c, &error), ALIBI_INVALID);
  scratch_says(error.message, "expected beta_fast of at least beta_slow");
}

static void a_longer_length_is_learned(void **unused)
{
  (void)unused;
  static const char *const changes[] = {"train_length=96 extension=yarn", "train_length=96 extension=linear",
                                        "train_length=96 rope_base=500000", "train_length=96"};
  alibi_model *from = trained("position=rope", 150);
  double short_loss = nll(from, TRAINED, NULL);
  assert_true(short_loss < 2); /* of ln 29 = 3.37 */
  for (size_t i = 0; i < 4; i++) {
    double first, last;
    alibi_model *model = tuned(from, changes[i], 20, &first, &last);
    if (!(last < first - 0.1)) fail_msg("%s: the loss went from %g to %g", changes[i], first, last);
    assert_true(model->config.train_length == LONG && model->config.original_length == TRAINED);
    assert_true(nll(model, LONG, NULL) < first - 0.1);
    alibi_model_free(model);
  }
  alibi_model_free(from);
}

/* Before any step the tuned model at its length is the first one with the extension at that length: the factor is
 * fixed and the frequencies are those of the first length. */
static void frequencies_refer_to_the_first_length(void **unused)
{
  (void)unused;
  static const char *const extensions[] = {"linear", "ntk", "yarn"};
  alibi_model *from = trained("position=rope", 5);
  for (size_t i = 0; i < 3; i++) {
    alibi_model_config config = *alibi_model_get_config(from);
    alibi_train_options o;
    alibi_trainer *trainer;
    char text[64];
    snprintf(text, sizeof text, "train_length=96 extension=%s", extensions[i]);
    tiny_set(&config, text);
    alibi_train_options_init(&o);
    o.batch_tokens = LONG;
    assert_int_equal(alibi_trainer_new_from(context, from, &config, &o, corpus, CORPUS, &trainer, &error),
                     ALIBI_OK);
    alibi_model *model = alibi_trainer_model(trainer);
    assert_true(nll(model, LONG, NULL) == nll(from, LONG, extensions[i]));
    snprintf(text, sizeof text, "%s:factor=4", extensions[i]);
    assert_true(nll(model, TRAINED, NULL) == nll(from, TRAINED, text)); /* at every length */
    assert_true(nll(model, 2 * LONG, NULL) == nll(from, 2 * LONG, text));
    assert_int_equal(model->config.original_length, TRAINED);
    alibi_trainer_free(trainer);
  }
  alibi_model_free(from);
}

/* Once more, from the tuned one. */
static void tuning_goes_on_from_the_first_length(void **unused)
{
  (void)unused;
  alibi_model *from = trained("position=rope", 5);
  alibi_model *twice = tuned(from, "train_length=48 extension=ntk", 1, NULL, NULL);
  assert_true(twice->config.original_length == TRAINED);
  assert_true(*(const double *)twice->config.extension_options.bytes == 2);
  alibi_model *more = tuned(twice, "train_length=96 extension=ntk", 1, NULL, NULL);
  assert_true(more->config.original_length == TRAINED && more->config.train_length == LONG);
  assert_true(*(const double *)more->config.extension_options.bytes == 4);
  alibi_model *back = tuned(more, "train_length=24 extension=none", 1, NULL, NULL);
  assert_true(back->config.original_length == 0 && !back->config.extension[0]);
  alibi_model_free(from);
  alibi_model_free(twice);
  alibi_model_free(more);
  alibi_model_free(back);
}

/* A run-time extension of a model that was tuned without one refers to its latest length; t5's last bucket and
 * log-n to the first. */
static void what_refers_to_which_length(void **unused)
{
  (void)unused;
  alibi_model *from = trained("position=rope", 5);
  alibi_model *model = tuned(from, "train_length=96 rope_base=500000", 1, NULL, NULL);
  assert_true(nll(model, LONG, "ntk") == nll(model, LONG, NULL));
  assert_true(nll(model, 2 * LONG, "ntk") == nll(model, 2 * LONG, "ntk:factor=2"));
  alibi_model_free(from);
  alibi_model_free(model);
  static const char *const methods[] = {"position=t5", "score_scaling=log-n"};
  for (size_t i = 0; i < 2; i++) {
    from = trained(methods[i], 5);
    alibi_model_config config = *alibi_model_get_config(from);
    alibi_train_options o;
    alibi_trainer *trainer;
    tiny_set(&config, "train_length=96");
    alibi_train_options_init(&o);
    o.batch_tokens = LONG;
    assert_int_equal(alibi_trainer_new_from(context, from, &config, &o, corpus, CORPUS, &trainer, &error),
                     ALIBI_OK);
    assert_true(nll(alibi_trainer_model(trainer), LONG, NULL) == nll(from, LONG, NULL));
    alibi_trainer_free(trainer);
    alibi_model_free(from);
  }
}

/* An extension that is named at run time changes frequencies, not the method: its window, its rows. */
static void an_extension_leaves_the_method_alone(void **unused)
{
  (void)unused;
  alibi_model *from = trained("position=rope-window", 3), *longer = tuned(from, "train_length=96", 1, NULL, NULL);
  assert_true(nll(longer, LONG, "ntk") == nll(longer, LONG, NULL));
  assert_true(nll(longer, LONG, "yarn:factor=1") == nll(longer, LONG, NULL));
  alibi_model_free(longer);
  alibi_model_free(from);
  static const char *const policies[] = {"clamp", "wrap"};
  alibi_model *learned = trained("position=learned", 3);
  alibi_model *shorter = tuned(learned, "train_length=12", 1, NULL, NULL);
  alibi_model *sinusoidal = trained("position=sinusoidal", 3);
  alibi_model *stretched = tuned(sinusoidal, "train_length=96", 1, NULL, NULL);
  for (size_t i = 0; i < 2; i++) {
    assert_true(nll(shorter, TRAINED, policies[i]) == nll(shorter, TRAINED, NULL));
    assert_true(isfinite(nll(shorter, 2 * TRAINED, policies[i])));
    assert_true(nll(stretched, LONG, policies[i]) == nll(stretched, LONG, NULL));
    assert_true(nll(stretched, 2 * LONG, policies[i]) != nll(stretched, 2 * LONG, NULL));
  }
  alibi_model_free(learned);
  alibi_model_free(shorter);
  alibi_model_free(sinusoidal);
  alibi_model_free(stretched);
}

/* A model that was trained further without an extension, and then again with one: what was run with an extension
 * before is what the training with it begins from, for any extension that has a length to refer to. */
static void an_extension_refers_to_what_was_trained_without_it(void **unused)
{
  (void)unused;
  static const char *const methods[] = {"rope", "alibi"};
  for (size_t m = 0; m < 2; m++) {
    char text[64];
    snprintf(text, sizeof text, "position=%s", methods[m]);
    alibi_model *from = trained(text, 3), *middle = tuned(from, "train_length=48", 1, NULL, NULL);
    for (size_t k = 0; k < position_extension_count(); k++) {
      const position_extension *extension = position_extension_at(k);
      if (position_extension_find(methods[m], extension->name) != extension) continue;
      alibi_model_config config = *alibi_model_get_config(middle);
      alibi_train_options o;
      alibi_trainer *trainer;
      snprintf(text, sizeof text, "train_length=96 extension=%s", extension->name);
      tiny_set(&config, text);
      alibi_train_options_init(&o);
      o.batch_tokens = LONG;
      if (alibi_trainer_new_from(context, middle, &config, &o, corpus, CORPUS, &trainer, &error) != ALIBI_OK)
        fail_msg("%s", error.message);
      const alibi_model_config *own = alibi_model_get_config(alibi_trainer_model(trainer));
      assert_true(own->original_length == TRAINED && own->train_length == LONG);
      const field *factor = field_find(extension->fields, "factor");
      bool fixed = factor && factor->initial == 0;
      if (fixed) assert_true(field_get_number(factor, own->extension_options.bytes) == 2);
      if (nll(alibi_trainer_model(trainer), LONG, NULL) != nll(middle, LONG, extension->name))
        fail_msg("%s: another loss than at run time", extension->name);
      snprintf(text, sizeof text, fixed ? "%s:factor=2" : "%s", extension->name);
      assert_true(nll(alibi_trainer_model(trainer), 2 * LONG, NULL) == nll(middle, 2 * LONG, text));
      alibi_trainer_free(trainer);
    }
    alibi_model_free(from);
    alibi_model_free(middle);
  }
}

/* An inherited extension counts from what it counted from. */
static void an_extension_is_replaced_by_a_longer_one(void **unused)
{
  (void)unused;
  alibi_model *from = trained("position=rope", 3), *middle = tuned(from, "train_length=48", 1, NULL, NULL),
              *extended = tuned(middle, "train_length=96 extension=linear", 1, NULL, NULL),
              *more = tuned(extended, "train_length=192 extension=ntk", 1, NULL, NULL);
  const extension_choice own = model_config_extension(&more->config);
  assert_true(field_get_number(field_find(own.extension->fields, "factor"), own.options.bytes) == 4);
  assert_true(field_get_number(field_find(own.extension->fields, "original_length"), own.options.bytes) == 48);
  alibi_model_config config = extended->config;
  config.train_length = 48;
  assert_int_equal(fine_tune_check_kept(&extended->config, &config, &error), ALIBI_OK);
  config.train_length = 97;
  assert_int_equal(fine_tune_check_kept(&extended->config, &config, &error), ALIBI_INVALID);
  scratch_says(error.message,
               "'linear' with a factor of 2, reaches 96 tokens, not 97: expected --extend beside it");
  assert_int_equal(fine_tune_check_kept(&middle->config, &config, &error), ALIBI_OK);
  alibi_model_free(from);
  alibi_model_free(middle);
  alibi_model_free(extended);
  alibi_model_free(more);
}

/* What comes out may go in again; the first length is never asked for. */
static void a_configuration_is_settled_once(void **unused)
{
  (void)unused;
  static const char *const changes[] = {"train_length=96 extension=yarn", "train_length=96",
                                        "train_length=12 original_length=7",
                                        "train_length=96 extension=dynamic original_length=96"};
  alibi_model *from = trained("position=rope", 3), *middle = tuned(from, "train_length=48", 1, NULL, NULL);
  for (size_t i = 0; i < 4; i++) {
    alibi_model_config once = middle->config, twice;
    tiny_set(&once, changes[i]);
    if (fine_tune_config(&middle->config, &once, &error) != ALIBI_OK) fail_msg("%s", error.message);
    assert_int_equal(once.original_length, TRAINED);
    twice = once;
    if (fine_tune_config(&middle->config, &twice, &error) != ALIBI_OK) fail_msg("%s", error.message);
    assert_memory_equal(&once, &twice, sizeof once);
  }
  alibi_model_free(from);
  alibi_model_free(middle);
}

static void refused(const alibi_model *from, const char *settings, const char *sentence)
{
  alibi_model_config config = *alibi_model_get_config(from);
  alibi_train_options o;
  alibi_trainer *trainer;
  alibi_train_options_init(&o);
  o.batch_tokens = 96;
  tiny_set(&config, settings);
  if (alibi_trainer_new_from(context, from, &config, &o, corpus, CORPUS, &trainer, &error) != ALIBI_INVALID)
    fail_msg("%s: expected a refusal", settings);
  scratch_says(error.message, sentence);
  assert_null(trainer);
}

static void what_cannot_change_is_named(void **unused)
{
  (void)unused;
  alibi_model *rope = tiny_model(context, "position=rope"), *learned = tiny_model(context, "position=learned"),
              *sinusoidal = tiny_model(context, "position=sinusoidal");
  refused(rope, "width=64", "fine-tuning: width: expected that of the trained model, 32, found 64");
  refused(rope, "heads=8", "fine-tuning: heads: expected that of the trained model, 4, found 8");
  refused(rope, "position=alibi", "fine-tuning: position: expected that of the trained model, rope, found alibi");
  refused(rope, "rope_fraction=0.5",
          "fine-tuning: rope fraction: expected that of the trained model, 1, found 0.5");
  refused(rope, "norm=rmsnorm", "fine-tuning: norm: expected that of the trained model, layernorm, found rmsnorm");
  refused(rope, "score_scaling=ssmax",
          "fine-tuning: score_scaling: expected that of the trained model, none, found ssmax");
  refused(sinusoidal, "sinusoidal_base=500", "fine-tuning: sinusoidal base: expected that of the trained model");
  refused(learned, "train_length=96",
          "train_length: expected at most the 24 positions that the method 'learned' has, found 96");
  alibi_model *longer = tuned(sinusoidal, "train_length=96", 1, NULL, NULL);
  refused(longer, "train_length=192 extension=clamp",
          "the 96 tokens that the model was trained at without it, found 'clamp'");
  alibi_model_free(longer);
  alibi_model *shorter = tuned(learned, "train_length=12", 1, NULL, NULL);
  assert_true(parameter_find(&shorter->list, "position.embedding")->rows == TRAINED);
  alibi_model_free(shorter);
  alibi_model_free(rope);
  alibi_model_free(learned);
  alibi_model_free(sinusoidal);
}

/* What parts two extensions of slopes that are one for a model as trained: a factor for good, and one that follows
 * each text. */
static void a_dynamic_factor_goes_on_following(void **unused)
{
  (void)unused;
  static const char *const names[] = {"linear", "dynamic"};
  alibi_model *from = trained("position=alibi", 5);
  assert_true(nll(from, 2 * LONG, "linear") == nll(from, 2 * LONG, "dynamic"));
  for (size_t i = 0; i < 2; i++) {
    alibi_model_config config = *alibi_model_get_config(from);
    alibi_train_options o;
    alibi_trainer *trainer;
    char text[64];
    snprintf(text, sizeof text, "train_length=96 extension=%s", names[i]);
    tiny_set(&config, text);
    alibi_train_options_init(&o);
    o.batch_tokens = LONG;
    assert_int_equal(alibi_trainer_new_from(context, from, &config, &o, corpus, CORPUS, &trainer, &error),
                     ALIBI_OK);
    alibi_model *model = alibi_trainer_model(trainer);
    assert_true(nll(model, LONG, NULL) == nll(from, LONG, "linear:factor=4"));
    assert_true(nll(model, TRAINED, NULL) == nll(from, TRAINED, i == 0 ? "linear:factor=4" : NULL));
    assert_true(nll(model, 2 * LONG, NULL) == nll(from, 2 * LONG, i == 0 ? "linear:factor=4" : "linear:factor=8"));
    alibi_trainer_free(trainer);
  }
  assert_true(nll(from, TRAINED, "linear:factor=4") != nll(from, TRAINED, NULL));
  alibi_model_free(from);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_runs_with_its_extension),
      cmocka_unit_test(files_are_read_strictly),
      cmocka_unit_test(an_extension_is_set_and_taken_away),
      cmocka_unit_test(a_longer_length_is_learned),
      cmocka_unit_test(frequencies_refer_to_the_first_length),
      cmocka_unit_test(tuning_goes_on_from_the_first_length),
      cmocka_unit_test(what_refers_to_which_length),
      cmocka_unit_test(an_extension_leaves_the_method_alone),
      cmocka_unit_test(an_extension_refers_to_what_was_trained_without_it),
      cmocka_unit_test(a_dynamic_factor_goes_on_following),
      cmocka_unit_test(an_extension_is_replaced_by_a_longer_one),
      cmocka_unit_test(a_configuration_is_settled_once),
      cmocka_unit_test(what_cannot_change_is_named),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
