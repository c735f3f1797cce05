/* What a task found, as people and programs read it: every number of a made-up result stands where it should. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/json.h"
#include "report/task_report.h"
#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"
#include "unit/task_oracle.h"

static const int64_t lengths[] = {64, 4096};
static const double depths[] = {0, 1};

static task_cell cell(int64_t answers, int64_t exact)
{
  return (task_cell){.answers = answers,
                     .exact = exact,
                     .tokens = 2 * answers,
                     .hits = 2 * exact,
                     .nll = (double)answers,
                     .prompts = {.blocks = (double)answers,
                                 .sum = (double)exact,
                                 .count = (double)answers,
                                 .sum_squares = (double)exact,
                                 .products = (double)exact,
                                 .count_squares = (double)answers}};
}

/* Two models; the second cannot do the longer length. */
static task_report made_up(const evaluation_task *task, task_settings *settings, task_line lines[2],
                           task_row rows[4], task_cell cells[8], task_test_options *options)
{
  memset(lines, 0, 2 * sizeof *lines);
  memset(rows, 0, 4 * sizeof *rows);
  oracle_options(task, "", options);
  *settings = (task_settings){.lengths = lengths,
                              .length_count = 2,
                              .depths = depths,
                              .depth_count = 2,
                              .trials = 5,
                              .seed = 9,
                              .options = options->bytes};
  for (int m = 0; m < 2; m++) {
    lines[m] = (task_line){.name = m ? (char *)"b<i>" : (char *)"a",
                           .path = m ? "x/b<i>" : "x/a",
                           .train_length = 64,
                           .parameters = 1000,
                           .vocabulary = 256,
                           .tokenizer = "bytes",
                           .result = {.columns = task->depths ? 2 : 0, .rows = rows + 2 * m, .count = 2}};
    strcpy(lines[m].position, m ? "learned" : "alibi");
    for (int k = 0; k < 2; k++) {
      task_row *row = &rows[2 * m + k];
      row->length = lengths[k];
      row->cells = cells + 2 * (2 * m + k);
      row->inputs = 100, row->seconds = 2;
      cells[2 * (2 * m + k)] = cell(10, k ? 1 : 10);
      cells[2 * (2 * m + k) + 1] = cell(10, k ? 4 : 9);
      row->all = cell(20, k ? 5 : 19);
      for (size_t i = 0; i < TASK_MEASURES; i++)
        row->measures[i] = (task_measure){(double)i + 1.5, i ? NAN : 0.25};
    }
  }
  strcpy(rows[3].why, "position 64 does \"not\" exist");
  rows[3].all = (task_cell){0};
  return (task_report){.task = task,
                       .settings = settings,
                       .text = "t.txt",
                       .text_bytes = 77,
                       .command = "alibi task",
                       .machine = "a machine",
                       .seconds = 1,
                       .lines = lines,
                       .count = 2};
}

static void the_table_has_every_number(void **state)
{
  (void)state;
  task_settings settings;
  task_line lines[2];
  task_row rows[4];
  task_cell cells[8];
  task_test_options options;
  task_report r = made_up(task_find("passkey"), &settings, lines, rows, cells, &options);
  char *text = task_table(&r);
  assert_string_equal(text, "passkey: a pass key of five digits at each depth of an irrelevant text\n"
                            "a: alibi, trained at 64\n"
                            "b<i>: learned, trained at 64\n"
                            "\n"
                            "% of answers right, +- its standard error\n"
                            "    length             a          b<i>\n"
                            "        64  95.0 +-  5.0  95.0 +-  5.0\n"
                            "      4096  25.0 +-  9.9           [1]\n"
                            "[1] position 64 does \"not\" exist\n"
                            "\n"
                            "a: 80 % or more up to 64 tokens\n"
                            "b<i>: 80 % or more up to 64 tokens\n"
                            "\n"
                            "a: % of answers right by depth (0: the beginning, 100: the end)\n"
                            "    length      0     100 \n"
                            "        64  100.0@   90.0#\n"
                            "      4096   10.0.   40.0:\n"
                            "\n"
                            "b<i>: % of answers right by depth (0: the beginning, 100: the end)\n"
                            "    length      0     100 \n"
                            "        64  100.0@   90.0#\n"
                            "\n"
                            "@ 95 % or more, # 80, + 50, : 20, . less\n");
  free(text);
  r = made_up(task_find("longppl"), &settings, lines, rows, cells, &options);
  text = task_table(&r);
  assert_non_null(strstr(text, "     model    length              longppl           perplexity"));
  assert_non_null(strstr(text, "         a        64     1.5000 +- 0.2500               2.5000"));
  assert_non_null(strstr(text, "      b<i>      4096  [1]\n[1] position 64"));
  free(text);
}

