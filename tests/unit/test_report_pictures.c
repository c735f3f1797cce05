/* report/: the HTML page stands alone and escapes everything; gnuplot draws, where it is installed. */
/* Before cmocka.h, which has a macro with the name of our fail(). */
#include "report/drawing.h"
#include "report/html_parts.h"
#include "unit/test_report_fake.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Nothing is fetched, nothing runs; clean Unicode; tables and pictures that are opened are closed. */
static void check_alone(const char *page)
{
  assert_non_null(page);
  static const char *const forbidden[] = {"http",    "src=",  "<script", "url(",
                                          "@import", "<link", "<iframe", "javascript:"};
  for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
    if (strstr(page, forbidden[i])) fail_msg("a page holds \"%s\"", forbidden[i]);
  for (const char *c = page; *c;) {
    size_t size = utf8_length(c, strlen(c) < 4 ? strlen(c) : 4);
    assert_true(size > 0);
    c += size;
  }
  static const char *const tags[] = {"table", "tr", "td", "th", "svg", "figure", "dl",
                                     "dt",    "dd", "ol", "li", "p",   "g"};
  for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
    char open[16], open_more[16], close[16];
    size_t opened = 0, closed = 0;
    snprintf(open, sizeof open, "<%s>", tags[i]);
    snprintf(open_more, sizeof open_more, "<%s ", tags[i]);
    snprintf(close, sizeof close, "</%s>", tags[i]);
    for (const char *c = page; (c = strchr(c, '<')); c++) {
      opened += strncmp(c, open, strlen(open)) == 0 || strncmp(c, open_more, strlen(open_more)) == 0;
      closed += strncmp(c, close, strlen(close)) == 0;
    }
    if (opened != closed) fail_msg("<%s>: %zu opened, %zu closed", tags[i], opened, closed);
  }
}

static void check_page(const char *page)
{
  check_alone(page);
  assert_non_null(strstr(page, "{text_} \xef\xbf\xbd &lt;script&gt;alert(1)&lt;/script&gt; &amp; more"));
  assert_non_null(strstr(page, "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;.txt"));
  assert_non_null(strstr(page, "ALiBi &lt;wins&gt;."));
  assert_non_null(strstr(page, "so &quot;128&quot; tokens, &lt;more&gt;, do not fit"));
  assert_non_null(strstr(page, "<p class=\"answer\">ALiBi holds.</p>"));
  assert_non_null(strstr(page, "<td class=\"broken\">1420"));
  assert_non_null(strstr(page, "<small>34.64 times</small>")); /* 1420.4 / 41 */
  assert_non_null(strstr(page, "<td class=\"good\">43.40"));
  assert_non_null(strstr(page, "sinusoidal, trained at 128"));
  assert_non_null(strstr(page, "alibi study --rival-length 256 text"));
}

static void test_page_without_pictures(void **state)
{
  study_results r = fake_study();
  alibi_error error = {0};
  assert_int_equal(results_write_html(&r, *state, &error), ALIBI_OK);
  char *page = fake_read(*state, "report.html");
  check_page(page);
  assert_non_null(strstr(page, "aria-label=\"Sliding window\"")); /* drawn by the page itself */
  free(page);
  study_results_free(&r);
}

/* Each method has its own page, which the report links to and which names the best of the others. */
static void test_pages_of_methods(void **state)
{
  study_results r = fake_study();
  alibi_error error = {0};
  assert_int_equal(results_write_html(&r, *state, &error), ALIBI_OK);
  char *report = fake_read(*state, "report.html");
  for (size_t i = 0; i < r.method_count; i++) {
    char name[2 * RESULT_NAME_SIZE], link[3 * RESULT_NAME_SIZE];
    html_page_name(&r, &r.methods[i], name, sizeof name);
    snprintf(link, sizeof link, "<a href=\"%s\">", name);
    if (!strstr(report, link)) fail_msg("report.html does not link to %s", name);
    char *page = fake_read(*state, name);
    check_alone(page);
    assert_non_null(strstr(page, "<a href=\"report.html\">"));
    assert_non_null(strstr(page, "the best here"));
    free(page);
  }
  char *page = fake_read(*state, "method-alibi.html");
  assert_non_null(strstr(page, "Press, Smith, Lewis"));
  assert_non_null(strstr(page, "<td class=\"good\">43.40"));
  assert_null(strstr(page, "<td class=\"broken\">1420")); /* another method's */
  free(page);
  free(report);
  study_results_free(&r);
}

