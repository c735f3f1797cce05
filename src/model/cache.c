/* The cache of keys and values: blocks of ATTENTION_BLOCK positions, reached through a list of pointers a head. */
#include <string.h>

#include "model/model.h"

static void layout(model_cache *c, arena *a)
{
  size_t heads = c->layers * c->kv_heads, pointers = heads * c->blocks;
  c->key_blocks = arena_take(a, pointers, sizeof *c->key_blocks);
  c->value_blocks = arena_take(a, pointers, sizeof *c->value_blocks);
  c->key_lists = arena_take(a, heads, sizeof *c->key_lists);
  c->value_lists = arena_take(a, heads, sizeof *c->value_lists);
  for (size_t h = 0; h < heads; h++) {
    for (size_t b = 0; b < c->blocks; b++) {
      float *key = arena_floats(a, ATTENTION_BLOCK * c->head_size),
            *value = arena_floats(a, ATTENTION_BLOCK * c->head_size);
      if (!a->base) continue;
      c->key_blocks[h * c->blocks + b] = key;
      c->value_blocks[h * c->blocks + b] = value;
    }
    if (!a->base) continue;
    c->key_lists[h] = (const float *const *)(c->key_blocks + h * c->blocks);
    c->value_lists[h] = (const float *const *)(c->value_blocks + h * c->blocks);
  }
}

static model_cache shape_of(const alibi_model *model, size_t capacity)
{
  const alibi_model_config *c = &model->config;
  return (model_cache){.layers = (size_t)c->layers,
                       .kv_heads = (size_t)c->kv_heads,
                       .head_size = (size_t)c->head_size,
                       .capacity = capacity,
                       .blocks = size_round_up(capacity, ATTENTION_BLOCK) / ATTENTION_BLOCK};
}

size_t model_cache_bytes(const alibi_model *model, size_t capacity)
{
  model_cache c = shape_of(model, capacity);
  arena a = {0};
  layout(&c, &a);
  return a.used;
}

status model_cache_new(const alibi_model *model, size_t capacity, model_cache **cache, alibi_error *error)
{
  status result = memory_new(cache, 1, sizeof **cache, "a cache", error);
  if (result != ALIBI_OK) return result;
  **cache = shape_of(model, capacity);
  layout(*cache, &(*cache)->memory);
  result = arena_allocate(&(*cache)->memory, "the keys and values of a session", error);
  if (result != ALIBI_OK) {
    model_cache_free(*cache);
    *cache = NULL;
    return result;
  }
  layout(*cache, &(*cache)->memory);
  return ALIBI_OK;
}

void model_cache_free(model_cache *cache)
{
  if (!cache) return;
  arena_free(&cache->memory);
  memory_free(cache);
}
