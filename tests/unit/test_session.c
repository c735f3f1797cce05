/* Sessions: the same bits however the tokens were cut, whoever was stepped along, on any number of threads, and as
 * a full forward pass gives; nothing is allocated while decoding; a call that fails changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/session.h"
#include "model/model.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/allocations.h"
#include "unit/tiny_model.h"

/* Long enough for three blocks of keys and two chunks of a prefill. */
enum { VOCABULARY = 29, LONG = 150, SESSIONS = 5 };

static alibi_error error;

/* A row of the registries: a method, perhaps extended, or a kind of block. */
typedef struct subject {
  char settings[256];
  const char *extend;
  size_t length;
} subject;

static size_t subject_count(void)
{
  return position_method_count() + position_extension_count() + TINY_VARIANTS;
}

static subject subject_at(size_t row)
{
  subject s = {.length = LONG};
  const position_method *method = position_method_find("alibi");
  const char *variant = "";
  if (row < position_method_count()) {
    method = position_method_at(row);
  } else if (row < position_method_count() + position_extension_count()) {
    const position_extension *extension = position_extension_at(row - position_method_count());
    for (size_t i = 0; !position_extends(extension, method = position_method_at(i));) i++;
    s.extend = extension->name;
  } else {
    variant = tiny_variants[row - position_method_count() - position_extension_count()];
  }
  snprintf(s.settings, sizeof s.settings, "position=%s train_length=%d %s", method->name,
           method->limit && !s.extend ? LONG : 24, variant);
  return s;
}

static alibi_session *open_session(alibi_model *model, const subject *s)
{
  alibi_session *session;
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.capacity = (int64_t)s->length;
  options.extend = s->extend;
  if (alibi_session_new(model, &options, &session, &error) != ALIBI_OK)
    fail_msg("%s: %s", s->settings, error.message);
  return session;
}

static void feed(alibi_session *session, const uint32_t *tokens, size_t count)
{
  if (alibi_session_feed(session, tokens, count, &error) != ALIBI_OK) fail_msg("%s", error.message);
}

static void expect_logits(const alibi_session *session, const float *all, const char *how, size_t argument)
{
  size_t length = (size_t)alibi_session_length(session);
  size_t at = tiny_floats_differ(alibi_session_logits(session), all + (length - 1) * VOCABULARY, VOCABULARY);
  if (at)
    fail_msg("%s %zu: logit %zu after %zu tokens: expected the bits of the full forward pass", how, argument,
             at - 1, length);
}

/* Logits [length, V] by one pass without a cache and without packed weights. */
static float *full_forward(alibi_model *model, const subject *s, const uint32_t *tokens)
{
  pass_shape shape = {.rows = s->length, .segments = 1, .length = s->length, .head_rows = 1};
  extension_choice choice = {0};
  if (s->extend) {
    assert_int_equal(extension_text_read("extend", model->config.position, s->extend, &choice, &error), ALIBI_OK);
    shape.extension = choice.extension;
    shape.extension_options = choice.options.bytes;
  }
  model_pass *pass;
  pass_segment segment = {.count = s->length};
  float *all = calloc(s->length * VOCABULARY, sizeof *all);
  assert_non_null(all);
  assert_int_equal(model_pass_new(model, &shape, &pass, &error), ALIBI_OK);
  assert_int_equal(model_forward(pass, tokens, &segment, 1, &error), ALIBI_OK);
  for (size_t r = 0; r < s->length; r++) model_logits(pass, r, all + r * VOCABULARY);
  model_pass_free(pass);
  return all;
}

static void any_cut(alibi_model *model, const subject *s, const uint32_t *tokens, const float *all)
{
  static const size_t cuts[] = {1, 7, 64, LONG};
  alibi_session *session = open_session(model, s);
  assert_null(alibi_session_logits(session));
  for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
    size_t head = cuts[c] < 64 && model->context->threads > 1 ? 90 : 0; /* small steps on many threads are slow */
    feed(session, tokens, head);
    for (size_t start = head; start < s->length; start += cuts[c]) {
      feed(session, tokens + start, s->length - start < cuts[c] ? s->length - start : cuts[c]);
      expect_logits(session, all, "chunks of", cuts[c]);
    }
    alibi_session_clear(session);
    assert_int_equal(alibi_session_length(session), 0);
    assert_null(alibi_session_logits(session));
  }
  alibi_session_free(session);
}

