/* A tokenizer as its tokenizer.json describes it.  A text goes through stage by stage, but never as a whole: what
 * lies between two added tokens is normalized and cut, and each piece goes to the model at once.  A text repeats
 * its pieces, so most are answered by copying the ids that an equal piece got before. */
#include "text/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/added_tokens.h"
#include "text/byte_level.h"
#include "text/json_part.h"
#include "text/normalizer.h"
#include "text/piece_map.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/text_buffer.h"
#include "text/token_decoder.h"
#include "text/tokenizer.h"

extern const tokenizer_kind tokenizer_pipeline;

enum {
  CACHE_PIECES = 1 << 16, /* at most some 10 MB a call */
  CACHE_LONGEST = 128,
  CACHE_BLOCK = 1 << 16
};

struct pipeline {
  json_node *parts; /* as they were given */
  const token_model *model;
  void *state;
  normalizer *normalizer;
  pre_tokenizer *cut;
  added_tokens added;
  post_processor post;
  token_decoder *decoder;
  bool spells_bytes; /* any byte has a spelling, also one that is no UTF-8 */
  uint32_t vocabulary;
  int64_t special[ALIBI_SPECIALS];
  size_t *starts; /* [vocabulary + 1] of the bytes of the tokens */
  text_buffer bytes;
};

status token_list_add(token_list *list, uint32_t id, alibi_error *error)
{
  if (list->count == list->capacity) {
    status result = memory_grow(&list->ids, &list->capacity, list->count + 1, sizeof *list->ids, "tokens", error);
    if (result != ALIBI_OK) return result;
  }
  list->ids[list->count++] = id;
  return ALIBI_OK;
}

/* ---- encoding ---- */

typedef struct cache_block {
  struct cache_block *next;
  size_t used;
  unsigned char text[CACHE_BLOCK];
} cache_block;

typedef struct passage { /* one call */
  const pipeline *p;
  bool control;
  token_list out;
  normalizer_memory normalizing;
  pre_tokenizer_memory *cutting;
  void *memo;
  piece_map cache; /* piece -> where its ids lie in out (value, length) */
  cache_block *blocks;
  text_buffer spelled;
} passage;

static status spell(text_buffer *to, const unsigned char *bytes, size_t size, alibi_error *error)
{
  to->size = 0;
  status result = buffer_reserve(to, size_add(size_mul(size, BYTE_LEVEL_WIDTH), 1), error);
  if (result != ALIBI_OK) return result;
  byte_level_spell(bytes, size, (char *)to->data);
  to->size = strlen((char *)to->data);
  return ALIBI_OK;
}

/* The ids of a piece, by the model. */
static status ask_model(passage *w, const unsigned char *text, size_t size, bool raw, alibi_error *error)
{
  status result = ALIBI_OK;
  if (raw) {
    TRY(spell(&w->spelled, text, size, error));
    text = w->spelled.data;
    size = w->spelled.size;
  }
  TRY(w->p->model->encode_piece(w->p->state, w->memo, text, size, &w->out, error));
done:
  return result;
}

static status remember(passage *w, const unsigned char *text, size_t size, size_t first, alibi_error *error)
{
  status result = ALIBI_OK;
  piece *entry;
  if (!w->blocks || CACHE_BLOCK - w->blocks->used < size) {
    cache_block *block = malloc(sizeof *block);
    if (!block) return fail(error, ALIBI_FAILED, "not enough memory to encode");
    block->next = w->blocks;
    block->used = 0;
    w->blocks = block;
  }
  unsigned char *kept = w->blocks->text + w->blocks->used;
  memcpy(kept, text, size);
  w->blocks->used += size;
  TRY(piece_map_add(&w->cache, kept, size, &entry, error));
  entry->value = first;
  entry->length = w->out.count - first;
done:
  return result;
}

