/* Reading the tokenizer of a GGUF file: its keys become a model of the registry, and stages in the words of a
 * tokenizer.json around it. */
#include "text/gguf_vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/byte_level.h"
#include "text/piece_bpe.h"
#include "text/pipeline.h"
#include "text/pipeline_parts.h"
#include "text/sentencepiece.h"
#include "text/text_buffer.h"
#include "text/token_model.h"
#include "text/tokenizer.h"

extern const tokenizer_format tokenizer_format_gguf_vocabulary;
extern const token_model token_model_wordpiece;

#define KEY(name) "tokenizer.ggml." name

typedef struct reading {
  const gguf_file *file;
  const char *path;
  const gguf_key *tokens, *types; /* types: NULL where the file has none */
  int64_t special[ALIBI_SPECIALS];
  bool add_begin, add_end;
} reading;

static piece_type type_of(const reading *r, size_t id)
{
  int64_t type = r->types ? gguf_integer_at(r->types, id) : PIECE_NORMAL;
  return type < 0 || type >= PIECE_TYPES ? PIECE_TYPES : (piece_type)type; /* 0: not defined */
}

static status read_special(reading *r, const char *key, alibi_special special, int64_t otherwise,
                           alibi_error *error)
{
  /* Some writers put 2^32 - 1, or -1, where there is none. */
  status result = gguf_integer_or(r->file, key, -1, UINT32_MAX, otherwise, &r->special[special], error);
  if (result == ALIBI_OK && r->special[special] >= (int64_t)r->tokens->count) r->special[special] = -1;
  return result;
}

static status read_common(reading *r, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(gguf_array(r->file, KEY("tokens"), GGUF_TEXT, &r->tokens, error));
  if (gguf_key_find(r->file, KEY("token_type")))
    TRY(gguf_array(r->file, KEY("token_type"), GGUF_I64, &r->types, error));
  if (r->tokens->count == 0 || r->tokens->count >= INT32_MAX)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s: expected tokens, found %zu", r->path, KEY("tokens"), r->tokens->count);
  if (r->types && r->types->count != r->tokens->count)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s: expected a type for each of %zu tokens, found %zu", r->path,
          KEY("token_type"), r->tokens->count, r->types->count);
  TRY(read_special(r, KEY("bos_token_id"), ALIBI_SPECIAL_BEGIN, -1, error));
  TRY(read_special(r, KEY("eos_token_id"), ALIBI_SPECIAL_END, -1, error));
  TRY(read_special(r, KEY("unknown_token_id"), ALIBI_SPECIAL_UNKNOWN, -1, error));
  TRY(read_special(r, KEY("padding_token_id"), ALIBI_SPECIAL_PADDING, -1, error));
done:
  return result;
}

/* A token as a text of its own, NUL-terminated; good until the next one in the same buffer. */
static status take_text(const reading *r, size_t id, text_buffer *to, const char **text, alibi_error *error)
{
  gguf_text token = gguf_text_at(r->tokens, id);
  to->size = 0;
  if (memchr(token.data, '\0', token.size) ||
      utf8_end((const unsigned char *)token.data, 0, token.size) != token.size)
    return fail(error, ALIBI_BAD_INPUT, "%s: %s: token %zu is not UTF-8, or has a NUL", r->path, KEY("tokens"),
                id);
  status result = buffer_add(to, token.data, token.size, error);
  if (result == ALIBI_OK) result = buffer_add(to, "", 1, error);
  *text = (const char *)to->data;
  return result;
}

static status set_template(const reading *r, json_node *parts, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer begin_text = {0}, end_text = {0};
  const char *begin = NULL, *end = NULL;
  int64_t begin_id = r->special[ALIBI_SPECIAL_BEGIN], end_id = r->special[ALIBI_SPECIAL_END];
  if (r->add_begin && begin_id >= 0) TRY(take_text(r, (size_t)begin_id, &begin_text, &begin, error));
  if (r->add_end && end_id >= 0) TRY(take_text(r, (size_t)end_id, &end_text, &end, error));
  if (begin || end) node_set(parts, "post_processor", part_template(begin, begin_id, end, end_id));
done:
  buffer_free(&begin_text);
  buffer_free(&end_text);
  return result;
}

static void set_specials(const reading *r, alibi_tokenizer *made)
{
  for (int i = 0; i < ALIBI_SPECIALS; i++) pipeline_set_special(made, (alibi_special)i, r->special[i]);
}

/* ---- gpt2 ---- */

static bool is_control(piece_type type)
{
  return type == PIECE_CONTROL || type == PIECE_UNKNOWN;
}

