/* report/evaluation_*: verdicts, the split of a gain, the table, JSON, CSV, the page, tokens as lines. */
/* Before cmocka.h, which has a macro with the name of our fail(). */
#include "report/drawing.h"
#include "report/evaluation_results.h"
#include "report/evaluation_tokens.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "unit/scratch.h"

static char *copy(const char *text)
{
  char *made = text ? strdup(text) : NULL;
  if (text) assert_non_null(made);
  return made;
}

static evaluated_row measured(size_t line, const char *protocol, int64_t length, double nll)
{
  return (evaluated_row){.line = line,
                         .protocol = protocol,
                         .length = length,
                         .document = -1,
                         .stride = length,
                         .tokens = 8000,
                         .bytes = 16000,
                         .nll = nll,
                         .nll_standard_error = 0.01,
                         .perplexity = exp(nll),
                         .standard_error = 0.01 * exp(nll),
                         .bits_per_byte = nll / log(2) / 2,
                         .early = 16,
                         .early_tokens = 8000 * 16 / length,
                         .early_nll = nll + 1,
                         .late_nll = nll - 0.25,
                         .late_standard_error = 0.02,
                         .longest_window = length,
                         .documents = 2,
                         .seconds = 0.5,
                         .input_tokens = 8000};
}

static void add(evaluation_results *r, evaluated_row row)
{
  r->rows = realloc(r->rows, (r->row_count + 1) * sizeof *r->rows);
  assert_non_null(r->rows);
  r->rows[r->row_count++] = row;
}

static void add_model(evaluation_results *r, const char *name, int64_t train_length)
{
  r->models = realloc(r->models, (r->model_count + 1) * sizeof *r->models);
  assert_non_null(r->models);
  r->models[r->model_count++] = (evaluated_model){.name = copy(name),
                                                  .path = copy(name),
                                                  .position = copy("rope"),
                                                  .tokenizer = copy("bpe"),
                                                  .train_length = train_length,
                                                  .parameters = 1000,
                                                  .vocabulary = 300,
                                                  .tokens = 9000,
                                                  .same_tokens = true};
}

static void add_line(evaluation_results *r, size_t model, const char *extend, const char *label)
{
  r->lines = realloc(r->lines, (r->line_count + 1) * sizeof *r->lines);
  assert_non_null(r->lines);
  r->lines[r->line_count++] = (evaluation_line){model, copy(extend), copy(label)};
}

/* Two models, one of them twice; the second's name is what a page must not believe. */
static evaluation_results fake(void)
{
  evaluation_results r = {.max_targets = 8192,
                          .command = copy("alibi eval a '<b>' --text book.txt"),
                          .machine = copy("a processor"),
                          .seconds = 2,
                          .texts = calloc(2, sizeof *r.texts),
                          .settings = calloc(1, sizeof *r.settings)};
  assert_true(r.texts && r.settings);
  r.texts[r.text_count++] = (evaluation_text){copy("book.txt"), 20000, 3};
  r.texts[r.text_count++] = (evaluation_text){copy("other\xff.txt"), 4000, 0};
  r.settings[r.setting_count++] = (result_setting){copy("max_targets"), copy("8192")};
  add_model(&r, "a", 64);
  add_model(&r, "<b>\"q\"", 64);
  add_line(&r, 0, NULL, "a");
  add_line(&r, 1, NULL, "<b>\"q\"");
  add_line(&r, 1, "ntk", "<b>\"q\" + ntk");
  for (int64_t length = 64; length <= 128; length *= 2)
    for (size_t line = 0; line < 3; line++) {
      evaluated_row row =
          measured(line, "nonoverlapping", length, 3 - 0.1 * (double)line - 0.001 * (double)length);
      if (line > 0) {
        row.paired_tokens = 8000;
        row.difference = -0.1 * (double)line;
        row.difference_standard_error = line == 1 ? 0.06 : 0.01;
      }
      add(&r, row);
    }
  r.rows[4].nll = r.rows[4].perplexity = NAN;
  r.rows[4].error = copy("position 64 does not exist, \"says\" <it>");
  return r;
}

static void verdicts_need_two_errors(void **state)
{
  (void)state;
  evaluated_row row = {.paired_tokens = 10, .difference = -0.2, .difference_standard_error = 0.09};
  assert_string_equal(evaluation_verdict(&row), "better");
  row.difference_standard_error = 0.1;
  assert_string_equal(evaluation_verdict(&row), "unclear");
  row.difference = 0.3;
  assert_string_equal(evaluation_verdict(&row), "worse");
  row.difference_standard_error = NAN;
  assert_string_equal(evaluation_verdict(&row), "unclear");
  row.difference = row.difference_standard_error = 0;
  assert_string_equal(evaluation_verdict(&row), "equal");
  row.paired_tokens = 0;
  assert_null(evaluation_verdict(&row));
  double percent, error;
  row.difference = log(1.1);
  row.difference_standard_error = 0.01;
  evaluation_percent(&row, &percent, &error);
  assert_float_equal(percent, 10, 1e-9);
  assert_float_equal(error, 1.1, 1e-9);
}

