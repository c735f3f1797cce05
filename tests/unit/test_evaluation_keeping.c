/* Evaluations that are stopped and go on, with and without a file of losses, and files that are not theirs. */
#include "unit/evaluation_case.h"

typedef struct stopper {
  alibi_context *context;
  int64_t at, calls, first, last, total;
} stopper;

static void stop(void *user, int64_t done, int64_t total)
{
  stopper *s = user;
  assert_true(done >= 0 && done <= total);
  if (s->calls++ == 0) s->first = done;
  assert_true(done >= s->last);
  s->last = done;
  s->total = total;
  if (s->at >= 0 && done >= s->at) alibi_context_cancel(s->context);
}

static alibi_evaluation *three_rows(alibi_model *model)
{
  static const size_t starts[] = {0, 700, 1400};
  alibi_evaluation *e = begin(model, 2000, starts, 3);
  alibi_evaluate_options o = with(ALIBI_SLIDING, 16, 4);
  o.batch_tokens = 100;
  add(e, o);
  add(e, with(ALIBI_NONOVERLAPPING, 16, 0));
  add(e, with(ALIBI_STREAMING, 24, 6));
  return e;
}

/* Stopped wherever: the losses of a run that was not, with a file or without. */
static void test_stopped_runs_go_on(void **state)
{
  (void)state;
  const char *keep = scratch_path("losses");
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3);
  alibi_evaluation *expected = three_rows(model);
  run(expected);
  alibi_context_free(context);
  for (int with_file = 0; with_file < 2; with_file++)
    for (int64_t at = 0; at < 12000; at += 1100) {
      alibi_error error = {0};
      alibi_evaluation *e = NULL;
      int64_t reached = -1;
      for (int round = 0; round < 2; round++) {
        context = make_context(1); /* the flag of a cancelled one stays */
        model->context = context;
        if (!e) e = three_rows(model);
        stopper s = {.context = context, .at = round == 0 ? at : -1};
        status ended = alibi_evaluation_run(e, with_file ? keep : NULL, stop, &s, &error);
        if (round == 0 && s.total > at && s.last < s.total) {
          assert_int_equal(ended, ALIBI_CANCELLED);
          alibi_evaluate_result r;
          assert_int_equal(alibi_evaluation_result(e, 0, -1, NULL, &r, NULL), ALIBI_INVALID);
          reached = s.last;
          if (with_file) { /* another process */
            alibi_evaluation_free(e);
            e = NULL;
          }
        } else {
          if (ended != ALIBI_OK) fail_msg("%s", error.message);
          if (round == 1 && reached > 0 && reached < 7000) assert_int_equal(s.first, reached);
          if (s.calls) assert_int_equal(s.last, s.total);
        }
        assert_null(model->packed);
        alibi_context_free(context);
      }
      for (size_t row = 0; row < 3; row++) expect_same_losses(e, row, expected, row);
      alibi_evaluation_free(e);
      if (with_file) {
        assert_int_equal(scratch_entries(), 1); /* nothing beside it */
        remove(keep);
      }
    }
  alibi_evaluation_free(expected);
  model->context = context = make_context(1);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void lose_folder(void *user, int64_t done, int64_t total)
{
  (void)total;
  if (done > 0) scratch_remove_tree(user);
}

/* A place that cannot be written any more is told, and the run goes on. */
static void count_warnings(void *user, alibi_log_level level, const char *sentence)
{
  int *count = user;
  assert_int_equal(level, ALIBI_LOG_WARNING);
  assert_non_null(strstr(sentence, "losses"));
  ++*count;
}

