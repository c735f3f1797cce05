/* A small study, made up, for the tests of report/: three methods, two protocols, an extension, a rival, a length
 * that cannot be done, and texts that need every kind of quoting. */
#ifndef TEST_REPORT_FAKE_H
#define TEST_REPORT_FAKE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/results.h"

enum { FAKE_LENGTHS = 3 };
static const int64_t fake_lengths[FAKE_LENGTHS] = {64, 128, 1024};

/* A perplexity of 0 stands for "cannot be done". */
static void fake_curve(method_result *m, const char *protocol, const char *extend, const double *perplexity)
{
  m->curves = realloc(m->curves, (m->curve_count + 1) * sizeof *m->curves);
  curve *c = &m->curves[m->curve_count++];
  *c = (curve){.count = FAKE_LENGTHS, .points = calloc(FAKE_LENGTHS, sizeof(curve_point))};
  snprintf(c->protocol, sizeof c->protocol, "%s", protocol);
  snprintf(c->extend, sizeof c->extend, "%s", extend);
  for (int i = 0; i < FAKE_LENGTHS; i++) {
    curve_point *p = &c->points[i];
    *p = (curve_point){.length = fake_lengths[i],
                       .nll = NAN,
                       .nll_standard_error = NAN,
                       .perplexity = NAN,
                       .standard_error = NAN,
                       .bits_per_byte = NAN};
    if (perplexity[i] == 0) {
      snprintf(p->error, sizeof p->error, "learned has 64 positions, so \"%lld\" tokens, <more>, do not fit",
               (long long)p->length);
      continue;
    }
    p->perplexity = perplexity[i];
    p->nll = log(perplexity[i]);
    p->nll_standard_error = 1.0 / 64;
    p->standard_error = perplexity[i] / 64;
    p->bits_per_byte = p->nll / 3;
    p->stride = 16 + i;
    p->tokens = 8000 + i;
  }
}

static method_result *fake_method(study_results *r, const char *name, const char *role, int64_t train_length)
{
  method_result *m = &r->methods[r->method_count++];
  *m = (method_result){.train_length = train_length,
                       .parameters = 912345,
                       .steps = 40,
                       .train_tokens = 40960,
                       .train_seconds = 1.0 / 3,
                       .train_cpu_seconds = 0.1 + 0.2,
                       .train_tokens_per_second = 31234.5,
                       .evaluate_tokens_per_second = 1e5 / 3,
                       .final_loss = 3.7000000000000002,
                       .peak_memory_bytes = 83ll << 20,
                       .loss_every = 10,
                       .loss_count = 4};
  snprintf(m->name, sizeof m->name, "%s", name);
  snprintf(m->role, sizeof m->role, "%s", role);
  m->losses = calloc(4, sizeof *m->losses);
  for (int i = 0; i < 4; i++) m->losses[i] = 7.0 / (i + 1.1);
  return m;
}

static char *fake_copy(const char *s)
{
  char *copy = malloc(strlen(s) + 1);
  return strcpy(copy, s);
}

static study_results fake_study(void)
{
  static const double alibi[] = {43.3, 43.4, 43.4}, rope[] = {41, 62.7, 1420.4}, ntk[] = {41, 42.4, 138};
  static const double learned[] = {52.2, 0, 0}, rival[] = {44.9, 44.4, 112};
  study_results r = {.train_length = 64, .seconds = 312.5, .setting_count = 2};
  r.methods = calloc(4, sizeof *r.methods);
  r.settings = calloc(2, sizeof *r.settings);
  r.settings[0] = (result_setting){fake_copy("layers"), fake_copy("4")};
  r.settings[1] = (result_setting){fake_copy("text"), fake_copy("a<b>&\"c\"'d'.txt")};
  r.question = fake_copy("Which `method` reads it's own {text_} \xff <script>alert(1)</script> & more \\n @x?");
  r.answer = fake_copy("ALiBi holds.");
  r.rival_answer = fake_copy("ALiBi <wins>.");
  r.next_command = fake_copy("alibi study --rival-length 256 text");
  r.command = fake_copy("alibi study 'a<b>&.txt'");
  r.text = fake_copy("one text");
  r.machine = fake_copy("a machine");
  method_result *m = fake_method(&r, "alibi", "method", 64);
  fake_curve(m, "sliding", "", alibi);
  fake_curve(m, "fixed-target", "", alibi);
  m = fake_method(&r, "rope", "method", 64);
  fake_curve(m, "sliding", "", rope);
  fake_curve(m, "sliding", "ntk", ntk);
  fake_curve(m, "fixed-target", "", rope);
  m = fake_method(&r, "learned", "method", 64);
  fake_curve(m, "sliding", "", learned);
  fake_curve(m, "fixed-target", "", learned);
  m = fake_method(&r, "sinusoidal", "rival", 128);
  fake_curve(m, "sliding", "", rival);
  return r;
}

/* The whole file as a string; NULL where there is none. */
__attribute__((unused)) static char *fake_read(const char *directory, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *stream = fopen(path, "rb");
  if (!stream) return NULL;
  char *text = calloc(1, 1 << 20);
  size_t size = fread(text, 1, (1 << 20) - 1, stream);
  text[size] = '\0';
  fclose(stream);
  return text;
}

#endif