static void test_empty_study(void **state)
{
  study_results r = {.train_length = 64, .seconds = NAN};
  alibi_error error = {0};
  bool made = true;
  assert_int_equal(results_write_html(&r, *state, &error), ALIBI_OK);
  assert_int_equal(results_write_pictures(&r, *state, &made, &error), ALIBI_OK);
  assert_false(made);
  assert_int_equal(results_write_csv(&r, *state, &error), ALIBI_OK);
  char *csv = fake_read(*state, "results.csv");
  assert_non_null(strstr(csv, ",error\n"));
  assert_int_equal(strlen(csv), strcspn(csv, "\n") + 1);
  free(csv);
  study_results_free(&r);
}

static void test_foreign_picture(void **state)
{
  study_results r = fake_study();
  alibi_error error = {0};
  char path[512];
  snprintf(path, sizeof path, "%s/curves.svg", (char *)*state);
  FILE *stream = fopen(path, "w");
  fputs("<svg viewBox=\"0 0 9 9\"><script>alert(2)</script></svg>", stream);
  fclose(stream);
  assert_int_equal(results_write_html(&r, *state, &error), ALIBI_OK);
  char *page = fake_read(*state, "report.html");
  check_page(page);
  free(page);
  study_results_free(&r);
  assert_int_equal(unlink(path), 0);
}

