/* Rotary embeddings with all their scalings, ALiBi and T5's buckets against the transformers library
 * (scripts/make_position_golden.py), over 16384 positions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "position/extension_text.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "golden/position_figures.h"

enum {
  ROTARIES = sizeof golden_rotaries / sizeof golden_rotaries[0],
  BUCKETS = sizeof golden_t5 / sizeof golden_t5[0],
  DISTANCES = sizeof golden_alibi_distances / sizeof golden_alibi_distances[0],
  FACTORS = sizeof golden_long_factors / sizeof golden_long_factors[0]
};

static alibi_error error;
static const char *running; /* for messages */

static void expect_ok(status result)
{
  if (result != ALIBI_OK) fail_msg("%s: %s", running, error.message);
}

static void expect_near(const char *what, size_t index, double found, double expected, double tolerance)
{
  if (!(fabs(found - expected) <= tolerance))
    fail_msg("%s: %s %zu: expected %.12g, found %.12g", running, what, index, expected, found);
}

/* The script's weights(...)[index]. */
static double weight(size_t index)
{
  uint32_t x = (uint32_t)index;
  x = (x ^ (x >> 16)) * 0x7FEB352Du;
  x = (x ^ (x >> 15)) * 0x846CA68Bu;
  x ^= x >> 16;
  return ((double)(x >> 16) - 32768) / 65536;
}

/* A method with its settings, perhaps extended. */
typedef struct subject {
  const position_method *method;
  union {
    max_align_t align;
    char bytes[ALIBI_POSITION_OPTIONS_SIZE];
  } options;
  extension_choice choice;
  position_request request;
  position_tables tables;
} subject;

static void subject_begin(subject *s, const char *name, position_shape shape, size_t length)
{
  memset(s, 0, sizeof *s);
  alibi_error_init(&error);
  s->method = position_method_find(name);
  assert_non_null(s->method);
  field_init(s->method->fields, s->options.bytes);
  s->request = (position_request){.shape = shape, .options = s->options.bytes, .length = length};
}

static void subject_prepare(subject *s)
{
  s->request.extension = s->choice.extension;
  s->request.extension_options = s->choice.options.bytes;
  expect_ok(position_prepare(s->method, &s->request, &s->tables, &error));
}

static void set(field_table table, void *object, const char *name, const char *value)
{
  const field *f = field_find(table, name);
  assert_non_null(f);
  expect_ok(field_set_text(f, object, name, value, &error));
}

static void set_list(subject *s, const char *name, const double *factors)
{
  char text[1024] = "";
  for (size_t p = 0; p < FACTORS; p++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.10g", p ? "/" : "", factors[p]);
  set(s->choice.extension->fields, s->choice.options.bytes, name, text);
}

/* "rope_base=500000 yarn:factor=16 lists": settings of the method, an extension, the lists of longrope. */
static void apply(subject *s, const char *settings)
{
  char text[256], *rest = text;
  snprintf(text, sizeof text, "%s", settings);
  for (char *word; (word = strtok_r(rest, " ", &rest));) {
    char *value = strchr(word, '=');
    if (strcmp(word, "lists") == 0) {
      set_list(s, "short_factors", golden_short_factors);
      set_list(s, "long_factors", golden_long_factors);
    } else if (value && !memchr(word, ':', (size_t)(value - word))) {
      *value++ = '\0';
      set(s->method->fields, s->options.bytes, word + strlen(s->method->name) + 1, value);
    } else {
      expect_ok(extension_text_read(running, s->method->name, word, &s->choice, &error));
    }
  }
}

static void check_rotary(const golden_rotary *c)
{
  subject s;
  running = c->name;
  bool p_rope = strncmp(c->settings, "p-rope", 6) == 0;
  subject_begin(&s, p_rope ? "p-rope" : "rope",
                (position_shape){1, 1, c->head_size, c->head_size, c->train_length}, c->length);
  apply(&s, c->settings);
  subject_prepare(&s);
  const position_plan *plan = &s.tables.plan;
  size_t pairs = c->head_size / 2;
  assert_int_equal(plan->rotary, c->head_size);
  for (size_t p = 0; p < pairs; p++) {
    double magnitude, cosines = 0, sines = 0;
    expect_near("frequency", p, s.method->angle(&s.request, false, p, 1, &magnitude), c->frequencies[p],
                1e-6 * c->frequencies[p]);
    expect_near("magnitude", p, magnitude, c->magnitude, 1e-6 * c->magnitude);
    for (size_t i = 0; i < c->length; i++) {
      cosines += weight(i) * (double)plan->cosine[i * pairs + p];
      sines += weight(i) * (double)plan->sine[i * pairs + p];
    }
    /* Of a sum of 16384 roundings of 2^-25: a phase that is off by 1e-6 at the end shows. */
    expect_near("the sum of cosines", p, cosines, c->cosines[p], 1e-5);
    expect_near("the sum of sines", p, sines, c->sines[p], 1e-5);
  }
  for (size_t k = 0; k < c->angle_count; k++) {
    const golden_angle *a = &c->angles[k];
    expect_near("cosine at position", a->position, plan->cosine[a->position * pairs + a->pair], a->cosine, 1e-6);
    expect_near("sine at position", a->position, plan->sine[a->position * pairs + a->pair], a->sine, 1e-6);
  }
  position_release(&s.tables);
}

static void rotary_embeddings_are_those_of_transformers(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < ROTARIES; i++) check_rotary(&golden_rotaries[i]);
}

