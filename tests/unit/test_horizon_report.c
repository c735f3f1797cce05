/* What is said of horizons: the sentence in all its forms, numbers, the farthest head, bars, JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/horizon_report.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

enum { LAYERS = 2, HEADS = 2, BINS = 3 };

typedef struct fake {
  horizon_head list[LAYERS * HEADS];
  size_t edges[BINS + 1];
  double mass[LAYERS * HEADS * BINS], bias[LAYERS * HEADS * BINS];
  horizon h;
  alibi_model_config config;
  horizon_report report;
} fake;

/* Head i of four has 99 % within 10 i + 10, horizons 100 i + 100 with its scores and 1000 i + 1000 in any text. */
static void fake_make(fake *f, bool text)
{
  memset(f, 0, sizeof *f);
  alibi_model_config_init(&f->config);
  memcpy(f->edges, (size_t[]){0, 1, 2, 500}, sizeof f->edges);
  for (size_t i = 0; i < LAYERS * HEADS; i++) {
    horizon_head *head = &f->list[i];
    *head =
        (horizon_head){.layer = i / HEADS, .head = i % HEADS, .slope = 0.25, .any_text = 1000 * (double)i + 1000};
    head->these_norms = head->these_scores = text ? 100 * (double)i + 100 : NAN;
    head->farthest = text ? 50 : NAN;
    for (size_t k = 0; k < HORIZON_SHARES; k++)
      head->within[k].pooled = text ? 10 * (double)i + 10 - 3 * (double)(HORIZON_SHARES - 1 - k) : NAN;
  }
  f->h = (horizon){.layers = LAYERS,
                   .heads = HEADS,
                   .length = 500,
                   .windows = 1,
                   .rows = 9,
                   .threshold = 0.01,
                   .text = text,
                   .list = f->list,
                   .bins = BINS,
                   .edges = f->edges,
                   .mass = f->mass,
                   .bias = f->bias};
  f->report = (horizon_report){.h = &f->h, .model = "m", .config = &f->config, .text = text ? "t" : NULL};
}

static void says(const fake *f, const char *expected)
{
  char *sentence = horizon_sentence(&f->report);
  assert_string_equal(sentence, expected);
  free(sentence);
}

static void test_sentence_on_a_text(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, true);
  says(
      &f,
      "99 % of the attention of its farthest head (layer 1, head 1) lies within 40 tokens; beyond 400 nothing can "
      "reach a head where scores rise no higher than here, beyond 4,000 in any text.");
  f.list[1].within[HORIZON_SHARES - 1].pooled = 251; /* more than half of what there is to read */
  says(&f,
       "99 % of the attention of its farthest head (layer 0, head 1) lies within 251 tokens, as far as windows of "
       "500 "
       "can tell; beyond 400 nothing can reach a head where scores rise no higher than here, beyond 4,000 in any "
       "text.");
  fake_make(&f, true);
  f.list[0].any_text = INFINITY;
  says(
      &f,
      "99 % of the attention of its farthest head (layer 1, head 1) lies within 40 tokens; beyond 400 nothing can "
      "reach a head where scores rise no higher than here.");
  f.list[0].these_scores = INFINITY;
  says(&f, "99 % of the attention of its farthest head (layer 1, head 1) lies within 40 tokens; 1 of its 4 heads "
           "has no "
           "horizon.");
  f.list[3].these_scores = INFINITY;
  says(&f, "99 % of the attention of its farthest head (layer 1, head 1) lies within 40 tokens; 2 of its 4 heads "
           "have no "
           "horizon.");
  for (size_t i = 0; i < 4; i++) f.list[i].these_scores = INFINITY;
  says(
      &f,
      "99 % of the attention of its farthest head (layer 1, head 1) lies within 40 tokens; nothing proves that it "
      "could not read farther: no head has a horizon.");
  for (size_t i = 0; i < 4; i++) f.list[i].these_scores = f.list[i].any_text = 16;
  says(&f,
       "99 % of the attention of its farthest head (layer 1, head 1) lies within 40 tokens; beyond 16 nothing can "
       "reach a head, whatever the text.");
}

static void test_sentence_of_parameters(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, false);
  says(&f, "Whatever the text, beyond 4,000 tokens nothing can reach a head (the farthest is layer 1, head 1).");
  f.list[2].any_text = INFINITY;
  says(&f, "How far it reads does not follow from the parameters: 1 of its 4 heads has no horizon.");
}

