/* report/: results to JSON and back bit for bit, CSV, the table and the plot for a terminal. */
/* Before cmocka.h, which has a macro with the name of our fail(). */
#include "report/drawing.h"
#include "unit/test_report_fake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_same_double(double a, double b)
{
  if (isnan(a) && isnan(b)) return;
  assert_memory_equal(&a, &b, sizeof a);
}

static void assert_same_method(const method_result *a, const method_result *b)
{
  assert_string_equal(a->name, b->name);
  assert_string_equal(a->role, b->role);
  assert_int_equal(a->train_length, b->train_length);
  assert_int_equal(a->parameters, b->parameters);
  assert_int_equal(a->steps, b->steps);
  assert_int_equal(a->train_tokens, b->train_tokens);
  assert_same_double(a->train_seconds, b->train_seconds);
  assert_same_double(a->train_cpu_seconds, b->train_cpu_seconds);
  assert_same_double(a->train_tokens_per_second, b->train_tokens_per_second);
  assert_same_double(a->evaluate_tokens_per_second, b->evaluate_tokens_per_second);
  assert_same_double(a->final_loss, b->final_loss);
  assert_int_equal(a->peak_memory_bytes, b->peak_memory_bytes);
  assert_int_equal(a->loss_every, b->loss_every);
  assert_int_equal(a->loss_count, b->loss_count);
  for (size_t i = 0; i < a->loss_count; i++) assert_same_double(a->losses[i], b->losses[i]);
  assert_int_equal(a->curve_count, b->curve_count);
  for (size_t i = 0; i < a->curve_count; i++) {
    assert_string_equal(a->curves[i].protocol, b->curves[i].protocol);
    assert_string_equal(a->curves[i].extend, b->curves[i].extend);
    assert_int_equal(a->curves[i].count, b->curves[i].count);
    for (size_t j = 0; j < a->curves[i].count; j++) {
      const curve_point *p = &a->curves[i].points[j], *q = &b->curves[i].points[j];
      assert_int_equal(p->length, q->length);
      assert_int_equal(p->stride, q->stride);
      assert_int_equal(p->tokens, q->tokens);
      assert_same_double(p->nll, q->nll);
      assert_same_double(p->nll_standard_error, q->nll_standard_error);
      assert_same_double(p->perplexity, q->perplexity);
      assert_same_double(p->standard_error, q->standard_error);
      assert_same_double(p->bits_per_byte, q->bits_per_byte);
      assert_string_equal(p->error, q->error);
    }
  }
}

static void test_round_trip(void **state)
{
  (void)state;
  study_results r = fake_study();
  r.methods[0].losses[1] = NAN; /* a training that diverged */
  r.methods[0].curves[0].points[1].nll_standard_error = NAN;
  r.methods[0].curves[0].points[2].perplexity = 0x1.fffffffffffffp+1023;
  r.methods[0].curves[0].points[2].nll = 5e-324;
  for (size_t i = 0; i < r.method_count; i++) {
    json_node *node = method_result_node(&r.methods[i]);
    char *text = node_to_text(node);
    assert_non_null(text);
    json_node *parsed = NULL;
    alibi_error error = {0};
    method_result back = {0};
    assert_int_equal(node_parse(text, strlen(text), "child.json", &parsed, &error), ALIBI_OK);
    assert_int_equal(method_result_read(parsed, "child.json", &back, &error), ALIBI_OK);
    assert_same_method(&r.methods[i], &back);
    method_result_free(&back);
    node_free(parsed);
    node_free(node);
    free(text);
  }
  study_results_free(&r);
}

