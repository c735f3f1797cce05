/* Writing a tokenizer as the keys of a GGUF file.  A pipeline is read in its own description, the words of a
 * tokenizer.json: what these say and GGUF's keys cannot is refused, so that whoever reads the file gets the same
 * ids. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/base64.h"
#include "text/bpe_model.h"
#include "text/byte_level.h"
#include "text/gguf_vocabulary.h"
#include "text/pipeline.h"
#include "text/sentencepiece.h"
#include "text/text_buffer.h"
#include "text/tokenizer.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct writing {
  const alibi_tokenizer *tokenizer;
  gguf_keys *keys;
  uint32_t count;
  gguf_text *texts; /* [count]; data NULL: no token */
  int32_t *types;
  float *scores;   /* NULL: the kind has none */
  text_buffer own, holes; /* texts that are nowhere else */
} writing;

static status begin(writing *w, bool scores, alibi_error *error)
{
  status result = ALIBI_OK;
  uint32_t tokens = alibi_tokenizer_vocabulary(w->tokenizer);
  if (w->count < tokens) w->count = tokens;
  TRY(memory_new(&w->texts, w->count, sizeof *w->texts, "a vocabulary", error));
  TRY(memory_new(&w->types, w->count, sizeof *w->types, "a vocabulary", error));
  if (scores) TRY(memory_new(&w->scores, w->count, sizeof *w->scores, "a vocabulary", error));
done:
  return result;
}

static status refuse(alibi_error *error, const char *what)
{
  return fail(error, ALIBI_INVALID, "the tokenizer cannot be written to GGUF: %s", what);
}

static void set(writing *w, uint32_t id, const char *text, piece_type type)
{
  w->texts[id] = (gguf_text){text, strlen(text)};
  w->types[id] = (int32_t)type;
}

/* Holes among the ids, and rows of the model after them, get the text that other writers give them. */
static status fill_holes(writing *w, alibi_error *error)
{
  enum { HOLE_SIZE = 24 };
  size_t holes = 0, next = 0;
  for (uint32_t id = 0; id < w->count; id++) holes += w->texts[id].data == NULL;
  status result = buffer_reserve(&w->holes, size_mul(holes, HOLE_SIZE), error);
  for (uint32_t id = 0; result == ALIBI_OK && id < w->count; id++) {
    if (w->texts[id].data) continue;
    char *text = (char *)w->holes.data + HOLE_SIZE * next++;
    snprintf(text, HOLE_SIZE, "[PAD%u]", (unsigned)id);
    set(w, id, text, PIECE_UNUSED);
  }
  return result;
}

/* What the post-processor puts around a text: nothing, a begin, an end. */
static status put_around(writing *w, alibi_error *error)
{
  alibi_encode_options options;
  uint32_t *ids;
  size_t count;
  alibi_encode_options_init(&options);
  options.add_special = 1;
  int64_t first = alibi_tokenizer_special(w->tokenizer, ALIBI_SPECIAL_BEGIN);
  int64_t last = alibi_tokenizer_special(w->tokenizer, ALIBI_SPECIAL_END);
  status result = alibi_tokenizer_encode_with(w->tokenizer, &options, "", 0, &ids, &count, error);
  if (result != ALIBI_OK) return result;
  bool add_begin = count > 0 && first >= 0 && ids[0] == first;
  bool add_end = count > (size_t)add_begin && last >= 0 && ids[count - 1] == last;
  alibi_tokens_free(ids);
  if (count != (size_t)add_begin + add_end)
    return refuse(error, "it puts other tokens around a text than its begin and its end");
  gguf_put_boolean(w->keys, KEY("add_bos_token"), add_begin);
  gguf_put_boolean(w->keys, KEY("add_eos_token"), add_end);
  return ALIBI_OK;
}

static status put_common(writing *w, const char *model, alibi_error *error)
{
  static const char *const special[ALIBI_SPECIALS] = {KEY("bos_token_id"), KEY("eos_token_id"),
                                                      KEY("unknown_token_id"), KEY("padding_token_id")};
  status result = ALIBI_OK;
  TRY(fill_holes(w, error));
  gguf_put_text(w->keys, KEY("model"), model);
  gguf_put_texts(w->keys, KEY("tokens"), w->texts, w->count);
  if (w->scores) gguf_put_reals(w->keys, KEY("scores"), w->scores, w->count);
  gguf_put_integers(w->keys, KEY("token_type"), w->types, w->count);
  for (int i = 0; i < ALIBI_SPECIALS; i++) {
    int64_t id = alibi_tokenizer_special(w->tokenizer, (alibi_special)i);
    if (id >= 0) gguf_put_integer(w->keys, special[i], GGUF_U32, id);
  }
  TRY(put_around(w, error));
done:
  return result;
}