/* The parts add up, and when only the shares change all of it is theirs. */
static void gain_is_split(void **state)
{
  (void)state;
  evaluation_results r = fake();
  evaluated_row *from = &r.rows[0], *to = &r.rows[3];
  evaluation_gain gain;
  from->early_tokens = 2000, to->early_tokens = 1000;
  from->early_nll = to->early_nll = 4;
  from->late_nll = to->late_nll = 2;
  from->nll = 0.25 * 4 + 0.75 * 2, to->nll = 0.125 * 4 + 0.875 * 2;
  assert_true(evaluation_gain_of(&r, to, &gain));
  assert_ptr_equal(gain.from, from);
  assert_float_equal(gain.total, 0.25, 1e-12);
  assert_float_equal(gain.fewer_early, 0.25, 1e-12);
  assert_float_equal(gain.better_read, 0, 1e-12);
  to->early_nll = 3.5, to->late_nll = 1.75;
  to->nll = 0.125 * 3.5 + 0.875 * 1.75;
  assert_true(evaluation_gain_of(&r, to, &gain));
  assert_float_equal(gain.total, gain.fewer_early + gain.better_read, 1e-12);
  assert_float_equal(gain.fewer_early, 0.25, 1e-12); /* the losses at `to` are not in it */
  assert_float_equal(gain.better_read, 0.125 * 0.5 + 0.875 * 0.25, 1e-12);
  to->early_tokens = 0, to->early_nll = NAN, to->nll = 1.75; /* none at this length */
  assert_true(evaluation_gain_of(&r, to, &gain));
  assert_float_equal(gain.total, gain.fewer_early + gain.better_read, 1e-12);
  assert_false(evaluation_gain_of(&r, from, &gain));       /* where it is measured from */
  assert_false(evaluation_gain_of(&r, &r.rows[4], &gain)); /* not measured */
  evaluation_results_free(&r);
}

static void answer_says_better_only_where_sure(void **state)
{
  (void)state;
  evaluation_results r = fake();
  char *answer = evaluation_answer(&r);
  scratch_says(answer,
               "Reading 128 tokens at once (nonoverlapping), <b>\"q\" + ntk has the lowest, a perplexity of");
  scratch_says(answer, "; <b>\"q\" + ntk is 18.13 % below a (+- 0.82 %, over the same tokens).");
  assert_null(strstr(answer, "no sure"));
  free(answer);
  r.rows[5].difference_standard_error = 0.2;
  answer = evaluation_answer(&r);
  scratch_says(answer, "which is no sure difference");
  free(answer);
  r.rows[5].paired_tokens = 0; /* of other tokens: the perplexity may be the lowest and say nothing */
  r.models[1].same_tokens = false;
  r.rows[5].bits_per_byte = 9;
  answer = evaluation_answer(&r);
  scratch_says(answer, ", a needs the fewest, 2.0717 bits a byte; the models read different tokens");
  free(answer);
  r.models[1].same_tokens = true;
  r.rows[5].paired_tokens = 1;
  r.rows[5].nll = 9;
  r.rows[5].difference = log(1.5);
  answer = evaluation_answer(&r); /* the first is the lowest: against the next */
  scratch_says(answer, "a has the lowest, a perplexity of");
  scratch_says(answer, "; <b>\"q\" + ntk is 50.00 % above a (+- 30.00 %, over the same tokens).");
  free(answer);
  r.rows[5].nll = r.rows[3].nll, r.rows[5].perplexity = r.rows[3].perplexity; /* a copy of the first */
  r.rows[5].difference = r.rows[5].difference_standard_error = 0;
  answer = evaluation_answer(&r);
  scratch_says(answer, "tokens at once (nonoverlapping), a has a perplexity of");
  scratch_says(answer, "; <b>\"q\" + ntk is equal to a.");
  assert_null(strstr(answer, "below"));
  free(answer);
  free(r.rows[4].error); /* a third that is higher: two have the lowest */
  r.rows[4].error = NULL;
  r.rows[4].nll = 9;
  answer = evaluation_answer(&r);
  scratch_says(answer, "a has the lowest, a perplexity of");
  scratch_says(answer, "; <b>\"q\" + ntk is equal to a.");
  free(answer);
  for (size_t i = 0; i < r.row_count; i++)
    if (!r.rows[i].error) r.rows[i].error = copy("no");
  answer = evaluation_answer(&r);
  assert_string_equal(answer, "Nothing was measured.");
  free(answer);
  evaluation_results_free(&r);
}