/* Ways to spoil the text of a result: what is looked for, what stands in its place, what the sentence says. */
static void test_refusals(void **state)
{
  (void)state;
  static const struct {
    const char *from, *to, *says;
  } cases[] = {
      {"\"name\":\"rope\",", "", "the key \"name\" is missing"},
      {"\"name\":\"rope\"", "\"name\":7", "\"name\" must be a text"},
      {"\"name\":\"rope\"", "\"name\":\"\"", "\"name\" must be a text"},
      {"\"steps\":40", "\"steps\":40,\"extra\":1", "the key \"extra\" is unknown"},
      {"\"steps\":40", "\"steps\":-1", "\"steps\" must be an integer from 0 up"},
      {"\"steps\":40", "\"steps\":40.5", "\"steps\" must be an integer"},
      {"\"role\":\"method\"", "\"role\":\"boss\"", "\"role\" must be"},
      {"\"train_length\":64", "\"train_length\":0", "\"train_length\" must be an integer from 1 up"},
      {"\"train_seconds\":0.", "\"train_seconds\":-0.", "\"train_seconds\" must be a number from 0 up"},
      {"\"losses\":[", "\"losses\":[true,", "\"losses\" must be a number"},
      {"\"curves\":[", "\"curves\":[5,", "curves[0]: expected an object"},
      {"\"curves\":[", "\"curves\":{},\"x\":[", "\"x\" is unknown"},
      {"\"length\":128,\"perplexity\"", "\"length\":0,\"perplexity\"",
       "curves[1]: \"length\" must be an integer from 1"},
      {"\"length\":128,\"perplexity\"", "\"length\":64,\"perplexity\"", "length 64 stands there twice"},
      {"\"perplexity\":41", "\"perplexity\":-41", "\"perplexity\" must be a number from 0 up"},
      {"\"perplexity\":41", "\"error\":\"both\",\"perplexity\":41",
       "curves[0]: the key \"perplexity\" is unknown"},
      {"\"perplexity\":41.0,", "", "curves[0]: the key \"perplexity\" is missing"},
      {"\"extend\":\"ntk\",\"length\":128", "\"extend\":null,\"length\":128", "do not stand together"},
      {"\"extend\":\"ntk\",\"length\":128", "\"extend\":\"\",\"length\":128", "\"extend\" must be a text"},
  };
  study_results r = fake_study();
  json_node *node = method_result_node(&r.methods[1]);
  char *text = node_to_text(node);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *at = strstr(text, cases[i].from);
    if (!at) fail_msg("case %zu: no %s in %s", i, cases[i].from, text);
    char *spoilt = calloc(1, strlen(text) + 100);
    memcpy(spoilt, text, (size_t)(at - text));
    strcat(strcat(spoilt, cases[i].to), at + strlen(cases[i].from));
    json_node *parsed = NULL;
    alibi_error error = {0};
    method_result back = {0};
    assert_int_equal(node_parse(spoilt, strlen(spoilt), "child.json", &parsed, &error), ALIBI_OK);
    assert_int_equal(method_result_read(parsed, "child.json", &back, &error), ALIBI_BAD_INPUT);
    if (!strstr(error.message, cases[i].says) || strncmp(error.message, "child.json", 10) != 0)
      fail_msg("case %zu: expected \"%s\", found \"%s\"", i, cases[i].says, error.message);
    assert_null(back.curves);
    node_free(parsed);
    free(spoilt);
  }
  free(text);
  node_free(node);
  study_results_free(&r);
}

static void test_study_json(void **state)
{
  study_results r = fake_study();
  alibi_error error = {0};
  assert_int_equal(results_write_json(&r, *state, &error), ALIBI_OK);
  char path[512];
  json_node *root = NULL;
  snprintf(path, sizeof path, "%s/results.json", (char *)*state);
  assert_int_equal(node_read_file(path, &root, &error), ALIBI_OK);
  assert_int_equal(node_integer(node_get(root, "schema"), 0), 1);
  assert_string_equal(node_text(node_get(root, "alibi_version"), ""), alibi_version());
  assert_string_equal(
      node_text(node_get(root, "question"), ""),
      "Which `method` reads it's own {text_} \xef\xbf\xbd <script>alert(1)</script> & more \\n @x?");
  assert_string_equal(node_text(node_get(node_get(root, "settings"), "layers"), ""), "4");
  const json_node *curves = node_get(node_at(node_get(root, "methods"), 2), "curves");
  assert_int_equal(node_count(curves), 6);
  assert_null(node_get(node_at(curves, 1), "perplexity"));
  assert_int_equal(node_kind_of(node_get(node_at(curves, 0), "extend")), NODE_NULL);
  assert_non_null(strstr(node_text(node_get(node_at(curves, 1), "error"), ""), "\"128\""));
  node_free(root);
  study_results_free(&r);
  assert_int_equal(unlink(path), 0);
}

