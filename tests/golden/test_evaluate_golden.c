/* Every protocol against PyTorch in float64 (scripts/make_evaluate_golden.py), through the public interface:
 * means, their errors, early and late tokens, single targets, curves over places, and paired differences, of small
 * decoders whose weights and text both sides make from formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/context.h"
#include "base/random.h"
#include "kernel/kernel.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "golden/evaluate_figures.h"
#include "threads.h"

enum {
  MODELS = sizeof golden_models / sizeof golden_models[0],
  SETTINGS = sizeof golden_settings / sizeof golden_settings[0],
  DOCUMENTS = sizeof golden_documents / sizeof golden_documents[0],
  DIFFERENCES = sizeof golden_differences / sizeof golden_differences[0],
  NO_ROW = -1
};
static const double tolerance = 2e-6;

static alibi_error error;
static char running[128]; /* model, row and instruction set, for messages */
static uint32_t text[GOLDEN_TOKENS], token_bytes[GOLDEN_VOCABULARY];

static void expect_ok(alibi_status result)
{
  if (result != ALIBI_OK) fail_msg("%s: %s", running, error.message);
}

static void expect_near(const char *what, double found, double expected, double allowed)
{
  if (isnan(expected) ? !isnan(found) : !(fabs(found - expected) <= allowed))
    fail_msg("%s: %s: expected %.10g, found %.10g, allowed %.2g", running, what, expected, found, allowed);
}

static void expect_count(const char *what, int64_t found, int64_t expected)
{
  if (found != expected)
    fail_msg("%s: %s: expected %lld, found %lld", running, what, (long long)expected, (long long)found);
}

static int make_text(void **unused)
{
  (void)unused;
  uint64_t stream = 14695981039346656037u;
  for (const char *c = "text"; *c; c++) stream = (stream ^ (unsigned char)*c) * 1099511628211u;
  for (size_t i = 0; i < GOLDEN_TOKENS; i++)
    text[i] = (uint32_t)random_below(GOLDEN_SEED, stream, i, GOLDEN_VOCABULARY);
  for (size_t i = 0; i < GOLDEN_VOCABULARY; i++) token_bytes[i] = 1 + i % 4;
  return 0;
}

/* A model with its evaluations: of the text as one document, and as several. */
typedef struct subject {
  const golden_figures *figures;
  alibi_model *model;
  alibi_evaluation *evaluations[2];
  int64_t rows[GOLDEN_ROWS];
} subject;

static void add_row(subject *s, size_t i)
{
  const golden_row *g = &golden_rows[i];
  alibi_evaluate_options o;
  size_t row;
  alibi_evaluate_options_init(&o);
  o.protocol = g->protocol;
  o.window = g->window;
  o.stride = g->stride;
  o.shortest = g->shortest;
  o.longest = g->longest;
  o.early = g->early;
  if (g->begins) o.beginning = GOLDEN_BEGINNING;
  alibi_status result = alibi_evaluation_add(s->evaluations[g->documents], &o, &row, &error);
  s->rows[i] = NO_ROW;
  if (s->figures[i].tokens == 0) {
    expect_count("a row that cannot be done", result, ALIBI_INVALID);
    return;
  }
  expect_ok(result);
  s->rows[i] = (int64_t)row;
}

static void name_row(const char *position, const char *isa, size_t i)
{
  const golden_row *g = &golden_rows[i];
  snprintf(running, sizeof running, "%s, %s, row %zu: %s(%lld, %lld)%s%s", position, isa, i,
           alibi_protocol_name(g->protocol), (long long)g->window, (long long)g->stride,
           g->documents ? " of documents" : "", g->begins ? " with a beginning" : "");
}

static void subject_open(subject *s, alibi_context *context, size_t which, const char *isa)
{
  alibi_model_config config;
  alibi_model_config_init(&config);
  s->figures = golden_models[which].figures;
  for (size_t i = 0; i < SETTINGS; i++)
    expect_ok(alibi_model_config_set(&config, golden_settings[i][0], golden_settings[i][1], &error));
  expect_ok(alibi_model_config_set(&config, "position", golden_models[which].position, &error));
  if (strcmp(golden_models[which].position, "learned") == 0)
    expect_ok(alibi_model_config_set(&config, "learned_deviation", GOLDEN_LEARNED_DEVIATION, &error));
  expect_ok(alibi_model_new(context, &config, GOLDEN_SEED, &s->model, &error));
  expect_ok(alibi_evaluation_new(s->model, text, GOLDEN_TOKENS, NULL, 0, &s->evaluations[0], &error));
  expect_ok(alibi_evaluation_new(s->model, text, GOLDEN_TOKENS, golden_documents, DOCUMENTS, &s->evaluations[1],
                                 &error));
  for (size_t i = 0; i < GOLDEN_ROWS; i++) {
    name_row(golden_models[which].position, isa, i);
    add_row(s, i);
  }
  for (size_t e = 0; e < 2; e++) expect_ok(alibi_evaluation_run(s->evaluations[e], NULL, NULL, NULL, &error));
}

static void subject_close(subject *s)
{
  alibi_evaluation_free(s->evaluations[0]);
  alibi_evaluation_free(s->evaluations[1]);
  alibi_model_free(s->model);
}

/* ---- one row ---- */