/* Control and user-defined tokens are found in the raw text; the others are what merges make. */
static status add_bpe_tokens(const reading *r, piece_bpe *b, json_node *added, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer buffer = {0};
  const char *text;
  for (size_t id = 0; id < r->tokens->count; id++) {
    piece_type type = type_of(r, id);
    TRY(take_text(r, id, &buffer, &text, error));
    if (*text && (is_control(type) || type == PIECE_USER))
      node_append(added, part_added_token((int64_t)id, text, is_control(type)));
    if (*text && !is_control(type)) TRY(piece_bpe_add_token(b, (uint32_t)id, text, strlen(text), r->path, error));
  }
done:
  buffer_free(&buffer);
  return result;
}

static status add_merges(const reading *r, piece_bpe *b, alibi_error *error)
{
  status result = ALIBI_OK;
  const gguf_key *merges;
  TRY(gguf_array(r->file, KEY("merges"), GGUF_TEXT, &merges, error));
  for (size_t rank = 0; rank < merges->count; rank++) {
    gguf_text merge = gguf_text_at(merges, rank);
    const char *blank = merge.size > 1 ? memchr(merge.data + 1, ' ', merge.size - 1) : NULL;
    if (!blank)
      RAISE(error, ALIBI_BAD_INPUT, "%s: %s: merge %zu: expected two tokens with a blank between them", r->path,
            KEY("merges"), rank);
    size_t left = (size_t)(blank - merge.data);
    TRY(piece_bpe_add_merge(b, merge.data, left, blank + 1, merge.size - left - 1, r->path, error));
  }
done:
  return result;
}

static status find_pre(const reading *r, const gguf_pre **pre, alibi_error *error)
{
  gguf_text name;
  if (!gguf_key_find(r->file, KEY("pre")))
    return fail(error, ALIBI_BAD_INPUT, "%s: %s is missing: how a text is cut before BPE is not known", r->path,
                KEY("pre"));
  status result = gguf_string(r->file, KEY("pre"), &name, error);
  if (result != ALIBI_OK) return result;
  *pre = gguf_pre_named(name.data, name.size);
  if (*pre) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: %s: the pre-tokenizer '%.*s' is not known", r->path, KEY("pre"),
              (int)(name.size < 60 ? name.size : 60), name.data);
}

static status open_gpt2(reading *r, alibi_tokenizer **made, alibi_error *error)
{
  status result = ALIBI_OK;
  const gguf_pre *pre;
  piece_bpe *b = NULL;
  json_node *parts = node_new_object(), *added = node_new_array(), *cuts;
  node_set(parts, "added_tokens", added);
  TRY(find_pre(r, &pre, error));
  TRY(gguf_boolean_or(r->file, KEY("add_bos_token"), pre->add_begin, &r->add_begin, error));
  TRY(gguf_boolean_or(r->file, KEY("add_eos_token"), false, &r->add_end, error));
  TRY(piece_bpe_new(&(piece_bpe_options){.ignore_merges = pre->ignore_merges}, &b, error));
  TRY(add_bpe_tokens(r, b, added, error));
  TRY(add_merges(r, b, error));
  TRY(piece_bpe_finish(b, r->path, error));
  if (pre->nfc) node_set(parts, "normalizer", part_step("NFC"));
  node_set(parts, "pre_tokenizer", part_sequence("pretokenizers", &cuts));
  for (size_t i = 0; i < GGUF_SPLITS && pre->split[i]; i++) node_append(cuts, part_split(pre->split[i]));
  node_append(cuts, part_byte_level(false));
  node_set(parts, "decoder", part_byte_level(false));
  TRY(set_template(r, parts, error));
  piece_bpe *state = b;
  b = NULL;
  TRY(pipeline_new(parts, r->path, &token_model_bpe, state, made, error));
  set_specials(r, *made);
done:
  piece_bpe_free(b);
  node_free(parts);
  return result;
}

/* ---- llama and t5 ---- */

/* Types that no SentencePiece vocabulary has (0, and what is to come) are pieces that never come. */
static status fill_pieces(const reading *r, sentencepiece *s, const gguf_key *scores, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer buffer = {0};
  const char *text;
  char empty[40];
  size_t bytes = 0;
  for (size_t id = 0; id < r->tokens->count; id++) {
    piece_type type = type_of(r, id);
    TRY(take_text(r, id, &buffer, &text, error));
    if (!*text) { /* what llama.cpp calls it too */
      snprintf(empty, sizeof empty, "[EMPTY_%zu]", id);
      text = empty;
      type = PIECE_CONTROL;
    }
    if (type == PIECE_TYPES || type == 0) type = PIECE_CONTROL;
    if (type == PIECE_UNKNOWN && (int64_t)id != s->special[ALIBI_SPECIAL_UNKNOWN] &&
        s->special[ALIBI_SPECIAL_UNKNOWN] >= 0)
      type = PIECE_CONTROL;
    if ((int64_t)id == s->special[ALIBI_SPECIAL_UNKNOWN]) type = PIECE_UNKNOWN;
    bytes += type == PIECE_BYTE;
    TRY(sentencepiece_set(s, (uint32_t)id, text, strlen(text), (float)gguf_real_at(scores, id), type, r->path,
                          error));
  }
  s->byte_fallback = bytes >= 256;
done:
  buffer_free(&buffer);
  return result;
}