static void table_shows_rows_and_verdicts(void **state)
{
  (void)state;
  evaluation_results r = fake();
  r.by_word = true;
  r.rows[0].word_perplexity = 123.45;
  r.rows[3].longest_window = 99;
  char *table = evaluation_table(&r);
  assert_non_null(table);
  scratch_says(table, "a: rope, trained at 64; tokenizer bpe; 2 texts: 9000 tokens in 24000 bytes\n");
  scratch_says(table,
               "  length  model          perplexity         +-  bits/byte     per word   tokens   tokens/s");
  scratch_says(table, "123.45");
  scratch_says(table, "unclear");
  scratch_says(table, "8000      16000  the longest window had 99 tokens to read\n");
  scratch_says(table, "better");
  scratch_says(table, "     128  <b>\"q\"        position 64 does not exist, \"says\" <it>\n");
  scratch_says(table, "early tokens, predicted from fewer than 16 inputs");
  scratch_says(table, "from 64: ");
  assert_null(strstr(table, "other tokens"));
  assert_null(strstr(table, "begins with"));
  free(table);
  r.begins = true;
  r.beginning = 7;
  r.models[1].same_tokens = false;
  table = evaluation_table(&r);
  scratch_says(table, "every window begins with token 7\n");
  scratch_says(table,
               "<b>\"q\" reads other tokens than a: their perplexities do not compare, their bits/byte do\n");
  free(table);
  evaluation_results_free(&r);
}

static void json_has_every_number(void **state)
{
  (void)state;
  evaluation_results r = fake();
  r.rows[0].position_nll = calloc(64, sizeof(double));
  r.rows[0].position_band = calloc(64, sizeof(double));
  r.rows[0].position_nll[63] = 0.1;
  r.rows[0].position_windows = 7;
  evaluated_row row = measured(1, "nonoverlapping", 64, 2.5);
  row.document = 1;
  add(&r, row);
  json_node *built = evaluation_node(&r), *node = NULL;
  char *text = node_to_text(built);
  assert_non_null(text);
  alibi_error error = {0};
  assert_int_equal(node_parse(text, strlen(text), "results.json", &node, &error), ALIBI_OK);
  assert_int_equal(node_integer(node_get(node, "schema"), 0), 1);
  const json_node *rows = node_get(node, "rows"), *first = node_at(rows, 0), *third = node_at(rows, 2);
  assert_int_equal(node_count(rows), 7);
  assert_true(node_number(node_get(first, "perplexity"), 0) == r.rows[0].perplexity);
  assert_float_equal(node_number(node_get(first, "bits_per_token"), 0), r.rows[0].nll / log(2), 1e-12);
  assert_int_equal(node_kind_of(node_get(first, "difference")), NODE_NULL);
  assert_int_equal(node_kind_of(node_get(first, "document")), NODE_NULL);
  assert_null(node_get(first, "words"));
  assert_string_equal(node_text(node_get(third, "extend"), ""), "ntk");
  assert_string_equal(node_text(node_get(node_get(third, "difference"), "verdict"), ""), "better");
  assert_string_equal(node_text(node_get(node_at(rows, 4), "error"), ""), r.rows[4].error);
  assert_null(node_get(node_at(rows, 4), "perplexity"));
  assert_string_equal(node_text(node_get(node_at(rows, 6), "document"), ""), "other\xef\xbf\xbd.txt");
  const json_node *positions = node_at(node_get(node, "positions"), 0);
  assert_int_equal(node_count(node_get(positions, "nll")), 64);
  assert_true(node_number(node_at(node_get(positions, "nll"), 63), 0) == 0.1);
  assert_int_equal(node_count(node_get(node, "gains")), 2); /* line 1 was not measured at 128 */
  node_free(node);
  node_free(built);
  free(text);
  evaluation_results_free(&r);
}

static size_t count_of(const char *text, char c)
{
  size_t count = 0;
  for (; *text && *text != '\n'; text++) count += *text == c;
  return count;
}

static void csv_has_the_same_columns_in_every_row(void **state)
{
  (void)state;
  evaluation_results r = fake();
  alibi_error error = {0};
  free(r.rows[4].error);
  r.rows[4].error = copy("none");
  assert_int_equal(evaluation_write_csv(&r, scratch_folder, &error), ALIBI_OK);
  char *text = scratch_read(scratch_path("results.csv"));
  size_t commas = count_of(text, ','), lines = 0;
  for (char *line = text; *line; line = strchr(line, '\n') + 1, lines++)
    assert_int_equal(count_of(line, ','), commas);
  assert_int_equal(lines, 7);
  scratch_says(text, "\n\"<b>\"\"q\"\"\",nonoverlapping,ntk,64,,rope,64,bpe,9000,8192,,");
  free(text);
  r.begins = true;
  assert_int_equal(evaluation_write_csv(&r, scratch_folder, &error), ALIBI_OK);
  text = scratch_read(scratch_path("results.csv"));
  scratch_says(text, "nonoverlapping,ntk,64,,rope,64,bpe,9000,8192,0,");
  free(text);
  evaluation_results_free(&r);
}