static void test_csv(void **state)
{
  study_results r = fake_study();
  static const double exact[] = {2, 4, 0.1 + 0.2};
  for (size_t i = 2; i < r.method_count; i++) method_result_free(&r.methods[i]);
  r.method_count = 3;
  fake_method(&r, "none", "method", 64);
  r.method_count = 4;
  r.methods[2] = r.methods[3];
  r.method_count = 3;
  fake_curve(&r.methods[2], "sliding", "", exact);
  r.methods[2].curves[0].points[0].nll = 0.5;
  r.methods[2].curves[0].points[0].bits_per_byte = 0.25;
  snprintf(r.methods[2].curves[0].points[1].error, RESULT_SENTENCE_SIZE, "said \"no\", twice");
  r.methods[2].curves[0].points[2].nll = r.methods[2].curves[0].points[2].bits_per_byte = NAN;
  r.methods[2].curves[0].points[2].standard_error = INFINITY;
  alibi_error error = {0};
  assert_int_equal(results_write_csv(&r, *state, &error), ALIBI_OK);
  char *text = fake_read(*state, "results.csv"), path[512];
  assert_non_null(text);
  assert_int_equal(
      strncmp(text,
              "method,role,train_length,protocol,extend,length,perplexity,standard_error,bits_per_byte,nll,"
              "stride,tokens,error\nalibi,method,64,sliding,,64,43.3,",
              strlen("method,role,train_length,protocol,extend,length,perplexity,standard_error,"
                     "bits_per_byte,nll,stride,tokens,error\nalibi,method,64,sliding,,64,43.3,")),
      0);
  assert_non_null(strstr(text, "\nrope,method,64,sliding,ntk,1024,138,2.15625,"));
  const char *tail = "\nnone,method,64,sliding,,64,2,0.03125,0.25,0.5,16,8000,\n"
                     "none,method,64,sliding,,128,,,,,,,\"said \"\"no\"\", twice\"\n"
                     "none,method,64,sliding,,1024,0.30000000000000004,,,,18,8002,\n";
  assert_string_equal(text + strlen(text) - strlen(tail), tail);
  free(text);
  study_results_free(&r);
  snprintf(path, sizeof path, "%s/results.csv", (char *)*state);
  assert_int_equal(unlink(path), 0);
}

static void test_table(void **state)
{
  (void)state;
  study_results r = fake_study();
  char *table = results_table(&r, "sliding", 80);
  assert_string_equal(table, "sliding: perplexity by tokens read at once (lower is better)\n"
                             "\n"
                             "method            64*    128    1024\n"
                             "alibi           43.30  43.40   43.40\n"
                             "rope            41.00  62.70    1420\n"
                             "rope+ntk        41.00  42.40  138.00\n"
                             "learned         52.20      -       -\n"
                             "sinusoidal@128  44.90  44.40  112.00\n"
                             "\n"
                             "* training length; standard errors are 1.6 % of the figures\n"
                             "- learned has 64 positions, so \"128\" tokens, <more>, do not fit\n");
  free(table);
  /* Too narrow for all lengths: the table goes on below. */
  table = results_table(&r, "fixed-target", 22);
  assert_string_equal(table, "fixed-target: perplexity by tokens read at once (lower is better)\n"
                             "\n"
                             "method     64*    128\n"
                             "alibi    43.30  43.40\n"
                             "rope     41.00  62.70\n"
                             "learned  52.20      -\n"
                             "\n"
                             "method    1024\n"
                             "alibi    43.40\n"
                             "rope      1420\n"
                             "learned      -\n"
                             "\n"
                             "* training length; standard errors are 1.6 % of the figures\n"
                             "- learned has 64 positions, so \"128\" tokens, <more>, do not fit\n");
  free(table);
  table = results_table(&r, "nonoverlapping", 80);
  assert_string_equal(table, "nonoverlapping: nothing was measured\n");
  free(table);
  study_results_free(&r);
}