/* ---- byte-level BPE ---- */

/* Ours: bytes, spelled as the others spell them. */
static status put_bpe(writing *w, const bpe *b, alibi_error *error)
{
  status result = ALIBI_OK;
  gguf_text *merges = NULL;
  size_t capacity = 0, merge_count = b ? b->merge_count : 0, size;
  TRY(begin(w, false, error));
  size_t room = 1;
  uint32_t tokens = alibi_tokenizer_vocabulary(w->tokenizer);
  for (uint32_t id = 0; id < tokens; id++) {
    alibi_tokenizer_bytes(w->tokenizer, id, &size);
    room += size * BYTE_LEVEL_WIDTH + 1;
  }
  for (size_t rank = 0; rank < merge_count; rank++)
    room += (b->tokens[b->merges[rank].result].size) * BYTE_LEVEL_WIDTH + 2;
  TRY(buffer_reserve(&w->own, room, error));
  TRY(memory_grow(&merges, &capacity, merge_count + 1, sizeof *merges, "merges", error));
  char *at = (char *)w->own.data;
  for (uint32_t id = 0; id < tokens; id++) {
    const unsigned char *bytes = alibi_tokenizer_bytes(w->tokenizer, id, &size);
    byte_level_spell(bytes, size, at);
    set(w, id, at, PIECE_NORMAL);
    at += strlen(at) + 1;
  }
  for (size_t rank = 0; rank < merge_count; rank++) {
    const gguf_text left = w->texts[b->merges[rank].left], right = w->texts[b->merges[rank].right];
    merges[rank] = (gguf_text){at, left.size + 1 + right.size};
    memcpy(at, left.data, left.size);
    at[left.size] = ' ';
    memcpy(at + left.size + 1, right.data, right.size);
    at += merges[rank].size;
  }
  TRY(put_common(w, "gpt2", error));
  gguf_put_text(w->keys, KEY("pre"), "gpt-2");
  gguf_put_texts(w->keys, KEY("merges"), merges, merge_count);
done:
  free(merges);
  return result;
}

static bool is_type(const json_node *node, const char *type)
{
  return strcmp(node_text(node_get(node, "type"), ""), type) == 0;
}

/* The pattern of one step of a pre-tokenizer: *regex NULL for a ByteLevel without one; false: GGUF has no word. */
static bool split_of(const json_node *step, const char **regex)
{
  *regex = NULL;
  if (is_type(step, "ByteLevel")) {
    if (node_boolean(node_get(step, "add_prefix_space"), true)) return false;
    if (node_boolean(node_get(step, "use_regex"), true)) *regex = gguf_pre_at(0)->split[0];
    return true;
  }
  if (is_type(step, "Digits") && node_boolean(node_get(step, "individual_digits"), false)) {
    *regex = "\\p{N}";
    return true;
  }
  *regex = node_text(node_get(node_get(step, "pattern"), "Regex"), NULL);
  if (!is_type(step, "Split") || !*regex) return false;
  *regex = gguf_split_usual(*regex);
  return strcmp(node_text(node_get(step, "behavior"), ""), "Isolated") == 0 &&
         !node_boolean(node_get(step, "invert"), false);
}

static const gguf_pre *pre_of(const json_node *root)
{
  const json_node *cut = node_get(root, "pre_tokenizer"), *steps = node_get(cut, "pretokenizers");
  const json_node *normalizer = node_get(root, "normalizer");
  const char *split[GGUF_SPLITS + 1] = {NULL};
  size_t count = is_type(cut, "Sequence") ? node_count(steps) : 1, used = 0;
  bool bytes = false, nfc = is_type(normalizer, "NFC");
  if (node_kind_of(normalizer) == NODE_OBJECT && !nfc) return NULL;
  for (size_t i = 0; i < count; i++) {
    const json_node *step = is_type(cut, "Sequence") ? node_at(steps, i) : cut;
    const char *regex;
    if (bytes || used == GGUF_SPLITS || !split_of(step, &regex)) return NULL;
    if (regex) split[used++] = regex;
    bytes = is_type(step, "ByteLevel");
  }
  bool ignores = node_boolean(node_get(node_get(root, "model"), "ignore_merges"), false);
  for (size_t i = 0; bytes && gguf_pre_at(i); i++) {
    const gguf_pre *pre = gguf_pre_at(i);
    bool same = pre->nfc == nfc && pre->ignore_merges == ignores;
    for (size_t k = 0; same && k < GGUF_SPLITS; k++)
      same = !pre->split[k] ? !split[k] : split[k] && strcmp(pre->split[k], split[k]) == 0;
    if (same) return pre;
  }
  return NULL;
}