static status take_piece(void *user, const unsigned char *text, size_t size, bool raw, alibi_error *error)
{
  status result = ALIBI_OK;
  passage *w = user;
  token_list *out = &w->out;
  if (size > CACHE_LONGEST) return ask_model(w, text, size, raw, error);
  const piece *known = piece_map_find(&w->cache, text, size);
  if (!known) {
    size_t first = out->count;
    TRY(ask_model(w, text, size, raw, error));
    if (w->cache.count < CACHE_PIECES) TRY(remember(w, text, size, first, error));
    goto done;
  }
  if (out->capacity - out->count < known->length)
    TRY(memory_grow(&out->ids, &out->capacity, out->count + known->length, sizeof *out->ids, "tokens", error));
  memcpy(out->ids + out->count, out->ids + known->value, known->length * sizeof *out->ids);
  out->count += known->length;
done:
  return result;
}

/* What lies between two added tokens of the raw text. */
static status encode_section(passage *w, const unsigned char *text, size_t size, size_t lead, alibi_error *error)
{
  status result = ALIBI_OK;
  const added_token *token;
  size_t start, end;
  if (size == 0) return ALIBI_OK;
  TRY(normalizer_run(w->p->normalizer, &w->normalizing, &text, &size, &lead, error));
  added_walk walk = added_walk_over(&w->p->added.normalized, w->control, text, size);
  while (added_walk_next(&walk, &token, &start, &end)) {
    if (token) {
      TRY(token_list_add(&w->out, token->id, error));
    } else if (end > start) {
      size_t left = lead > start ? lead - start : 0;
      TRY(pre_tokenizer_run(w->cutting, text + start, end - start, left < end - start ? left : end - start,
                            error));
    }
  }
done:
  return result;
}

/* Valid UTF-8; `begin`: it is the begin of the whole text. */
static status encode_valid(passage *w, const unsigned char *text, size_t size, bool begin, alibi_error *error)
{
  status result = ALIBI_OK;
  const added_token *token;
  size_t start, end, length;
  added_walk walk = added_walk_over(&w->p->added.raw, w->control, text, size);
  while (added_walk_next(&walk, &token, &start, &end)) {
    if (token) {
      TRY(token_list_add(&w->out, token->id, error));
    } else if (end > start) {
      utf8_character(text + start, &length);
      TRY(encode_section(w, text + start, end - start, begin && start == 0 ? length : 0, error));
    }
  }
done:
  return result;
}

/* Bytes that are no UTF-8: where bytes have spellings they are a piece of their own, else U+FFFD stands for them.
 */
static status encode_any(passage *w, const unsigned char *text, size_t size, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer repaired = {0};
  if (w->p->model->any_bytes && !w->control) return ask_model(w, text, size, false, error);
  for (size_t at = 0; at < size;) {
    size_t good = utf8_end(text, at, size), bad = good;
    bool open;
    if (w->p->spells_bytes) TRY(encode_valid(w, text + at, good - at, at == 0, error));
    else TRY(buffer_add(&repaired, text + at, good - at, error));
    while (bad < size && utf8_size(text + bad, size - bad) == 0) {
      bad += utf8_bad_size(text + bad, size - bad, &open);
      if (!w->p->spells_bytes) TRY(buffer_add(&repaired, "\xef\xbf\xbd", 3, error));
    }
    if (bad > size) bad = size;
    if (w->p->spells_bytes && bad > good) TRY(ask_model(w, text + good, bad - good, true, error));
    at = bad;
  }
  if (!w->p->spells_bytes) TRY(encode_valid(w, repaired.data, repaired.size, true, error));
done:
  buffer_free(&repaired);
  return result;
}