/* Its biases are those of keys, m_h j: what a score loses to a key at distance t is their difference. */
static void alibi_is_that_of_bloom(void **unused)
{
  (void)unused;
  subject s;
  running = "alibi";
  for (size_t heads = 1; heads <= 128; heads++) {
    subject_begin(&s, "alibi", (position_shape){1, heads, 8, heads * 8, 2048}, 16384);
    subject_prepare(&s);
    assert_int_equal(s.tables.plan.bias, BIAS_SLOPE);
    double sum = 0, size = 0;
    for (size_t h = 0; h < heads; h++) {
      double bias = -(double)s.tables.plan.slopes[h] * 16383;
      expect_near("bias of head", h, bias, s.method->bias(&s.request, 0, h, 16383, 0), 1e-6 * fabs(bias));
      sum += weight(h) * bias;
      size += fabs(weight(h) * bias);
    }
    expect_near("heads", heads, sum, golden_alibi[heads - 1], 1e-6 * size);
    for (size_t k = 0; heads == 12 && k < 12 * DISTANCES; k++)
      expect_near("bias at distance", golden_alibi_distances[k % DISTANCES],
                  s.method->bias(&s.request, 0, k / DISTANCES, 16383,
                                 16383 - golden_alibi_distances[k % DISTANCES]),
                  golden_alibi_twelve[k], 1e-6 * fabs(golden_alibi_twelve[k]));
    position_release(&s.tables);
  }
}

/* With the number of each bucket as its bias. */
static void t5_has_the_buckets_of_transformers(void **unused)
{
  (void)unused;
  float values[64];
  for (size_t b = 0; b < 64; b++) values[b] = (float)b;
  running = "t5";
  for (size_t i = 0; i < BUCKETS; i++) {
    subject s;
    char text[32];
    subject_begin(&s, "t5", (position_shape){1, 1, 8, 8, 4096}, 1001);
    snprintf(text, sizeof text, "%d", golden_t5[i].buckets);
    set(s.method->fields, s.options.bytes, "buckets", text);
    snprintf(text, sizeof text, "%d", golden_t5[i].max_distance);
    set(s.method->fields, s.options.bytes, "max_distance", text);
    s.request.parameters[0] = values;
    subject_prepare(&s);
    int bucket = 0;
    for (size_t t = 0; t <= 1000; t++) {
      while (bucket + 1 < golden_t5[i].buckets && golden_t5[i].first[bucket + 1] <= (int)t) bucket++;
      expect_near("bucket of distance", t, s.tables.plan.table[1000 - t], bucket, 0);
    }
    assert_int_equal(bucket, golden_t5[i].buckets - 1);
    position_release(&s.tables);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rotary_embeddings_are_those_of_transformers),
      cmocka_unit_test(alibi_is_that_of_bloom),
      cmocka_unit_test(t5_has_the_buckets_of_transformers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