static void json_has_the_schema(void **state)
{
  (void)state;
  task_settings settings;
  task_line lines[2];
  task_row rows[4];
  task_cell cells[8];
  task_test_options options;
  task_report r = made_up(task_find("passkey"), &settings, lines, rows, cells, &options);
  json_node *root = task_node(&r);
  assert_int_equal(node_integer(node_get(root, "schema"), 0), 1);
  assert_string_equal(node_text(node_get(root, "task"), ""), "passkey");
  const json_node *s = node_get(root, "settings"), *models = node_get(root, "models");
  assert_int_equal(node_integer(node_get(s, "seed"), 0), 9);
  assert_int_equal(node_integer(node_get(s, "text_bytes"), 0), 77);
  assert_int_equal(node_count(node_get(s, "lengths")), 2);
  assert_int_equal(node_count(models), 2);
  const json_node *first = node_at(models, 0), *row = node_at(node_get(first, "rows"), 1);
  assert_int_equal(node_integer(node_get(first, "reach"), -1), 64);
  assert_int_equal(node_integer(node_get(row, "length"), 0), 4096);
  assert_true(node_number(node_get(row, "accuracy"), 0) == 0.25);
  assert_true(fabs(node_number(node_get(row, "standard_error"), 0) - sqrt(0.25 * 0.75 / 19)) < 1e-12);
  assert_int_equal(node_integer(node_get(row, "answers"), 0), 20);
  assert_int_equal(node_integer(node_get(row, "right"), 0), 5);
  assert_true(node_number(node_get(row, "nll"), 0) == 0.5);
  const json_node *end = node_at(node_get(row, "depths"), 1);
  assert_true(node_number(node_get(end, "depth"), 0) == 1 && node_number(node_get(end, "accuracy"), 0) == 0.4);
  const json_node *failed = node_at(node_get(node_at(models, 1), "rows"), 1);
  assert_string_equal(node_text(node_get(failed, "error"), ""), "position 64 does \"not\" exist");
  assert_null(node_get(failed, "accuracy"));
  node_free(root);
  r = made_up(task_find("longppl"), &settings, lines, rows, cells, &options);
  root = task_node(&r);
  row = node_at(node_get(node_at(node_get(root, "models"), 0), "rows"), 0);
  assert_true(node_number(node_get(node_get(row, "longppl"), "value"), 0) == 1.5);
  assert_true(node_number(node_get(node_get(row, "longppl"), "standard_error"), 0) == 0.25);
  assert_int_equal(node_kind_of(node_get(node_get(row, "perplexity"), "standard_error")), NODE_NULL);
  assert_true(node_number(node_get(node_get(node_get(root, "settings"), "task"), "gain"), 0) == 2);
  node_free(root);
}

/* Every row has as many fields as the head. */
static void csv_has_equal_rows(void **state)
{
  (void)state;
  static const char *const names[] = {"passkey", "copy", "longppl", "choice"};
  for (size_t n = 0; n < 4; n++) {
    task_settings settings;
    task_line lines[2];
    task_row rows[4];
    task_cell cells[8];
    task_test_options options;
    task_report r = made_up(task_find(names[n]), &settings, lines, rows, cells, &options);
    assert_int_equal(task_write_csv(&r, scratch_path("."), NULL), ALIBI_OK);
    char *text = scratch_read(scratch_path("results.csv"));
    size_t fields = 0, expected = 0, count = 0;
    bool quoted = false;
    for (const char *c = text; *c; c++) {
      if (*c == '"') quoted = !quoted;
      if (*c == ',' && !quoted) fields++;
      if (*c != '\n') continue;
      if (count++ == 0) expected = fields;
      assert_int_equal(fields, expected);
      fields = 0;
    }
    assert_int_equal(count, n == 0 ? 1 + 3 + 3 + 3 + 1 : 1 + 4);
    if (n == 0) {
      assert_non_null(strstr(text, "\"a\",alibi,4096,,0.25,0.09933992677987828,20,5,40,10,0.5,\n"));
      assert_non_null(strstr(text, "\"a\",alibi,4096,1,0.4,"));
      assert_non_null(strstr(text, "\"b<i>\",learned,4096,,,,,,,,,\"position 64 does \"\"not\"\" exist\"\n"));
    }
    free(text);
  }
}

static void the_page_stands_alone(void **state)
{
  (void)state;
  static const char *const names[] = {"passkey", "recall", "longppl"};
  for (size_t n = 0; n < 3; n++) {
    task_settings settings;
    task_line lines[2];
    task_row rows[4];
    task_cell cells[8];
    task_test_options options;
    bool drawn;
    alibi_error error = {0};
    task_report r = made_up(task_find(names[n]), &settings, lines, rows, cells, &options);
    if (task_write_pictures(&r, scratch_folder, &drawn, &error) != ALIBI_OK) fail_msg("%s", error.message);
    assert_int_equal(task_write_html(&r, scratch_folder, NULL), ALIBI_OK);
    char *text = scratch_read(scratch_path("report.html"));
    assert_non_null(strstr(text, "b&lt;i&gt;"));
    assert_null(strstr(text, "b<i>"));
    assert_null(strstr(text, "http"));
    assert_non_null(strstr(text, "position 64 does &quot;not&quot; exist"));
    assert_non_null(strstr(text, n == 2 ? "1.5000" : "95.0"));
    assert_int_equal(strstr(text, "<svg") != NULL, drawn);
    free(text);
    text = scratch_read(scratch_path("task.dat"));
    assert_non_null(strstr(text, n == 2 ? "\n4096 1.5 0.25\n" : "\n4096 25 "));
    assert_non_null(strstr(text, "\n4096 NaN NaN\n"));
    free(text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_has_every_number),
      cmocka_unit_test(json_has_the_schema),
      cmocka_unit_test_setup_teardown(csv_has_equal_rows, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(the_page_stands_alone, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