static status pipeline_encode_with(const void *state, bool add_special, bool control, const unsigned char *text,
                                   size_t size, uint32_t **tokens, size_t *count, alibi_error *error)
{
  const pipeline *p = state;
  status result = ALIBI_OK;
  passage w = {.p = p, .control = control};
  TRY(memory_grow(&w.out.ids, &w.out.capacity, size / 4 + 16, sizeof *w.out.ids, "tokens", error));
  TRY(pre_tokenizer_begin(p->cut, take_piece, &w, &w.cutting, error));
  if (p->model->begin_memo) TRY(p->model->begin_memo(p->state, &w.memo, error));
  if (utf8_end(text, 0, size) == size) TRY(encode_valid(&w, text, size, true, error));
  else TRY(encode_any(&w, text, size, error));
  TRY(post_processor_run(&p->post, add_special, &w.out, error));
  if (!w.out.ids) TRY(memory_grow(&w.out.ids, &w.out.capacity, 1, sizeof *w.out.ids, "tokens", error));
  *tokens = w.out.ids;
  *count = w.out.count;
  w.out.ids = NULL;
done:
  free(w.out.ids);
  if (p->model->end_memo && w.memo) p->model->end_memo(w.memo);
  pre_tokenizer_end(w.cutting);
  normalizer_memory_free(p->normalizer, &w.normalizing);
  piece_map_free(&w.cache);
  while (w.blocks) {
    cache_block *next = w.blocks->next;
    free(w.blocks);
    w.blocks = next;
  }
  buffer_free(&w.spelled);
  return result;
}

static status pipeline_encode(const void *state, const unsigned char *text, size_t size, uint32_t **tokens,
                              size_t *count, alibi_error *error)
{
  return pipeline_encode_with(state, false, false, text, size, tokens, count, error);
}

/* ---- tokens ---- */

static const unsigned char *pipeline_spelling(const void *state, uint32_t token, size_t *size, bool *skip)
{
  const pipeline *p = state;
  const added_token *added = added_tokens_by_id(&p->added, token);
  *skip = added && added->control_spelling;
  if (!added) return p->model->spelling(p->state, token, size);
  *size = added->size;
  return (const unsigned char *)added->spelling;
}

static const token_decoder *pipeline_decoder(const void *state)
{
  return ((const pipeline *)state)->decoder;
}

static const unsigned char *pipeline_bytes_of(const void *state, uint32_t token, size_t *size)
{
  const pipeline *p = state;
  size_t ignored;
  bool skip;
  if (token >= p->vocabulary || !pipeline_spelling(p, token, &ignored, &skip)) return NULL;
  *size = p->starts[token + 1] - p->starts[token];
  return p->bytes.data + p->starts[token];
}

static uint32_t pipeline_vocabulary(const void *state)
{
  return ((const pipeline *)state)->vocabulary;
}

static bool pipeline_is_control(const void *state, uint32_t token)
{
  const added_token *added = added_tokens_by_id(&((const pipeline *)state)->added, token);
  return added && added->control;
}

static int64_t pipeline_find(const void *state, const char *spelling)
{
  const pipeline *p = state;
  const added_token *added = added_tokens_by_content(&p->added, spelling);
  return added ? (int64_t)added->id : p->model->find(p->state, (const unsigned char *)spelling, strlen(spelling));
}

static int64_t pipeline_special(const void *state, alibi_special special)
{
  return ((const pipeline *)state)->special[special];
}

void pipeline_set_special(alibi_tokenizer *made, alibi_special special, int64_t id)
{
  if (made->kind != &tokenizer_pipeline || special < 0 || special >= ALIBI_SPECIALS) return;
  pipeline *p = made->state;
  p->special[special] = id >= 0 && id < p->vocabulary ? id : -1;
}

/* ---- making ---- */

static void pipeline_free(void *state)
{
  pipeline *p = state;
  if (!p) return;
  node_free(p->parts);
  if (p->state) p->model->free(p->state);
  normalizer_free(p->normalizer);
  pre_tokenizer_free(p->cut);
  added_tokens_free(&p->added);
  free(p->post.items);
  token_decoder_free(p->decoder);
  free(p->starts);
  buffer_free(&p->bytes);
  free(p);
}

