/* Extensions as text: what is read is written back to the same, every slip is a sentence that names option,
 * extension and setting, lists of a study are cut where they should be, and sessions and evaluations run with what
 * the text says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "alibi/session.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/tiny_model.h"

static alibi_error error;

static double number(const extension_choice *choice, const char *name)
{
  return field_get_number(field_find(choice->extension->fields, name), choice->options.bytes);
}

static extension_choice read_text(const char *method, const char *text)
{
  extension_choice choice;
  if (extension_text_read("--extend", method, text, &choice, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return choice;
}

static void settings_are_read(void **unused)
{
  (void)unused;
  extension_choice c = read_text("rope", "yarn:factor=4,beta_fast=16.5,truncate=false");
  assert_string_equal(c.extension->name, "yarn");
  assert_true(number(&c, "factor") == 4 && number(&c, "beta_fast") == 16.5 && number(&c, "truncate") == 0);
  assert_true(number(&c, "beta_slow") == 1);
  c = read_text("rope", "ntk");
  assert_string_equal(c.extension->name, "ntk");
  assert_true(number(&c, "factor") == 0);
}

static void what_is_read_is_written(void **unused)
{
  (void)unused;
  static const char *const texts[] = {"yarn", "yarn:factor=4", "yarn:factor=4,beta_fast=16.5,truncate=false",
                                      "linear:factor=0.1"};
  char text[EXTENSION_TEXT_SIZE];
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    extension_choice c = read_text("rope", texts[i]);
    extension_text_write(&c, text, sizeof text);
    assert_string_equal(text, texts[i]);
  }
  extension_choice none = {0}, initial = read_text("rope", "yarn:beta_fast=32"), plain = read_text("rope", "yarn"),
                   other = read_text("rope", "yarn:beta_fast=31");
  extension_text_write(&none, text, sizeof text);
  assert_string_equal(text, "");
  extension_text_write(&initial, text, sizeof text);
  assert_string_equal(text, "yarn");
  assert_true(extension_choice_equal(&initial, &plain) && !extension_choice_equal(&other, &plain));
  assert_true(!extension_choice_equal(&none, &plain) && extension_choice_equal(&none, &none));
}

static void slips_are_sentences(void **unused)
{
  (void)unused;
  static const struct {
    const char *method, *text, *sentence;
  } slips[] = {
      {"rope", "ntk:beta=3", "--extend: ntk: expected settings from factor, original_length, found 'beta'"},
      {"rope", "yarn:factor=x", "--extend: yarn: factor: expected a number from 0 to 1000000, found 'x'"},
      {"rope", "yarn:factor=-1", "--extend: yarn: factor: expected a number from 0 to 1000000, found -1"},
      {"rope", "yarn:truncate=2", "--extend: yarn: truncate: expected true or false, found '2'"},
      {"rope", "yarn:factor", "--extend: yarn: expected settings as name=value between commas, found 'factor'"},
      {"rope", "yarn:", "--extend: yarn: expected settings as name=value between commas, found ''"},
      {"rope", "yarn:factor=2,", "--extend: yarn: expected settings as name=value between commas, found ''"},
      {"rope", "yarn:factor=2,factor=3", "--extend: yarn: 'factor' stands there twice"},
      {"rope", "ntk:=2", "--extend: ntk: expected settings from factor, original_length, found ''"},
      {"none", "ntk:factor=2", "--extend: position method 'none' has no extensions, found 'ntk'"},
  };
  extension_choice choice;
  for (size_t i = 0; i < sizeof slips / sizeof slips[0]; i++) {
    assert_int_equal(extension_text_read("--extend", slips[i].method, slips[i].text, &choice, &error),
                     ALIBI_INVALID);
    assert_string_equal(error.message, slips[i].sentence);
  }
  char longest[1000];
  memset(longest, 'y', sizeof longest);
  longest[sizeof longest - 1] = '\0';
  assert_int_equal(extension_text_read("--extend", "rope", longest, &choice, &error), ALIBI_INVALID);
  memcpy(longest, "yarn:", 5);
  assert_int_equal(extension_text_read("--extend", "rope", longest, &choice, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "--extend: yarn: "));
}

static void lists_are_cut_between_extensions(void **unused)
{
  (void)unused;
  static const char *const expected[] = {"ntk", "yarn:factor=4,beta_fast=16", "yarn:factor=2", "factor=9",
                                         "linear"};
  const char *list = " ntk,yarn:factor=4, beta_fast=16 ,yarn:factor=2,";
  char text[64];
  size_t length;
  for (size_t i = 0; i < 3; i++) {
    assert_true(extension_text_next(&list, text, sizeof text, &length));
    assert_string_equal(text, expected[i]);
    assert_true(length == strlen(expected[i]));
  }
  assert_false(extension_text_next(&list, text, sizeof text, &length));
  list = "factor=9,linear";
  for (size_t i = 3; i < 5; i++) {
    assert_true(extension_text_next(&list, text, sizeof text, &length));
    assert_string_equal(text, expected[i]);
  }
  list = "yarn:factor=4,beta_fast=16";
  assert_true(extension_text_next(&list, text, 8, &length));
  assert_string_equal(text, "yarn:fa");
  assert_true(length == 26);
}

/* NLL of one window of 80 tokens. */
static double loss_with(alibi_model *model, const char *extend)
{
  uint32_t tokens[81];
  alibi_evaluate_options o;
  alibi_evaluate_result r;
  tiny_tokens(tokens, 81, 5, 29);
  alibi_evaluate_options_init(&o);
  o.window = 80;
  o.extend = extend;
  if (alibi_evaluate(model, tokens, 81, NULL, &o, &r, &error) != ALIBI_OK) fail_msg("%s", error.message);
  return r.nll;
}