static void check_targets(const alibi_evaluation *e, size_t row, const golden_figures *f)
{
  int64_t contexts = 0, last = -1;
  double along = 0;
  size_t sample = 0;
  expect_count("targets", alibi_evaluation_target_count(e, row), f->tokens);
  for (int64_t i = 0; i < f->tokens; i++) {
    alibi_target t;
    expect_ok(alibi_evaluation_target(e, row, i, &t, &error));
    if (t.token <= last) fail_msg("%s: target %lld is scored out of turn", running, (long long)i);
    last = t.token;
    contexts += t.context;
    along += (uint32_t)i * 2654435761u >> 31 ? -t.nll : t.nll;
    for (; sample < GOLDEN_SAMPLES && f->targets[sample].index == i; sample++) {
      expect_count("place of a target", t.token, f->targets[sample].token);
      expect_count("document of a target", t.document, f->targets[sample].document);
      expect_count("context of a target", t.context, f->targets[sample].context);
      expect_near("loss of a target", t.nll, f->targets[sample].nll, 1e-4);
    }
  }
  expect_count("samples", (int64_t)sample, GOLDEN_SAMPLES);
  expect_count("contexts of all targets", contexts, f->contexts);
  expect_near("losses with random signs", along / (double)f->tokens, f->along, tolerance);
}

static void check_curve(const alibi_evaluation *e, size_t row, int64_t window, const golden_figures *f)
{
  static double nll[GOLDEN_TOKENS], band[GOLDEN_TOKENS];
  int64_t windows;
  assert_true(window <= GOLDEN_TOKENS);
  expect_ok(alibi_evaluation_positions(e, row, nll, band, &windows, &error));
  expect_count("full windows", windows, f->windows);
  for (size_t i = 0; i < GOLDEN_CURVE; i++) {
    expect_near("curve", nll[f->curve[i].place], f->curve[i].nll, 1e-5);
    expect_near("band", band[f->curve[i].place], f->curve[i].band, 1e-5);
  }
}

static void check_row(const subject *s, size_t i)
{
  const golden_figures *f = &s->figures[i];
  const alibi_evaluation *e = s->evaluations[golden_rows[i].documents];
  size_t row = (size_t)s->rows[i];
  alibi_evaluate_result r;
  expect_ok(alibi_evaluation_result(e, row, -1, token_bytes, &r, &error));
  expect_count("tokens", r.tokens, f->tokens);
  expect_count("bytes", r.bytes, f->bytes);
  expect_count("early tokens", r.early_tokens, f->early_tokens);
  expect_near("loss", r.nll, f->nll, tolerance * f->nll);
  expect_near("its error", r.nll_standard_error, f->error, 1e-5);
  expect_near("perplexity", r.perplexity, exp(f->nll), 10 * tolerance * exp(f->nll));
  expect_near("bits a byte", r.bits_per_byte, f->bits_per_byte, tolerance * f->bits_per_byte);
  expect_near("loss of early tokens", r.early_nll, f->early_nll, 1e-5);
  expect_near("loss of late tokens", r.late_nll, f->late_nll, 1e-5);
  expect_near("its error", r.late_standard_error, f->late_error, 1e-5);
  check_targets(e, row, f);
  if (f->windows > 0) check_curve(e, row, golden_rows[i].window, f);
}

/* ---- all of them ---- */

static void check_differences(const subject *a, const subject *b)
{
  for (size_t i = 0; i < DIFFERENCES; i++) {
    const golden_difference *g = &golden_differences[i];
    const int documents = golden_rows[g->row].documents;
    alibi_difference d;
    snprintf(running, sizeof running, "difference of row %d", g->row);
    expect_ok(alibi_evaluation_compare(a->evaluations[documents], (size_t)a->rows[g->row],
                                       b->evaluations[documents], (size_t)b->rows[g->row], &d, &error));
    expect_count("tokens", d.tokens, a->figures[g->row].tokens);
    expect_near("loss", d.nll, g->nll, 1e-5);
    expect_near("its error", d.standard_error, g->error, 1e-5);
  }
}

static void check_all(const char *isa, int threads)
{
  subject subjects[MODELS];
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.isa = isa;
  options.threads = threads;
  expect_ok(alibi_context_new(&options, &context, &error));
  if (threads > 1) threads_share_all_work(context);
  for (size_t m = 0; m < MODELS; m++) {
    subject_open(&subjects[m], context, m, isa);
    for (size_t i = 0; i < GOLDEN_ROWS; i++) {
      name_row(golden_models[m].position, isa, i);
      if (subjects[m].rows[i] != NO_ROW) check_row(&subjects[m], i);
    }
  }
  check_differences(&subjects[0], &subjects[1]);
  for (size_t m = 0; m < MODELS; m++) subject_close(&subjects[m]);
  alibi_context_free(context);
}

static void every_protocol_is_that_of_pytorch(void **unused)
{
  (void)unused;
  check_all(kernel_table_best()->name, 1);
}

static void every_protocol_with_threads(void **unused)
{
  (void)unused;
  check_all(kernel_table_best()->name, 3);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_protocol_is_that_of_pytorch),
      cmocka_unit_test(every_protocol_with_threads),
  };
  return cmocka_run_group_tests(tests, make_text, NULL);
}
