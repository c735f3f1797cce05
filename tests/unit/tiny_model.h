/* tiny_model.h - contexts, small models and tokens for the tests of whole models.  Include after cmocka.h. */
#ifndef UNIT_TINY_MODEL_H
#define UNIT_TINY_MODEL_H

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "kernel/kernel.h"
#include "model/model.h"
#include "threads.h"

static inline alibi_context *tiny_context(const char *isa, int threads)
{
  alibi_context *context;
  alibi_context_options options;
  alibi_context_options_init(&options);
  options.isa = isa;
  options.threads = threads;
  assert_int_equal(alibi_context_new(&options, &context, NULL), ALIBI_OK);
  threads_share_all_work(context);
  return context;
}

/* "name=value", separated by blanks. */
static inline void tiny_set(alibi_model_config *config, const char *settings)
{
  char text[1024], *rest = text;
  alibi_error error = {0};
  snprintf(text, sizeof text, "%s", settings);
  for (char *word; (word = strtok_r(rest, " ", &rest));) {
    char *value = strchr(word, '=');
    assert_non_null(value);
    *value++ = '\0';
    if (alibi_model_config_set(config, word, value, &error) != ALIBI_OK) fail_msg("%s", error.message);
  }
}

/* 2 blocks, 4 heads of 8; initial weights large enough that every part matters. */
static inline alibi_model_config tiny_config(const char *settings)
{
  alibi_model_config config;
  alibi_model_config_init(&config);
  tiny_set(&config, "vocabulary=29 layers=2 width=32 heads=4 feed_forward=40 train_length=24 "
                    "initial_deviation=0.2");
  tiny_set(&config, settings);
  return config;
}

/* A model none of whose parameters is 0 or 1 throughout. */
static inline alibi_model *tiny_model(alibi_context *context, const char *settings)
{
  alibi_model_config config = tiny_config(settings);
  alibi_model *model;
  alibi_error error = {0};
  if (alibi_model_new(context, &config, 7, &model, &error) != ALIBI_OK)
    fail_msg("%s: %s", settings, error.message);
  for (size_t i = 0; i < model->list.count; i++) {
    const parameter *p = &model->list.items[i];
    for (size_t e = 0; e < parameter_elements(p); e++)
      model->values[p->offset + e] += (float)(0.1 * random_normal(11, i, e));
  }
  return model;
}

static inline void tiny_tokens(uint32_t *tokens, size_t count, uint64_t seed, uint32_t vocabulary)
{
  for (size_t i = 0; i < count; i++) tokens[i] = (uint32_t)random_below(seed, 1, i, vocabulary);
}

static inline size_t tiny_floats_differ(const float *a, const float *b, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof a[i]) != 0) return i + 1;
  return 0;
}

/* The block of today's models. */
#define TINY_MODERN "norm=rmsnorm activation=swiglu feed_forward=28 kv_heads=2"

/* Kinds of block, each with every position method or with one. */
static const char *const tiny_variants[] = {
    "norm_bias=true",
    "bias=true norm_bias=true",
    "qk_norm=true",
    "tied=false",
    "activation=gelu-tanh",
    "kv_heads=2",
    "kv_heads=1 head_size=12",
    "norm=rmsnorm",
    "activation=silu",
    "activation=swiglu feed_forward=28",
    TINY_MODERN,
    TINY_MODERN " position=rope tied=false qk_norm=true",
    "score_scaling=log-n",
    "score_scaling=ssmax",
    "score_scaling=ssmax position=rope kv_heads=2 qk_norm=true",
    "head_size=6 qk_norm=true bias=true norm_bias=true tied=false activation=gelu-tanh kv_heads=2",
    "activation=relu",
    "activation=geglu feed_forward=28 bias=true qkv_bias=no",
    "activation=geglu-tanh feed_forward=28 output_bias=yes",
    "activation=reglu feed_forward=28 qkv_bias=yes",
    "parallel=one-norm kv_heads=1 norm_bias=true",
    "parallel=two-norms residual_scale=0.7 bias=true",
    "norm_place=post norm_bias=true embedding_norm=true bias=true final_norm=false",
    "norm_place=post qk_norm=true qk_norm_kind=full norm=rmsnorm residual_scale=0.6",
    "embedding_norm=true norm_bias=true embedding_shift=true embedding_scale=2.5",
    "qk_norm=true qk_norm_kind=full norm_bias=true position=rope kv_heads=2",
    "score_scale=0.2 score_cap=2 logit_scale=0.5 logit_cap=3 residual_scale=0.5 tied=false",
    "clip_qkv=1.5 position=rope kv_heads=2 bias=true attention_output_bias=no",
    "clip_qkv=1 qk_norm=true final_norm=false alibi_slope_scale=0.5",
    "norm_place=post attention_output_norm=true norm_bias=true residual_scale=0.8 final_norm=false",
    "qk_norm=true qk_norm_kind=group norm_bias=true position=rope kv_heads=1 clip_qkv=1.5",
};
enum { TINY_VARIANTS = sizeof tiny_variants / sizeof tiny_variants[0] };

#endif