static void set_words(writing *w, const json_node *words)
{
  const char *text;
  for (size_t i = 0; i < node_count(words); i++) {
    int64_t id = node_integer(node_member(words, i, &text), -1);
    if (id >= 0 && id < w->count) set(w, (uint32_t)id, text, PIECE_NORMAL);
  }
}

/* Blanks around a token, and what it may stand beside, are no matter of GGUF's; its readers look for tokens in the
 * text as it is. */
static status set_added(writing *w, const json_node *added, bool normalizes, alibi_error *error)
{
  static const char *const flags[] = {"lstrip", "rstrip", "single_word"};
  for (size_t i = 0; i < node_count(added); i++) {
    const json_node *token = node_at(added, i);
    for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++)
      if (node_boolean(node_get(token, flags[k]), false))
        return fail(error, ALIBI_INVALID,
                    "the tokenizer cannot be written to GGUF: expected its token '%.60s' without %s",
                    node_text(node_get(token, "content"), ""), flags[k]);
    int64_t id = node_integer(node_get(token, "id"), -1);
    bool control = node_boolean(node_get(token, "special"), false);
    if (normalizes && node_boolean(node_get(token, "normalized"), !control))
      return fail(error, ALIBI_INVALID,
                  "the tokenizer cannot be written to GGUF: expected its token '%.60s' to be looked for in the "
                  "text before NFC",
                  node_text(node_get(token, "content"), ""));
    if (id >= 0 && id < w->count)
      set(w, (uint32_t)id, node_text(node_get(token, "content"), ""), control ? PIECE_CONTROL : PIECE_USER);
  }
  return ALIBI_OK;
}

/* "a b", or ["a", "b"]: as one text, the second form in memory of its own. */
static status merge_text(writing *w, const json_node *merge, gguf_text *text, alibi_error *error)
{
  const char *whole = node_text(merge, NULL);
  *text = (gguf_text){whole, whole ? strlen(whole) : 0};
  if (whole) return ALIBI_OK;
  const char *left = node_text(node_at(merge, 0), ""), *right = node_text(node_at(merge, 1), "");
  size_t first = w->own.size;
  status result = buffer_add_text(&w->own, left, error);
  if (result == ALIBI_OK) result = buffer_add(&w->own, " ", 1, error);
  if (result == ALIBI_OK) result = buffer_add_text(&w->own, right, error);
  *text = (gguf_text){NULL, w->own.size - first}; /* the buffer may move: the place comes later */
  return result;
}

static status put_merges(writing *w, const json_node *list, alibi_error *error)
{
  status result = ALIBI_OK;
  gguf_text *merges = NULL;
  size_t capacity = 0, count = node_count(list), at = 0;
  w->own.size = 0;
  TRY(memory_grow(&merges, &capacity, count + 1, sizeof *merges, "merges", error));
  for (size_t i = 0; i < count; i++) TRY(merge_text(w, node_at(list, i), &merges[i], error));
  for (size_t i = 0; i < count; i++) {
    if (merges[i].data) continue;
    merges[i].data = (const char *)w->own.data + at;
    at += merges[i].size;
  }
  gguf_put_texts(w->keys, KEY("merges"), merges, count);
done:
  free(merges);
  return result;
}

static bool is_empty(const json_node *node)
{
  return !node || node_kind_of(node) == NODE_NULL || *node_text(node, "x") == '\0';
}

/* Then no rule for what is not in the vocabulary is ever asked. */
static bool has_all_bytes(const json_node *words)
{
  for (int b = 0; b < 256; b++) {
    char text[BYTE_LEVEL_WIDTH + 1];
    byte_level_spell(&(unsigned char){(unsigned char)b}, 1, text);
    if (!node_get(words, text)) return false;
  }
  return true;
}

static bool has_unknown_rule(const json_node *model)
{
  return !is_empty(node_get(model, "unk_token")) || node_boolean(node_get(model, "byte_fallback"), false);
}