/* Sessions at different places of the same text, one of another capacity where the length does not matter. */
static void any_company(alibi_model *model, const subject *s, const uint32_t *tokens, const float *all)
{
  static const size_t prefixes[SESSIONS] = {0, 1, 63, 64, 100};
  alibi_session *sessions[SESSIONS];
  uint32_t next[SESSIONS];
  size_t lengths[SESSIONS];
  subject other = *s;
  if (!s->extend) other.length = s->length - 10;
  for (size_t i = 0; i < SESSIONS; i++) {
    sessions[i] = open_session(model, i == 2 ? &other : s);
    feed(sessions[i], tokens, lengths[i] = prefixes[i]);
  }
  for (size_t step = 0; step < 10; step++) {
    for (size_t i = 0; i < SESSIONS; i++) next[i] = tokens[alibi_session_length(sessions[i])];
    size_t count = 1 + step % SESSIONS;
    assert_int_equal(alibi_step(model, sessions, next, count, &error), ALIBI_OK);
    for (size_t i = 0; i < count; i++) expect_logits(sessions[i], all, "stepped with others: session", i);
    for (size_t i = 0; i < SESSIONS; i++) {
      lengths[i] += i < count;
      assert_int_equal(alibi_session_length(sessions[i]), lengths[i]);
    }
  }
  for (size_t i = 0; i < SESSIONS; i++) alibi_session_free(sessions[i]);
}

static void bits_do_not_depend_on_cut_company_or_threads(void **unused)
{
  (void)unused;
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 3, VOCABULARY);
  for (size_t row = 0; row < subject_count(); row++) {
    subject s = subject_at(row);
    float *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
      alibi_context *context = tiny_context(NULL, threads);
      alibi_model *model = tiny_model(context, s.settings);
      float *all = full_forward(model, &s, tokens);
      if (first && tiny_floats_differ(first, all, s.length * VOCABULARY))
        fail_msg("%s: %d threads", s.settings, threads);
      any_cut(model, &s, tokens, all);
      any_company(model, &s, tokens, all);
      assert_null(model->engines);
      alibi_model_free(model);
      alibi_context_free(context);
      if (first) free(all);
      else first = all;
    }
    free(first);
  }
}

static void other_instruction_sets_keep_the_promise(void **unused)
{
  (void)unused;
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 4, VOCABULARY);
  for (size_t isa = 0; isa < kernel_table_count(); isa++) {
    if (!kernel_table_at(isa)) continue;
    for (size_t row = 0; row < position_method_count(); row++) {
      subject s = subject_at(row);
      alibi_context *context = tiny_context(kernel_table_at(isa)->name, 2);
      alibi_model *model = tiny_model(context, s.settings);
      float *all = full_forward(model, &s, tokens);
      any_cut(model, &s, tokens, all);
      any_company(model, &s, tokens, all);
      free(all);
      alibi_model_free(model);
      alibi_context_free(context);
    }
  }
}

/* More sessions than one pass has rows. */
static void many_sessions_in_one_step(void **unused)
{
  (void)unused;
  enum { MANY = 300, STEPS = 3 };
  alibi_context *context = tiny_context(NULL, 2);
  alibi_model *model = tiny_model(context, "position=rope");
  subject s = {.settings = "rope", .length = 24};
  uint32_t tokens[LONG], next[MANY];
  alibi_session **sessions = calloc(MANY, sizeof(alibi_session *));
  assert_non_null(sessions);
  tiny_tokens(tokens, LONG, 5, VOCABULARY);
  for (size_t i = 0; i < MANY; i++) sessions[i] = open_session(model, &s);
  for (size_t step = 0; step < STEPS; step++) {
    for (size_t i = 0; i < MANY; i++) next[i] = (tokens[step] + (uint32_t)(i % 7)) % VOCABULARY;
    assert_int_equal(alibi_step(model, sessions, next, MANY, &error), ALIBI_OK);
  }
  for (size_t i = 0; i < 7; i++) {
    alibi_session *alone = open_session(model, &s);
    for (size_t step = 0; step < STEPS; step++) {
      uint32_t token = (tokens[step] + (uint32_t)i) % VOCABULARY;
      feed(alone, &token, 1);
    }
    for (size_t j = i; j < MANY; j += 7)
      assert_int_equal(
          tiny_floats_differ(alibi_session_logits(alone), alibi_session_logits(sessions[j]), VOCABULARY), 0);
    alibi_session_free(alone);
  }
  for (size_t i = 0; i < MANY; i++) alibi_session_free(sessions[i]);
  assert_null(model->engines);
  free(sessions);
  alibi_model_free(model);
  alibi_context_free(context);
}