static const char *const part_keys[] = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                                        "decoder"};

static status copy_parts(const json_node *parts, json_node **copy, alibi_error *error)
{
  *copy = node_new_object();
  for (size_t i = 0; i < sizeof part_keys / sizeof part_keys[0]; i++) {
    const json_node *part = node_get(parts, part_keys[i]);
    if (part) node_set(*copy, part_keys[i], node_copy(part));
    else node_set_null(*copy, part_keys[i]);
  }
  return *copy ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for a tokenizer");
}

/* The text of `first`, perhaps a token, and `last`. */
static status decode_between(const pipeline *p, decoding *s, const unsigned char *token, size_t size,
                             text_buffer *to, alibi_error *error)
{
  status result = ALIBI_OK;
  (void)p;
  to->size = 0;
  TRY(decoding_add(s, (const unsigned char *)"\x01", 1, to, error));
  if (token) TRY(decoding_add(s, token, size, to, error));
  TRY(decoding_add(s, (const unsigned char *)"\x02", 1, to, error));
  TRY(decoding_finish(s, to, error));
done:
  return result;
}

/* The bytes of every token in the middle of a text: what it adds between two others. */
static status fill_bytes(pipeline *p, alibi_error *error)
{
  status result = ALIBI_OK;
  decoding *s = NULL;
  text_buffer without = {0}, with = {0};
  size_t capacity = 0, before = 0, size;
  bool skip;
  TRY(memory_grow(&p->starts, &capacity, (size_t)p->vocabulary + 1, sizeof *p->starts, "tokens", error));
  TRY(buffer_reserve(&p->bytes, 1, error));
  TRY(decoding_begin(p->decoder, false, &s, error));
  TRY(decode_between(p, s, NULL, 0, &without, error));
  while (before < without.size && without.data[before] != 1) before++;
  if (before < without.size) before++;
  for (uint32_t id = 0; id < p->vocabulary; id++) {
    p->starts[id] = p->bytes.size;
    const unsigned char *spelling = pipeline_spelling(p, id, &size, &skip);
    if (!spelling || pipeline_is_control(p, id)) continue;
    TRY(decode_between(p, s, spelling, size, &with, error));
    if (with.size > without.size) TRY(buffer_add(&p->bytes, with.data + before, with.size - without.size, error));
  }
  p->starts[p->vocabulary] = p->bytes.size;
done:
  decoding_end(s);
  buffer_free(&without);
  buffer_free(&with);
  return result;
}

static int64_t control_by_name(const pipeline *p, const char *const *names)
{
  for (; *names; names++) {
    const added_token *added = added_tokens_by_content(&p->added, *names);
    if (added && added->control) return added->id;
  }
  return -1;
}

/* Without a word from a file beside it: what the template puts around a text, else the usual names. */
static void guess_special(pipeline *p)
{
  static const char *const begin[] = {"<s>", "<|begin_of_text|>", "<bos>", "[BOS]", "<|startoftext|>", NULL};
  static const char *const end[] = {"</s>", "<|end_of_text|>", "<|endoftext|>", "<eos>", "[EOS]", NULL};
  static const char *const padding[] = {"<pad>", "[PAD]", "<|padding|>", "<|pad|>", NULL};
  const post_processor *post = &p->post;
  p->special[ALIBI_SPECIAL_BEGIN] = control_by_name(p, begin);
  p->special[ALIBI_SPECIAL_END] = control_by_name(p, end);
  p->special[ALIBI_SPECIAL_PADDING] = control_by_name(p, padding);
  p->special[ALIBI_SPECIAL_UNKNOWN] = p->model->unknown(p->state);
  if (post->count > 1 && !post->items[0].text) p->special[ALIBI_SPECIAL_BEGIN] = post->items[0].id;
  if (post->count > 1 && !post->items[post->count - 1].text)
    p->special[ALIBI_SPECIAL_END] = post->items[post->count - 1].id;
}