/* Extensions that begin alike are told apart, everywhere in the same way. */
static void test_long_extensions(void **state)
{
  (void)state;
  static const double points[] = {41, 42, 43};
  char extends[4][RESULT_EXTEND_SIZE];
  study_results r = fake_study();
  for (int i = 0; i < 3; i++) {
    snprintf(extends[i], sizeof extends[i], "longrope:factor=4,long_factors=");
    for (int k = 0; k <= 32; k++) {
      size_t used = strlen(extends[i]);
      snprintf(extends[i] + used, sizeof extends[i] - used, "%g%s", k < 32 ? 1 + k * 0.25 : 20 + i,
               k < 32 ? "/" : "");
    }
    fake_curve(&r.methods[1], "sliding", extends[i], points);
    if (i != 1) fake_curve(&r.methods[1], "fixed-target", extends[i], points);
  }
  snprintf(extends[3], sizeof extends[3], "yarn:%0120d", 7);
  fake_curve(&r.methods[1], "sliding", extends[3], points);
  char *table = results_table(&r, "sliding", 200);
  static const char *const names[] = {
      "rope+longrope:factor=4,long_factors=1/1.25/1.5/1.75/2/2.25/2.5/2.75/3/3.25/3.5/3.75... (1)  ",
      "rope+longrope:factor=4,long_factors=1/1.25/1.5/1.75/2/2.25/2.5/2.75/3/3.25/3.5/3.75... (2)  ",
      "rope+longrope:factor=4,long_factors=1/1.25/1.5/1.75/2/2.25/2.5/2.75/3/3.25/3.5/3.75... (3)  ",
      "rope+yarn:0000000000000000000000000000000000000000000000000000000000000000000000000...  ", "rope+ntk  "};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (!strstr(table, names[i])) fail_msg("no \"%s\" in\n%s", names[i], table);
  free(table);
  char label[256];
  method_label(&r, &r.methods[1], extends[2], label, sizeof label);
  assert_non_null(strstr(label, "RoPE + longrope:factor=4,long_factors=1/1.25/"));
  assert_non_null(strstr(label, "... (3)"));
  table = results_table(&r, "fixed-target", 200); /* the second was not measured so: the numbers stay */
  assert_non_null(strstr(table, "... (3)  "));
  assert_null(strstr(table, "... (2)  "));
  free(table);
  for (int i = 4; i <= 70; i++) { /* no number ends */
    char many[RESULT_EXTEND_SIZE];
    snprintf(many, sizeof many, "%.200s%d", extends[0], i);
    fake_curve(&r.methods[2], "sliding", many, points);
    method_label(&r, &r.methods[2], many, label, sizeof label);
    snprintf(many, sizeof many, "... (%d)", i);
    if (!strstr(label, many)) fail_msg("no \"%s\" in \"%s\"", many, label);
  }
  study_results_free(&r);
}