static status read_rules(const reading *r, sentencepiece *s, alibi_error *error)
{
  status result = ALIBI_OK;
  const gguf_key *rules;
  text_buffer bytes = {0};
  if (!gguf_key_find(r->file, KEY("precompiled_charsmap"))) return ALIBI_OK;
  TRY(gguf_array(r->file, KEY("precompiled_charsmap"), GGUF_I64, &rules, error));
  if (rules->type != GGUF_U8 && rules->type != GGUF_I8)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s: expected bytes, found an array of %s", r->path,
          KEY("precompiled_charsmap"), gguf_type_name(rules->type));
  TRY(sentencepiece_set_rules(s, rules->data, rules->count, error));
done:
  buffer_free(&bytes);
  return result;
}

static status open_sentencepiece(reading *r, sentencepiece_kind kind, alibi_tokenizer **made, alibi_error *error)
{
  status result = ALIBI_OK;
  sentencepiece *s = NULL;
  const gguf_key *scores;
  bool unigram = kind == SENTENCEPIECE_UNIGRAM;
  TRY(gguf_array(r->file, KEY("scores"), GGUF_F32, &scores, error));
  if (scores->count != r->tokens->count)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s: expected a score for each of %zu tokens, found %zu", r->path,
          KEY("scores"), r->tokens->count, scores->count);
  TRY(gguf_boolean_or(r->file, KEY("add_bos_token"), !unigram, &r->add_begin, error));
  TRY(gguf_boolean_or(r->file, KEY("add_eos_token"), unigram, &r->add_end, error));
  TRY(sentencepiece_new(r->tokens->count, &s, error));
  s->kind = kind;
  TRY(gguf_boolean_or(r->file, KEY("add_space_prefix"), true, &s->dummy_prefix, error));
  TRY(gguf_boolean_or(r->file, KEY("remove_extra_whitespaces"), false, &s->trim_spaces, error));
  memcpy(s->special, r->special, sizeof s->special);
  if (s->special[ALIBI_SPECIAL_BEGIN] < 0 && !unigram)
    s->special[ALIBI_SPECIAL_BEGIN] = r->tokens->count > 1 ? 1 : -1;
  if (s->special[ALIBI_SPECIAL_END] < 0)
    s->special[ALIBI_SPECIAL_END] = r->tokens->count > 2 ? (unigram ? 1 : 2) : -1;
  TRY(fill_pieces(r, s, scores, error));
  TRY(read_rules(r, s, error));
  TRY(sentencepiece_finish(s, r->path, error));
  sentencepiece *state = s;
  s = NULL;
  TRY(sentencepiece_tokenizer(state, r->add_begin, r->add_end, r->path, made, error));
done:
  sentencepiece_free(s);
  return result;
}

/* ---- bert ---- */

/* In the file a token that begins a word has U+2581 before it, one that goes on nothing; in the model, nothing and
 * "##". */
static status wordpiece_model(const reading *r, json_node *model, json_node *added, alibi_error *error)
{
  status result = ALIBI_OK;
  json_node *words = node_new_object();
  text_buffer buffer = {0}, spelled = {0};
  const char *text;
  node_set(model, "vocab", words);
  for (size_t id = 0; id < r->tokens->count; id++) {
    piece_type type = type_of(r, id);
    bool control = is_control(type) || (int64_t)id == r->special[ALIBI_SPECIAL_UNKNOWN];
    TRY(take_text(r, id, &buffer, &text, error));
    if (!*text) continue;
    spelled.size = 0;
    if (!control && strncmp(text, "\xe2\x96\x81", 3) == 0) text += 3;
    else if (!control && type != PIECE_USER) TRY(buffer_add_text(&spelled, "##", error));
    TRY(buffer_add_text(&spelled, text, error));
    TRY(buffer_add(&spelled, "", 1, error));
    const char *word = (const char *)spelled.data;
    if (control || type == PIECE_USER) node_append(added, part_added_token((int64_t)id, word, control));
    if (node_get(words, word))
      RAISE(error, ALIBI_BAD_INPUT, "%s: %s: token %zu ('%.40s') is there a second time", r->path, KEY("tokens"),
            id, word);
    node_set_integer(words, word, (int64_t)id);
    if ((int64_t)id == r->special[ALIBI_SPECIAL_UNKNOWN]) node_set_text(model, "unk_token", word);
  }
  if (!node_get(model, "unk_token"))
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s: expected the id of a token", r->path, KEY("unknown_token_id"));
done:
  buffer_free(&buffer);
  buffer_free(&spelled);
  return result;
}