static void test_a_place_that_is_lost_ends_no_run(void **state)
{
  (void)state;
  char folder[512];
  int warnings = 0;
  alibi_context *context = make_context(1);
  context->log = count_warnings;
  context->log_user = &warnings;
  alibi_model *model = make_model(context, "alibi", 3);
  snprintf(folder, sizeof folder, "%s", scratch_path("lost"));
  assert_int_equal(mkdir(folder, 0700), 0);
  alibi_evaluation *e = begin(model, 400, NULL, 0), *expected = begin(model, 400, NULL, 0);
  add(e, with(ALIBI_SLIDING, 16, 4));
  add(expected, with(ALIBI_SLIDING, 16, 4));
  run(expected);
  assert_int_equal(alibi_evaluation_run(e, scratch_path("lost/losses"), lose_folder, folder, NULL), ALIBI_OK);
  assert_int_equal(warnings, 1);
  expect_same_losses(e, 0, expected, 0);
  alibi_evaluation_free(e), alibi_evaluation_free(expected);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void refuse_file(alibi_model *model, const char *keep, int protocol, size_t count, const char *sentence)
{
  alibi_error error = {0};
  alibi_evaluation *e = begin(model, count, NULL, 0);
  add(e, with(protocol, 16, 4));
  assert_int_equal(alibi_evaluation_run(e, keep, NULL, NULL, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, sentence);
  scratch_says(error.message, keep);
  alibi_evaluation_free(e);
}

static void test_files_of_others_and_damaged_ones_are_refused(void **state)
{
  (void)state;
  const char *keep = scratch_path("losses");
  alibi_context *context = make_context(1);
  alibi_model *model = make_model(context, "alibi", 3), *other = make_model(context, "alibi", 4);
  alibi_error error = {0};
  alibi_evaluation *e = begin(model, 200, NULL, 0);
  add(e, with(ALIBI_SLIDING, 16, 4));
  assert_int_equal(alibi_evaluation_run(e, keep, NULL, NULL, &error), ALIBI_OK);
  alibi_evaluation_free(e);
  e = begin(model, 200, NULL, 0); /* a complete one: nothing is run */
  add(e, with(ALIBI_SLIDING, 16, 4));
  stopper s = {.context = context, .at = -1};
  assert_int_equal(alibi_evaluation_run(e, keep, stop, &s, &error), ALIBI_OK);
  assert_int_equal(s.calls, 1);
  assert_int_equal(s.first, s.total);
  alibi_evaluation_free(e);
  refuse_file(other, keep, ALIBI_SLIDING, 200, "found those of another evaluation");
  refuse_file(model, keep, ALIBI_STREAMING, 200, "found those of another evaluation");
  refuse_file(model, keep, ALIBI_SLIDING, 199, "found those of another evaluation");
  model->values[5] += 1;
  refuse_file(model, keep, ALIBI_SLIDING, 200, "found those of another evaluation");
  model->values[5] -= 1;
  text[10] ^= 1;
  refuse_file(model, keep, ALIBI_SLIDING, 200, "found those of another evaluation");
  text[10] ^= 1;
  static unsigned char bytes[4096];
  FILE *file = fopen(keep, "rb");
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  assert_int_equal(size, 24 + 24 + 199 * 4 + 8);
  for (size_t at = 0; at < size; at += 7) { /* any byte */
    bytes[at] ^= 0x10;
    scratch_write(keep, bytes, size);
    refuse_file(model, keep, ALIBI_SLIDING, 200,
                at < 8    ? "found something else"
                : at < 12 ? "version 1"
                          : "damaged");
    bytes[at] ^= 0x10;
  }
  for (size_t cut = 0; cut < size; cut += 41) { /* any length */
    scratch_write(keep, bytes, cut);
    refuse_file(model, keep, ALIBI_SLIDING, 200, cut < 24 ? "found something else" : "damaged");
  }
  e = begin(model, 200, NULL, 0);
  add(e, with(ALIBI_SLIDING, 16, 4));
  assert_int_equal(alibi_evaluation_run(e, scratch_path("none/losses"), NULL, NULL, &error), ALIBI_FAILED);
  assert_int_equal(alibi_evaluation_run(e, NULL, NULL, NULL, &error), ALIBI_OK); /* the rows are still to be run */
  alibi_evaluation_free(e);
  alibi_model_free(model), alibi_model_free(other);
  alibi_context_free(context);
}

int main(void)
{
  make_text();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_stopped_runs_go_on, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(test_a_place_that_is_lost_ends_no_run, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(test_files_of_others_and_damaged_ones_are_refused, scratch_setup,
                                      scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