static void decoding_allocates_nothing(void **unused)
{
  (void)unused;
  if (!COUNTS_ALLOCATIONS) skip();
  assert_true(allocations_are_counted());
  size_t before;
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 6, VOCABULARY);
  for (size_t row = 0; row < position_method_count(); row++) {
    subject s = subject_at(row);
    alibi_context *context = tiny_context(NULL, 2);
    alibi_model *model = tiny_model(context, s.settings);
    alibi_session *sessions[2] = {open_session(model, &s), open_session(model, &s)};
    alibi_sampling sampling;
    alibi_sampling_init(&sampling);
    sampling.top_p = 0.9;
    sampling.top_k = 20;
    uint32_t next[2] = {0, 1};
    feed(sessions[0], tokens, 40); /* the threads are made here */
    before = allocations;
    for (int i = 0; i < 30; i++) {
      if (alibi_step(model, sessions, next, 2, &error) != ALIBI_OK) fail_msg("%s", error.message);
      for (int j = 0; j < 2; j++)
        alibi_sample(alibi_session_logits(sessions[j]), VOCABULARY, &sampling, (uint64_t)i, &next[j], &error);
    }
    if (allocations != before) fail_msg("%s: %zu allocations in 30 steps", s.settings, allocations - before);
    for (int j = 0; j < 2; j++) alibi_session_free(sessions[j]);
    alibi_model_free(model);
    alibi_context_free(context);
  }
}

static void says(status found, status expected, const char *part)
{
  assert_int_equal(found, expected);
  if (!strstr(error.message, part)) fail_msg("expected a sentence with \"%s\", found \"%s\"", part, error.message);
}

static status try_open(alibi_model *model, int64_t capacity, const char *extend)
{
  alibi_session *session;
  alibi_session_options options;
  alibi_session_options_init(&options);
  options.capacity = capacity;
  options.extend = extend;
  status result = alibi_session_new(model, &options, &session, &error);
  if (result != ALIBI_OK) assert_null(session);
  alibi_session_free(session);
  return result;
}

static void refuses_what_cannot_be(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 1);
  alibi_model *learned = tiny_model(context, "position=learned"), *rope = tiny_model(context, "position=rope");
  says(try_open(learned, 25, NULL), ALIBI_INVALID, "position 24 does not exist");
  says(try_open(rope, -1, NULL), ALIBI_INVALID, "found -1");
  says(try_open(rope, 48, "ntc"), ALIBI_INVALID, "one of linear, ntk, ");
  says(try_open(learned, 24, "ntk"), ALIBI_INVALID, "one of clamp, wrap, found 'ntk'");
  says(try_open(rope, INT64_MAX, NULL), ALIBI_FAILED, "not enough memory");
  assert_null(rope->engines);
  assert_null(learned->engines);
  alibi_session_options unset = {0};
  alibi_session *session;
  says(alibi_session_new(rope, &unset, &session, &error), ALIBI_INVALID, "alibi_session_options_init");
  assert_int_equal(alibi_session_new(learned, NULL, &session, &error), ALIBI_OK);
  assert_int_equal(alibi_session_capacity(session), 24);
  alibi_session_free(session);
  alibi_session_free(NULL);
  alibi_model_free(rope);
  alibi_model_free(learned);
  alibi_context_free(context);
}

/* A beginning may go on in a session of another capacity where its keys are what they would be there: with an
 * extension, run-time or the model's own, that does not go by the declared length. */