static void test_plot(void **state)
{
  (void)state;
  study_results r = fake_study();
  for (int columns = -1; columns <= 200; columns += 3) {
    char *plain = results_plot(&r, "sliding", columns, false), *drawn = results_plot(&r, "sliding", columns, true);
    assert_non_null(plain);
    assert_non_null(drawn);
    for (const char *c = plain; *c; c++) assert_true(*c == '\n' || (*c >= ' ' && *c < 0x7f));
    for (const char *c = drawn; *c;) {
      size_t size = utf8_length(c, strlen(c));
      assert_true(size > 0);
      c += size;
    }
    size_t widest = 0, used = 0;
    for (const char *c = drawn; *c; c++) {
      used = *c == '\n' ? 0 : used + (((unsigned char)*c & 0xc0) != 0x80);
      if (used > widest) widest = used;
    }
    if (columns >= 60) assert_true(widest <= (size_t)columns);
    assert_non_null(strstr(plain, "A alibi"));
    assert_non_null(strstr(plain, "n rope+ntk"));
    assert_non_null(strstr(plain, "L learned (ends at 64)"));
    assert_non_null(strstr(plain, "64*"));
    free(plain);
    free(drawn);
  }
  /* Two points of one line: the higher perplexity stands higher, the trained length is marked. */
  r.method_count = 1;
  char *plain = results_plot(&r, "sliding", 60, false);
  assert_non_null(strstr(plain, "A..."));
  free(plain);
  r.method_count = 4;
  study_results_free(&r);
}

static void test_numbers(void **state)
{
  (void)state;
  char text[64];
  number_short(999.994, text, sizeof text);
  assert_string_equal(text, "999.99");
  number_short(999.996, text, sizeof text);
  assert_string_equal(text, "1000");
  number_short(1.5e9, text, sizeof text);
  assert_string_equal(text, "1.50e+09");
  number_short(NAN, text, sizeof text);
  assert_string_equal(text, "nan");
  number_grouped(1234567, text, sizeof text);
  assert_string_equal(text, "1\xe2\x80\xaf"
                            "234\xe2\x80\xaf"
                            "567");
  number_grouped(999, text, sizeof text);
  assert_string_equal(text, "999");
  number_exact(0.1, text, sizeof text);
  assert_string_equal(text, "0.1");
  static const struct {
    double value;
    const char *text;
  } ticks[] = {{40, "40"}, {1.5, "1.5"}, {0.025, "0.025"}, {500000, "500000"}, {1e6, "1e6"}, {2.5e10, "2.5e10"}};
  for (size_t i = 0; i < sizeof ticks / sizeof ticks[0]; i++) {
    number_tick(ticks[i].value, text, sizeof text);
    assert_string_equal(text, ticks[i].text);
  }
  draft d = {0};
  /* Overlong, surrogate, cut short, control characters, what is legal. */
  draft_add_clean(&d, "\xc0\xaf|\xed\xa0\x80|\xe2\x82|\x01|\xc3\xa9|\xf0\x9f\x98\x80|a\nb");
  char *clean = draft_take(&d);
#define BAD "\xef\xbf\xbd"
  assert_string_equal(clean, BAD BAD "|" BAD BAD BAD "|" BAD BAD "|" BAD "|\xc3\xa9|\xf0\x9f\x98\x80|a b");
  free(clean);
}

static void test_ticks(void **state)
{
  (void)state;
  double ticks[24];
  static const double ranges[][2] = {{40, 150}, {43.3, 43.4}, {1, 1e6},   {0.9, 1.1},
                                     {3, 8},    {1e-3, 1e9},  {5, 5.0001}};
  for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
    size_t count = axis_ticks(ranges[i][0], ranges[i][1], ticks, 24);
    assert_in_range(count, 3, 24);
    for (size_t j = 0; j < count; j++) {
      assert_true(ticks[j] >= ranges[i][0] && ticks[j] <= ranges[i][1]);
      if (j > 0) assert_true(ticks[j] > ticks[j - 1]);
    }
  }
  assert_int_equal(axis_ticks(1, 1, ticks, 24), 0);
  assert_int_equal(axis_ticks(NAN, 1, ticks, 24), 0);
}

static char folder[] = "/tmp/test-report-XXXXXX";

static int make_folder(void **state)
{
  *state = mkdtemp(folder);
  return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
  return rmdir(*state);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refusals), cmocka_unit_test(test_study_json),
      cmocka_unit_test(test_csv),        cmocka_unit_test(test_table),    cmocka_unit_test(test_plot),
      cmocka_unit_test(test_long_extensions),
      cmocka_unit_test(test_numbers),    cmocka_unit_test(test_ticks),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