static void an_evaluation_takes_the_settings(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "position=rope train_length=20");
  double plain = loss_with(model, NULL), ntk = loss_with(model, "ntk"), four = loss_with(model, "ntk:factor=4");
  assert_true(plain != ntk && ntk == four); /* 80 / 20 */
  assert_true(loss_with(model, "ntk:factor=2") != ntk);
  assert_true(loss_with(model, "ntk:factor=1") == plain);
  alibi_evaluate_options o;
  alibi_evaluate_result r;
  uint32_t tokens[9] = {0};
  alibi_evaluate_options_init(&o);
  o.window = 8;
  o.extend = "yarn:beta_fast=1,beta_slow=2";
  assert_int_equal(alibi_evaluate(model, tokens, 9, NULL, &o, &r, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "beta_fast of at least beta_slow, found 1 and 2"));
  alibi_model_free(model);
  alibi_context_free(context);
}

static status open_with(alibi_model *model, const char *extend, alibi_session **session)
{
  alibi_session_options o;
  alibi_session_options_init(&o);
  o.capacity = 80;
  o.extend = extend;
  return alibi_session_new(model, &o, session, &error);
}

static void sessions_of_other_settings_are_others(void **unused)
{
  (void)unused;
  static const char *const texts[] = {"ntk", "ntk:factor=4", "ntk:factor=2"};
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *model = tiny_model(context, "position=rope train_length=20");
  alibi_session *sessions[3], *shared;
  uint32_t tokens[40];
  tiny_tokens(tokens, 40, 6, 29);
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(open_with(model, texts[i], &sessions[i]), ALIBI_OK);
    assert_int_equal(alibi_session_feed(sessions[i], tokens, 40, &error), ALIBI_OK);
  }
  const float *a = alibi_session_logits(sessions[0]);
  assert_int_equal(tiny_floats_differ(a, alibi_session_logits(sessions[1]), 29), 0);
  assert_true(tiny_floats_differ(a, alibi_session_logits(sessions[2]), 29));
  alibi_session_options o;
  alibi_session_options_init(&o);
  o.extend = "ntk:factor=2.0";
  assert_int_equal(alibi_session_share(sessions[2], 30, &o, &shared, &error), ALIBI_OK);
  alibi_session_free(shared);
  o.extend = "ntk";
  assert_int_equal(alibi_session_share(sessions[2], 30, &o, &shared, &error), ALIBI_INVALID);
  assert_string_equal(error.message, "session: expected the extension of the session that it begins with, "
                                     "ntk:factor=2, found 'ntk'");
  assert_int_equal(open_with(model, "ntk:faktor=2", &shared), ALIBI_INVALID);
  assert_string_equal(error.message,
                      "extend: ntk: expected settings from factor, original_length, found 'faktor'");
  for (size_t i = 0; i < 3; i++) alibi_session_free(sessions[i]);
  alibi_model_free(model);
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(settings_are_read),
      cmocka_unit_test(what_is_read_is_written),
      cmocka_unit_test(slips_are_sentences),
      cmocka_unit_test(lists_are_cut_between_extensions),
      cmocka_unit_test(an_evaluation_takes_the_settings),
      cmocka_unit_test(sessions_of_other_settings_are_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