/* What is put around a text are tokens that exist. */
static status check_post(const pipeline *p, const char *path, alibi_error *error)
{
  size_t size;
  bool skip;
  for (size_t i = 0; i < p->post.count; i++)
    if (!p->post.items[i].text && !pipeline_spelling(p, p->post.items[i].id, &size, &skip))
      return fail(error, ALIBI_BAD_INPUT, "%s: post_processor: id %u is no token's", path,
                  (unsigned)p->post.items[i].id);
  return ALIBI_OK;
}

status pipeline_new(const json_node *parts, const char *path, const token_model *model, void *state,
                    alibi_tokenizer **made, alibi_error *error)
{
  status result = ALIBI_OK;
  *made = NULL;
  pipeline *p = calloc(1, sizeof *p);
  if (!p) {
    model->free(state);
    return fail(error, ALIBI_FAILED, "%s: not enough memory for a tokenizer", path);
  }
  p->model = model;
  p->state = state;
  TRY(copy_parts(parts, &p->parts, error));
  TRY(normalizer_new(node_get(parts, "normalizer"), path, &p->normalizer, error));
  TRY(pre_tokenizer_new(node_get(parts, "pre_tokenizer"), path, &p->cut, error));
  TRY(added_tokens_read(node_get(parts, "added_tokens"), path, model, state, p->normalizer, &p->added, error));
  p->vocabulary = model->vocabulary(state);
  if (p->added.count > 0 && p->added.tokens[p->added.count - 1].id >= p->vocabulary)
    p->vocabulary = p->added.tokens[p->added.count - 1].id + 1;
  TRY(post_processor_read(node_get(parts, "post_processor"), path, p->vocabulary, &p->post, error));
  TRY(check_post(p, path, error));
  TRY(token_decoder_new(node_get(parts, "decoder"), path, &p->decoder, error));
  p->spells_bytes = pre_tokenizer_spells_bytes(p->cut) || normalizer_spells_bytes(p->normalizer);
  guess_special(p);
  TRY(fill_bytes(p, error));
  pipeline *whole = p;
  p = NULL;
  TRY(tokenizer_wrap(&tokenizer_pipeline, whole, made, error));
done:
  pipeline_free(p);
  return result;
}

const char *pipeline_model_name(const void *state)
{
  return ((const pipeline *)state)->model->name;
}

status pipeline_describe(const void *state, json_node **root, alibi_error *error)
{
  const pipeline *p = state;
  json_node *model = NULL, *whole = node_new_object();
  *root = NULL;
  status result = p->model->describe(p->state, &model, error);
  if (result != ALIBI_OK) {
    node_free(whole);
    return result;
  }
  node_set_text(whole, "version", "1.0");
  node_set_null(whole, "truncation");
  node_set_null(whole, "padding");
  for (size_t i = 0; i < node_count(p->parts); i++) {
    const char *key;
    const json_node *part = node_member(p->parts, i, &key);
    node_set(whole, key, node_copy(part));
  }
  node_set(whole, "model", model);
  *root = whole;
  return ALIBI_OK;
}

static status pipeline_save(const void *state, const char *path, alibi_error *error)
{
  json_node *root;
  status result = pipeline_describe(state, &root, error);
  if (result == ALIBI_OK) result = node_write_file(root, path, error);
  node_free(root);
  return result;
}

const tokenizer_kind tokenizer_pipeline = {
    .name = "pipeline",
    .encode = pipeline_encode,
    .bytes_of = pipeline_bytes_of,
    .vocabulary = pipeline_vocabulary,
    .save = pipeline_save,
    .free = pipeline_free,
    .encode_with = pipeline_encode_with,
    .special = pipeline_special,
    .is_control = pipeline_is_control,
    .find = pipeline_find,
    .decoder = pipeline_decoder,
    .spelling = pipeline_spelling,
};