static void page_stands_alone(void **state)
{
  (void)state;
  evaluation_results r = fake();
  study_results curves;
  alibi_error error = {0};
  r.by_document = true;
  evaluated_row row = measured(0, "nonoverlapping", 64, 2.5);
  row.document = 1;
  add(&r, row);
  assert_int_equal(evaluation_curves(&r, &curves, &error), ALIBI_OK);
  assert_int_equal(curves.method_count, 2);
  assert_int_equal(curves.methods[1].curve_count, 2);
  assert_int_equal(curves.methods[0].curves[0].count, 2); /* the document's row is no point */
  assert_int_equal(evaluation_write_html(&r, &curves, scratch_folder, &error), ALIBI_OK);
  char *text = scratch_read(scratch_path("report.html"));
  assert_null(strstr(text, "<b>\"q\""));
  assert_null(strstr(text, "http"));
  assert_null(strstr(text, "<script"));
  scratch_says(text, "&lt;b&gt;&quot;q&quot; + NTK");
  scratch_says(text, "The early token curse");
  scratch_says(text, "Text by text");
  scratch_says(text, "other\xef\xbf\xbd.txt");
  scratch_says(text, "<small>better</small>");
  scratch_says(text, "<small>unclear</small>");
  scratch_says(text, "position 64 does not exist, &quot;says&quot; &lt;it&gt;");
  scratch_says(text, "</html>");
  free(text);
  study_results_free(&curves);
  evaluation_results_free(&r);
}

static void curves_rise_with_the_length(void **state)
{
  (void)state;
  evaluation_results r = fake();
  study_results curves;
  alibi_error error = {0};
  r.rows[0].length = 256; /* asked for first */
  assert_int_equal(evaluation_curves(&r, &curves, &error), ALIBI_OK);
  const curve *c = &curves.methods[0].curves[0];
  assert_int_equal(c->points[0].length, 128);
  assert_int_equal(c->points[1].length, 256);
  study_results_free(&curves);
  evaluation_results_free(&r);
}

static void tokens_are_lines(void **state)
{
  (void)state;
  evaluation_results r = fake();
  alibi_error error = {0};
  static const unsigned char odd[] = {'a', '"', '\n', 0xff, '\\', 0};
  const token_entry entry = {5, 77, odd, sizeof odd, -0.1, 12};
  static const char *const names[] = {"t.csv", "t.jsonl"};
  for (int i = 0; i < 2; i++) {
    token_table table;
    const char *path = scratch_path(names[i]);
    assert_true(token_table_name(path));
    assert_int_equal(token_table_begin(path, &table, &error), ALIBI_OK);
    assert_int_equal(token_table_add(&table, &r, &r.rows[2], NULL, &entry, &error), ALIBI_OK);
    assert_int_equal(token_table_commit(&table, &error), ALIBI_OK);
  }
  scratch_expect(scratch_path("t.csv"),
                 "model,extend,protocol,length,document,token,id,text,context,log_probability\n"
                 "\"<b>\"\"q\"\"\",\"ntk\",\"nonoverlapping\",64,,5,77,"
                 "\"a\"\"\n\xef\xbf\xbd\\\xef\xbf\xbd\",12,-0.1\n");
  scratch_expect(scratch_path("t.jsonl"),
                 "{\"model\":\"<b>\\\"q\\\"\",\"extend\":\"ntk\",\"protocol\":"
                 "\"nonoverlapping\",\"length\":64,\"document\":null,\"token\":5,\"id\":77,"
                 "\"text\":\"a\\\"\\u000a\xef\xbf\xbd\\\\\\u0000\",\"context\":12,"
                 "\"log_probability\":-0.1}\n");
  assert_false(token_table_name("t.txt"));
  assert_false(token_table_name(".csv"));
  assert_false(token_table_name("a/.jsonl"));
  evaluation_results_free(&r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(verdicts_need_two_errors),
      cmocka_unit_test(gain_is_split),
      cmocka_unit_test(answer_says_better_only_where_sure),
      cmocka_unit_test(table_shows_rows_and_verdicts),
      cmocka_unit_test(json_has_every_number),
      cmocka_unit_test_setup_teardown(csv_has_the_same_columns_in_every_row, scratch_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(page_stands_alone, scratch_setup, scratch_teardown),
      cmocka_unit_test(curves_rise_with_the_length),
      cmocka_unit_test_setup_teardown(tokens_are_lines, scratch_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