static status open_bert(reading *r, alibi_tokenizer **made, alibi_error *error)
{
  status result = ALIBI_OK;
  void *state = NULL;
  json_node *parts = node_new_object(), *added = node_new_array(), *model = node_new_object();
  json_node *normalizer = part_step("BertNormalizer"), *decoder = part_step("WordPiece");
  node_set(parts, "added_tokens", added);
  node_set_boolean(normalizer, "clean_text", true);
  node_set_boolean(normalizer, "handle_chinese_chars", true);
  node_set_null(normalizer, "strip_accents");
  node_set_boolean(normalizer, "lowercase", true);
  node_set(parts, "normalizer", normalizer);
  node_set(parts, "pre_tokenizer", part_step("BertPreTokenizer"));
  node_set_text(decoder, "prefix", "##");
  node_set_boolean(decoder, "cleanup", true);
  node_set(parts, "decoder", decoder);
  node_set_text(model, "type", "WordPiece");
  node_set_text(model, "continuing_subword_prefix", "##");
  TRY(gguf_boolean_or(r->file, KEY("add_bos_token"), true, &r->add_begin, error));
  TRY(read_special(r, KEY("cls_token_id"), ALIBI_SPECIAL_BEGIN, r->special[ALIBI_SPECIAL_BEGIN], error));
  TRY(read_special(r, KEY("seperator_token_id"), ALIBI_SPECIAL_END, r->special[ALIBI_SPECIAL_END],
                   error)); /* sic */
  r->add_end = true;
  if (r->special[ALIBI_SPECIAL_UNKNOWN] < 0)
    for (size_t id = 0; id < r->tokens->count && r->special[ALIBI_SPECIAL_UNKNOWN] < 0; id++)
      if (type_of(r, id) == PIECE_UNKNOWN) r->special[ALIBI_SPECIAL_UNKNOWN] = (int64_t)id;
  TRY(wordpiece_model(r, model, added, error));
  TRY(set_template(r, parts, error));
  TRY(token_model_wordpiece.open(model, r->path, &state, error));
  TRY(pipeline_new(parts, r->path, &token_model_wordpiece, state, made, error));
  set_specials(r, *made);
done:
  node_free(model);
  node_free(parts);
  return result;
}

/* ---- the file ---- */

status gguf_vocabulary_open(const gguf_file *file, alibi_tokenizer **made, alibi_error *error)
{
  status result = ALIBI_OK;
  gguf_text kind;
  reading r = {.file = file, .path = gguf_path(file)};
  *made = NULL;
  if (!gguf_key_find(file, KEY("model")))
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s is missing: the file has no tokenizer", r.path, KEY("model"));
  TRY(gguf_string(file, KEY("model"), &kind, error));
  if (kind.size == 4 && memcmp(kind.data, "none", 4) == 0)
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s is 'none': the file has no tokenizer", r.path, KEY("model"));
  TRY(read_common(&r, error));
  if (kind.size == 4 && memcmp(kind.data, "gpt2", 4) == 0) TRY(open_gpt2(&r, made, error));
  else if (kind.size == 5 && memcmp(kind.data, "llama", 5) == 0)
    TRY(open_sentencepiece(&r, SENTENCEPIECE_BPE, made, error));
  else if (kind.size == 2 && memcmp(kind.data, "t5", 2) == 0)
    TRY(open_sentencepiece(&r, SENTENCEPIECE_UNIGRAM, made, error));
  else if (kind.size == 4 && memcmp(kind.data, "bert", 4) == 0) TRY(open_bert(&r, made, error));
  else
    RAISE(error, ALIBI_BAD_INPUT, "%s: %s: expected gpt2, llama, t5 or bert, found '%.*s'", r.path, KEY("model"),
          (int)(kind.size < 60 ? kind.size : 60), kind.data);
done:
  if (result != ALIBI_OK) {
    alibi_tokenizer_free(*made);
    *made = NULL;
  }
  return result;
}

static bool recognise(const unsigned char *data, size_t size)
{
  return size >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static status open_file(const char *path, alibi_tokenizer **made, alibi_error *error)
{
  gguf_file *file = NULL;
  status result = gguf_open(path, &file, error);
  if (result == ALIBI_OK) result = gguf_vocabulary_open(file, made, error);
  gguf_close(file);
  return result;
}

const tokenizer_format tokenizer_format_gguf_vocabulary = {"GGUF", recognise, open_file};