static void test_summary(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, true);
  horizon_summary s = horizon_summarise(&f.h);
  assert_ptr_equal(s.farthest, &f.list[3]);
  assert_true(s.these_scores == 400 && s.any_text == 4000);
  assert_true(s.through_layers == 200 + 400); /* the farthest of each layer */
  assert_false(s.limited);
  assert_true(horizon_last_distance(&f.h) == 500);
  f.list[0].these_scores = 700;
  assert_true(horizon_last_distance(&f.h) == 700);
}

static void test_numbers(void **state)
{
  (void)state;
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0, "0"},           {999, "999"},   {1000, "1,000"}, {12345.2, "12,345"}, {1e9, "1,000,000,000"},
               {INFINITY, "none"}, {1e15, "none"}, {NAN, "-"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[32];
    horizon_number(cases[i].value, text, sizeof text);
    assert_string_equal(text, cases[i].text);
  }
}

/* A bar for each head, none wider than the terminal; '>' where there is no horizon. */
static void test_bars(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, true);
  f.list[2].these_scores = INFINITY;
  char *bars = horizon_bars(&f.report, 60, false), *line = strchr(bars, '\n') + 1;
  static const char ends[] = "||>|";
  for (size_t i = 0; i < 4; i++) {
    size_t width = strcspn(line, "\n");
    assert_true(width <= 60);
    assert_int_equal(line[width - 1], ends[i]);
    assert_non_null(memchr(line, '#', width));
    line += width + 1;
  }
  assert_non_null(strstr(line, "100"));
  free(bars);
}

static void test_json_has_null_for_what_is_not(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, false);
  f.list[1].any_text = INFINITY;
  json_node *root = horizon_node(&f.report);
  const json_node *list = node_get(root, "list"), *head = node_at(list, 1);
  assert_int_equal(node_count(list), 4);
  assert_int_equal(node_kind_of(node_get(head, "horizon_any_text")), NODE_NULL);
  assert_int_equal(node_kind_of(node_get(head, "within")), NODE_NULL);
  assert_int_equal(node_kind_of(node_get(root, "text")), NODE_NULL);
  assert_true(node_number(node_get(node_at(list, 2), "horizon_any_text"), 0) == 3000);
  assert_int_equal(node_integer(node_get(node_get(root, "summary"), "heads_without_horizon"), 0), 1);
  node_free(root);
}

/* As many cells in every row; a name in quotes; nothing for what is not. */
static void test_csv(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, true);
  f.report.model = "a,b";
  f.list[1].any_text = INFINITY;
  alibi_error error = {0};
  if (horizon_write_csv(&f.report, scratch_folder, &error) != ALIBI_OK) fail_msg("%s", error.message);
  char *table = scratch_read(scratch_path("results.csv")), *line = table;
  size_t cells = 0, lines = 0;
  for (; *line; line = strchr(line, '\n') + 1, lines++) {
    size_t commas = 0, length = strcspn(line, "\n");
    for (size_t i = 0; i < length; i++) commas += line[i] == ',';
    if (lines > 0) commas--; /* that of the name */
    if (lines == 0) cells = commas;
    assert_int_equal(commas, cells);
  }
  assert_int_equal(lines, 5);
  scratch_says(table, ",mass_from_0,mass_from_1,mass_from_2,bias_at_0,bias_at_1,bias_at_2\n\"a,b\",");
  scratch_says(table, ",0,0,0.25,1000,0,100,0,100,0,");
  scratch_says(table, ",0,1,0.25,,0,200,0,200,0,");
  free(table);
}

/* Names may be any bytes; nothing in a page comes from outside unescaped. */
static void test_page(void **state)
{
  (void)state;
  fake f;
  fake_make(&f, true);
  f.report.model = "<b>\xff&";
  f.report.command = "alibi horizon '<b>'";
  alibi_error error = {0};
  if (horizon_write_html(&f.report, scratch_folder, &error) != ALIBI_OK) fail_msg("%s", error.message);
  char *page = scratch_read(scratch_path("report.html"));
  scratch_says(page, "beyond 400 nothing can reach a head");
  scratch_says(page, "&lt;b&gt;\xef\xbf\xbd&amp;");
  scratch_says(page, "at most the sum of the farthest horizons of its layers, 600.");
  assert_null(strstr(page, "<b>"));
  free(page);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sentence_on_a_text),
      cmocka_unit_test(test_sentence_of_parameters),
      cmocka_unit_test(test_summary),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_bars),
      cmocka_unit_test(test_json_has_null_for_what_is_not),
      cmocka_unit_test_setup_teardown(test_csv, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(test_page, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