static void a_beginning_is_shared_where_positions_stay(void **unused)
{
  (void)unused;
  static const struct {
    const char *own, *extend;
    bool stays;
  } cases[] = {{"none", NULL, true},
               {"linear:factor=4", NULL, true},
               {"none", "linear:factor=4", true},
               {"yarn:factor=2", NULL, true},
               {"none", "llama3:factor=2", true},
               {"linear", NULL, false},
               {"none", "ntk", false},
               {"dynamic", NULL, false},
               {"none", "dynamic", false},
               {"longrope:factor=2", NULL, false},
               {"none", "longrope", false}};
  alibi_context *context = tiny_context(NULL, 1);
  uint32_t tokens[LONG];
  tiny_tokens(tokens, LONG, 8, VOCABULARY);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char settings[64];
    snprintf(settings, sizeof settings, "position=rope extension=%s", cases[i].own);
    alibi_model *model = tiny_model(context, settings);
    subject s = {.extend = cases[i].extend, .length = 60};
    alibi_session *first = open_session(model, &s), *second;
    feed(first, tokens, 50);
    alibi_session_options options;
    alibi_session_options_init(&options);
    options.capacity = LONG;
    status result = alibi_session_share(first, 40, &options, &second, &error);
    if (cases[i].stays) {
      s.length = LONG;
      float *all = full_forward(model, &s, tokens);
      assert_int_equal(result, ALIBI_OK);
      feed(second, tokens + 40, LONG - 40);
      expect_logits(second, all, "shared: case", i);
      free(all);
    } else {
      says(result, ALIBI_INVALID,
           "expected the capacity of the session that it begins with, 60, since the extension '");
      options.capacity = 60;
      assert_int_equal(alibi_session_share(first, 40, &options, &second, &error), ALIBI_OK);
    }
    alibi_session_free(second);
    alibi_session_free(first);
    alibi_model_free(model);
  }
  alibi_context_free(context);
}

/* After each refused call the session goes on as if nothing had been. */
static void failed_calls_change_nothing(void **unused)
{
  (void)unused;
  alibi_context *context = tiny_context(NULL, 2);
  alibi_model *model = tiny_model(context, "position=t5"), *stranger = tiny_model(context, "position=t5");
  subject s = {.settings = "t5", .length = 20};
  uint32_t tokens[LONG], bad = VOCABULARY;
  tiny_tokens(tokens, LONG, 8, VOCABULARY);
  alibi_session *one = open_session(model, &s), *two = open_session(model, &s);
  alibi_session *pair[] = {one, two}, *twice[] = {one, one};
  float *all = full_forward(model, &s, tokens);
  feed(one, tokens, 10);
  feed(two, tokens, 10);
  says(alibi_session_feed(one, tokens, 11, &error), ALIBI_INVALID, "at most 20 tokens");
  says(alibi_session_feed(one, (uint32_t[]){1, 2, bad}, 3, &error), ALIBI_INVALID, "token 29");
  says(alibi_step(model, twice, tokens, 2, &error), ALIBI_INVALID, "twice");
  says(alibi_step(stranger, pair, tokens, 2, &error), ALIBI_INVALID, "of another");
  says(alibi_step(model, pair, (uint32_t[]){1, bad}, 2, &error), ALIBI_INVALID, "token 29");
  for (int i = 0; i < 2; i++) expect_logits(pair[i], all, "after refusals: session", (size_t)i);
  assert_int_equal(alibi_session_length(one), 10);
  assert_int_equal(alibi_step(model, pair, (uint32_t[]){tokens[10], tokens[10]}, 2, &error), ALIBI_OK);
  for (int i = 0; i < 2; i++) expect_logits(pair[i], all, "a step later: session", (size_t)i);
  assert_int_equal(alibi_session_feed(one, tokens, 0, &error), ALIBI_OK);
  alibi_context_cancel(context);
  assert_int_equal(alibi_session_feed(one, tokens + 11, 2, &error), ALIBI_CANCELLED);
  assert_int_equal(alibi_step(model, pair, tokens, 2, &error), ALIBI_CANCELLED);
  for (int i = 0; i < 2; i++) expect_logits(pair[i], all, "after cancelling: session", (size_t)i);
  free(all);
  alibi_session_free(one);
  alibi_session_free(two);
  alibi_model_free(stranger);
  alibi_model_free(model);
  alibi_context_free(context);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_do_not_depend_on_cut_company_or_threads),
      cmocka_unit_test(other_instruction_sets_keep_the_promise),
      cmocka_unit_test(many_sessions_in_one_step),
      cmocka_unit_test(decoding_allocates_nothing),
      cmocka_unit_test(refuses_what_cannot_be),
      cmocka_unit_test(a_beginning_is_shared_where_positions_stay),
      cmocka_unit_test(failed_calls_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