static status put_gpt2(writing *w, const json_node *root, alibi_error *error)
{
  status result = ALIBI_OK;
  const json_node *model = node_get(root, "model");
  const gguf_pre *pre = pre_of(root);
  if (!pre) return refuse(error, "there is no name for how it normalizes or cuts texts");
  if (!is_empty(node_get(model, "continuing_subword_prefix")) || !is_empty(node_get(model, "end_of_word_suffix")))
    return refuse(error, "its BPE has prefixes or suffixes");
  if (!is_type(node_get(root, "decoder"), "ByteLevel"))
    return refuse(error, "expected the decoder ByteLevel");
  if (has_unknown_rule(model) && !has_all_bytes(node_get(model, "vocab")))
    return refuse(error, "expected all 256 bytes in its vocabulary, or neither unk_token nor byte_fallback");
  TRY(begin(w, false, error));
  set_words(w, node_get(model, "vocab"));
  TRY(set_added(w, node_get(root, "added_tokens"), pre->nfc, error));
  TRY(put_common(w, "gpt2", error));
  char name[32];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(pre->names + 1, " "), pre->names + 1);
  gguf_put_text(w->keys, KEY("pre"), name);
  TRY(put_merges(w, node_get(model, "merges"), error));
done:
  return result;
}

/* ---- SentencePiece ---- */

static status put_rules(writing *w, const char *rules, alibi_error *error)
{
  text_buffer bytes = {0};
  bool valid = true;
  status result = ALIBI_OK;
  if (!rules) return ALIBI_OK;
  TRY(base64_decode(rules, &bytes, &valid, error));
  gguf_key key = {.name = KEY("precompiled_charsmap"),
                  .type = GGUF_U8,
                  .is_array = true,
                  .count = bytes.size,
                  .data = bytes.data,
                  .bytes = bytes.size};
  gguf_put_key(w->keys, &key);
done:
  buffer_free(&bytes);
  return result;
}

static status put_sentencepiece(writing *w, const json_node *root, alibi_error *error)
{
  status result = ALIBI_OK;
  const json_node *model = node_get(root, "model"), *list = node_get(model, "vocab");
  bool unigram = strcmp(node_text(node_get(model, "kind"), ""), "Unigram") == 0;
  if (node_boolean(node_get(model, "treat_whitespace_as_suffix"), false) ||
      !node_boolean(node_get(model, "escape_whitespaces"), true))
    return refuse(error, "its spaces follow words, or are not escaped");
  TRY(begin(w, true, error));
  for (size_t id = 0; id < node_count(list) && id < w->count; id++) {
    const json_node *entry = node_at(list, id);
    set(w, (uint32_t)id, node_text(node_at(entry, 0), ""), (piece_type)node_integer(node_at(entry, 2), 0));
    w->scores[id] = (float)node_number(node_at(entry, 1), 0);
  }
  TRY(put_common(w, unigram ? "t5" : "llama", error));
  gguf_put_text(w->keys, KEY("pre"), "default");
  gguf_put_boolean(w->keys, KEY("add_space_prefix"), node_boolean(node_get(model, "add_dummy_prefix"), true));
  gguf_put_boolean(w->keys, KEY("remove_extra_whitespaces"),
                   node_boolean(node_get(model, "remove_extra_whitespaces"), true));
  TRY(put_rules(w, node_text(node_get(model, "precompiled_charsmap"), NULL), error));
done:
  return result;
}

/* ---- any ---- */

static status put_pipeline(writing *w, alibi_error *error)
{
  status result = ALIBI_OK;
  json_node *root = NULL;
  TRY(pipeline_describe(w->tokenizer->state, &root, error));
  const json_node *model = node_get(root, "model");
  if (is_type(model, "BPE")) TRY(put_gpt2(w, root, error));
  else if (is_type(model, "SentencePiece")) TRY(put_sentencepiece(w, root, error));
  else TRY(refuse(error, "only byte-level BPE and SentencePiece vocabularies can"));
done:
  node_free(root);
  return result;
}

status gguf_vocabulary_put(const alibi_tokenizer *tokenizer, size_t rows, gguf_keys *keys, alibi_error *error)
{
  status result = ALIBI_OK;
  writing w = {.tokenizer = tokenizer, .keys = keys};
  if (rows > INT32_MAX) TRY(refuse(error, "the model has too many rows"));
  w.count = (uint32_t)rows;
  const char *kind = alibi_tokenizer_kind(tokenizer);
  if (strcmp(kind, "pipeline") == 0) TRY(put_pipeline(&w, error));
  else if (strcmp(kind, "bpe") == 0) TRY(put_bpe(&w, tokenizer->state, error));
  else if (strcmp(kind, "bytes") == 0) TRY(put_bpe(&w, NULL, error));
  else TRY(refuse(error, "its kind is not known"));
done:
  memory_free(w.texts);
  memory_free(w.types);
  memory_free(w.scores);
  buffer_free(&w.own);
  buffer_free(&w.holes);
  return result;
}