static void test_pictures(void **state)
{
  study_results r = fake_study();
  alibi_error error = {0};
  bool made = false;
  status drawn = results_write_pictures(&r, *state, &made, &error);
  if (drawn != ALIBI_OK) fail_msg("%s", error.message);
  char *script = fake_read(*state, "curves.gp"), *data = fake_read(*state, "curves.dat");
  assert_non_null(script);
  assert_non_null(data);
  assert_null(strchr(script, '`')); /* gnuplot would run what stands between two of them */
  assert_non_null(strstr(data, "\n1024 1420.4 "));
  assert_non_null(strstr(data, "\n64 52.2 51.384375 53.015625 1\n")); /* the line that ends */
  free(script);
  free(data);
  study_results_free(&r);
  if (!made) {
    print_message("SKIPPED: gnuplot is not installed\n");
    skip();
  }
  char *svg = fake_read(*state, "curves.svg"), *left = fake_read(*state, "curves.svg.part");
  assert_non_null(svg);
  assert_null(left);
  static const char *const texts[] = {">trained here<",
                                      ">ALiBi<",
                                      ">RoPE + NTK<",
                                      "learned (no positions beyond 64)",
                                      "it's own {text_} \xef\xbf\xbd &lt;script>alert(1)&lt;/script>",
                                      "\\n @x?",
                                      ">rival trained here<"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    if (!strstr(svg, texts[i])) fail_msg("curves.svg does not hold \"%s\"", texts[i]);
  free(svg);
  r = fake_study();
  assert_int_equal(results_write_html(&r, *state, &error), ALIBI_OK);
  char *page = fake_read(*state, "report.html");
  check_page(page);
  assert_non_null(strstr(page, "<figure class=\"drawn\">"));
  free(page);
  study_results_free(&r);
}

/* A gnuplot of our own, that says what it was asked for and does what the test wants. */
static void stand_in(const char *directory, const char *body)
{
  char path[512];
  snprintf(path, sizeof path, "%s/gnuplot", directory);
  FILE *stream = fopen(path, "w");
  fprintf(stream, "#!/bin/sh\n# arguments: -d -c script directory picture suffix plain\n%s\n", body);
  fclose(stream);
  assert_int_equal(chmod(path, 0700), 0);
}

static void make_file(const char *directory, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *stream = fopen(path, "w");
  fprintf(stream, "old\n");
  fclose(stream);
}

static void assert_file(const char *directory, const char *name, bool there)
{
  char *text = fake_read(directory, name);
  if ((text != NULL) != there) fail_msg("%s is%s there", name, text ? "" : " not");
  free(text);
}

static void test_without_gnuplot(void **state)
{
  const char *picture = "svg() { printf '<svg>%0300d</svg>\\n' 0 > \"$4/$5$6\"; }\n"
                        "png() { printf '\\211PNG%0300dIEND1234' 0 > \"$4/$5$6\"; }\n";
  char path[600], *before = getenv("PATH"), body[1000];
  study_results r = fake_study();
  alibi_error error = {0};
  bool made = true;
  before = fake_copy(before ? before : "/usr/bin:/bin");
  snprintf(path, sizeof path, "%s:/usr/bin:/bin", (char *)*state);
  assert_int_equal(setenv("PATH", path, 1), 0);

  /* None: no failure, and old pictures, which show other numbers, go. */
  stand_in(*state, "exit 127");
  make_file(*state, "curves.svg");
  make_file(*state, "curves.png");
  assert_int_equal(results_write_pictures(&r, *state, &made, &error), ALIBI_OK);
  assert_false(made);
  assert_file(*state, "curves.svg", false);
  assert_file(*state, "curves.png", false);
  assert_file(*state, "curves.gp", true);

  /* Fails: the sentence holds what it said. */
  stand_in(*state, "echo >&2; echo 'line 7: no such thing' >&2; exit 1");
  assert_int_equal(results_write_pictures(&r, *state, &made, &error), ALIBI_FAILED);
  assert_non_null(strstr(error.message, "line 7: no such thing"));

  /* Cuts the picture short and claims success. */
  stand_in(*state, "printf '<svg>%0300d' 0 > \"$4/$5$6\"");
  assert_int_equal(results_write_pictures(&r, *state, &made, &error), ALIBI_FAILED);
  assert_file(*state, "curves.svg", false);
  assert_file(*state, "curves.svg.part", false);

  /* No cairo: the PNG comes from the other terminal. */
  snprintf(body, sizeof body,
           "%scase $5$7 in curves.svg0) svg \"$@\";; curves.png1) png \"$@\";; *) exit 1;; esac", picture);
  stand_in(*state, body);
  assert_int_equal(results_write_pictures(&r, *state, &made, &error), ALIBI_OK);
  assert_true(made);
  assert_file(*state, "curves.svg", true);
  assert_file(*state, "curves.png", true);

  assert_int_equal(setenv("PATH", before, 1), 0);
  free(before);
  snprintf(path, sizeof path, "%s/gnuplot", (char *)*state);
  assert_int_equal(unlink(path), 0);
  study_results_free(&r);
}

static void test_unwritable(void **state)
{
  (void)state;
  study_results r = fake_study();
  alibi_error error = {0};
  bool made = true;
  assert_int_not_equal(results_write_html(&r, "/nowhere/at/all", &error), ALIBI_OK);
  assert_non_null(strstr(error.message, "/nowhere/at/all/report.html"));
  assert_int_not_equal(results_write_pictures(&r, "/nowhere/at/all", &made, &error), ALIBI_OK);
  assert_false(made);
  assert_int_not_equal(results_write_csv(&r, "/nowhere/at/all", &error), ALIBI_OK);
  assert_int_not_equal(results_write_json(&r, "/nowhere/at/all", &error), ALIBI_OK);
  study_results_free(&r);
}

static char folder[] = "/tmp/test it's report-XXXXXX"; /* a name that needs care */

static int make_folder(void **state)
{
  *state = mkdtemp(folder);
  return *state ? 0 : -1;
}

static int remove_folder(void **state)
{
  DIR *folder_read = opendir(*state);
  char path[1024];
  for (struct dirent *e; folder_read && (e = readdir(folder_read));) {
    snprintf(path, sizeof path, "%s/%s", (char *)*state, e->d_name);
    unlink(path);
  }
  if (folder_read) closedir(folder_read);
  return rmdir(*state);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_page_without_pictures), cmocka_unit_test(test_pages_of_methods),
      cmocka_unit_test(test_empty_study),
      cmocka_unit_test(test_foreign_picture),       cmocka_unit_test(test_pictures),
      cmocka_unit_test(test_without_gnuplot),       cmocka_unit_test(test_unwritable),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
