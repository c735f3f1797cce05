/* SentencePiece's .model file: a protobuf message without a magic number.  Read by hand, because of the format
 * only this much is needed: a field is a number and a wire type, then a varint, 4 or 8 bytes, or a length and as
 * many bytes.  Fields that are not known are skipped, as the format wants it; a known field of another wire type
 * is damage.  Source of the numbers: sentencepiece_model.proto. */
#include <inttypes.h>

#include "base/bytes_at.h"
#include "base/system.h"
#include "text/sentencepiece.h"
#include "text/tokenizer.h"

extern const tokenizer_format tokenizer_format_sentencepiece;

typedef enum wire_type {
  WIRE_VARINT = 0,
  WIRE_64 = 1,
  WIRE_BYTES = 2,
  WIRE_GROUP = 3,
  WIRE_GROUP_END = 4,
  WIRE_32 = 5
} wire_type;

enum { GROUPS_MOST = 64, FIELD_MOST = (1 << 29) - 1 };

enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
  TRAINER_MODEL_TYPE = 3,
  TRAINER_SPACE_LAST = 24,
  TRAINER_BYTE_FALLBACK = 35,
  TRAINER_UNKNOWN_SURFACE = 44,
  TRAINER_UNKNOWN_PIECE = 45, /* and begin, end, padding */
};
enum { NORMALIZER_RULES = 2, NORMALIZER_DUMMY = 3, NORMALIZER_TRIM = 4, NORMALIZER_ESCAPE = 5 };

typedef struct message { /* a stretch of the file */
  const char *path, *name;
  const unsigned char *file; /* where offsets are counted from */
  const unsigned char *at, *end;
} message;

typedef struct wire_field {
  uint32_t number;
  wire_type type;
  uint64_t value; /* of a varint, or of 4 or 8 bytes */
  message bytes;
} wire_field;

static status damaged(const message *m, const char *what, alibi_error *error)
{
  return fail(error, ALIBI_BAD_INPUT, "%s: byte %zu, in %s: %s", m->path, (size_t)(m->at - m->file), m->name,
              what);
}

static bool read_varint(message *m, uint64_t *value)
{
  *value = 0;
  for (unsigned shift = 0; shift < 64 && m->at < m->end; shift += 7) {
    unsigned char byte = *m->at++;
    if (shift == 63 && byte > 1) return false;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static status read_key(message *m, wire_field *f, alibi_error *error)
{
  uint64_t key;
  if (!read_varint(m, &key)) return damaged(m, "a number without an end", error);
  if (key >> 3 == 0 || key >> 3 > FIELD_MOST || (key & 7) > WIRE_32)
    return damaged(m, "expected the key of a field of a SentencePiece model", error);
  f->number = (uint32_t)(key >> 3);
  f->type = (wire_type)(key & 7);
  return ALIBI_OK;
}

static status read_value(message *m, wire_field *f, alibi_error *error)
{
  size_t left, size = f->type == WIRE_64 ? 8 : 4;
  f->value = 0;
  if (f->type == WIRE_VARINT)
    return read_varint(m, &f->value) ? ALIBI_OK : damaged(m, "a number without an end", error);
  if (f->type == WIRE_BYTES) {
    uint64_t length;
    if (!read_varint(m, &length)) return damaged(m, "a length without an end", error);
    if (length > (uint64_t)(m->end - m->at)) return damaged(m, "a field goes past its end", error);
    f->bytes = (message){m->path, m->name, m->file, m->at, m->at + length};
    m->at += length;
    return ALIBI_OK;
  }
  left = (size_t)(m->end - m->at);
  if (left < size) return damaged(m, "a number goes past its end", error);
  f->value = size == 8 ? u64_at(m->at, 0) : u32_at(m->at, 0);
  m->at += size;
  return ALIBI_OK;
}

/* The fields of a group up to its end; groups may lie in it. */
static status skip_group(message *m, uint32_t number, alibi_error *error)
{
  uint32_t open[GROUPS_MOST];
  size_t depth = 1;
  open[0] = number;
  while (depth > 0) {
    wire_field f = {0};
    if (m->at == m->end) return damaged(m, "a group without an end", error);
    status result = read_key(m, &f, error);
    if (result != ALIBI_OK) return result;
    if (f.type == WIRE_GROUP) {
      if (depth == GROUPS_MOST) return damaged(m, "groups nested too deeply", error);
      open[depth++] = f.number;
    } else if (f.type == WIRE_GROUP_END) {
      if (open[--depth] != f.number) return damaged(m, "the end of another group", error);
    } else if ((result = read_value(m, &f, error)) != ALIBI_OK) {
      return result;
    }
  }
  return ALIBI_OK;
}

/* The next field; groups are passed over.  *more false: that was all. */
static status next_field(message *m, wire_field *f, bool *more, alibi_error *error)
{
  for (;;) {
    *more = m->at < m->end;
    if (!*more) return ALIBI_OK;
    status result = read_key(m, f, error);
    if (result != ALIBI_OK) return result;
    if (f->type == WIRE_GROUP_END) return damaged(m, "the end of a group that did not begin", error);
    if (f->type != WIRE_GROUP) return read_value(m, f, error);
    result = skip_group(m, f->number, error);
    if (result != ALIBI_OK) return result;
  }
}

static status expect(const message *m, const wire_field *f, wire_type type, alibi_error *error)
{
  if (f->type == type) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: byte %zu, in %s: field %" PRIu32 ": expected wire type %d, found %d",
              m->path, (size_t)(m->at - m->file), m->name, f->number, (int)type, (int)f->type);
}

/* ---- the messages ---- */

static status read_piece(sentencepiece *s, uint32_t id, message m, alibi_error *error)
{
  status result = ALIBI_OK;
  const unsigned char *text = (const unsigned char *)"";
  size_t size = 0;
  float score = 0;
  uint64_t type = PIECE_NORMAL;
  m.name = "a piece";
  for (;;) {
    wire_field f = {0};
    bool more;
    TRY(next_field(&m, &f, &more, error));
    if (!more) break;
    if (f.number == PIECE_TEXT) {
      TRY(expect(&m, &f, WIRE_BYTES, error));
      text = f.bytes.at;
      size = (size_t)(f.bytes.end - f.bytes.at);
    } else if (f.number == PIECE_SCORE) {
      uint32_t bits;
      TRY(expect(&m, &f, WIRE_32, error));
      bits = (uint32_t)f.value;
      memcpy(&score, &bits, sizeof score);
    } else if (f.number == PIECE_TYPE) {
      TRY(expect(&m, &f, WIRE_VARINT, error));
      type = f.value;
    }
  }
  TRY(sentencepiece_set(s, id, text, size, score, type < PIECE_TYPES ? (piece_type)type : PIECE_TYPES, m.path,
                        error));
done:
  return result;
}

static status set_flag(const message *m, const wire_field *f, bool *flag, alibi_error *error)
{
  status result = expect(m, f, WIRE_VARINT, error);
  if (result == ALIBI_OK) *flag = f->value != 0;
  return result;
}

typedef struct special_names { /* of the unknown piece, begin, end, padding */
  message piece[4];
} special_names;

static status copy_surface(sentencepiece *s, const message *bytes, alibi_error *error)
{
  size_t size = (size_t)(bytes->end - bytes->at);
  free(s->unknown_text);
  s->unknown_text = malloc(size + 1);
  if (!s->unknown_text) return fail(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  memcpy(s->unknown_text, bytes->at, size);
  s->unknown_text[size] = '\0';
  if (strlen(s->unknown_text) != size || utf8_end(bytes->at, 0, size) != size)
    return fail(error, ALIBI_BAD_INPUT, "%s: unk_surface is not UTF-8, or has a NUL", bytes->path);
  return ALIBI_OK;
}

static status read_trainer(sentencepiece *s, message m, special_names *names, alibi_error *error)
{
  static const char *const kinds[] = {"UNIGRAM", "BPE", "WORD", "CHAR"};
  status result = ALIBI_OK;
  m.name = "trainer_spec";
  for (;;) {
    wire_field f = {0};
    bool more;
    TRY(next_field(&m, &f, &more, error));
    if (!more) break;
    if (f.number == TRAINER_MODEL_TYPE) {
      TRY(expect(&m, &f, WIRE_VARINT, error));
      if (f.value != SENTENCEPIECE_UNIGRAM && f.value != SENTENCEPIECE_BPE)
        RAISE(error, ALIBI_BAD_INPUT, "%s: model_type: expected UNIGRAM or BPE, found %" PRIu64 " (%s)", m.path,
              f.value, f.value >= 1 && f.value <= 4 ? kinds[f.value - 1] : "not known");
      s->kind = (sentencepiece_kind)f.value;
    } else if (f.number == TRAINER_SPACE_LAST) {
      TRY(set_flag(&m, &f, &s->space_last, error));
    } else if (f.number == TRAINER_BYTE_FALLBACK) {
      TRY(set_flag(&m, &f, &s->byte_fallback, error));
    } else if (f.number == TRAINER_UNKNOWN_SURFACE) {
      TRY(expect(&m, &f, WIRE_BYTES, error));
      TRY(copy_surface(s, &f.bytes, error));
    } else if (f.number >= TRAINER_UNKNOWN_PIECE && f.number < TRAINER_UNKNOWN_PIECE + 4) {
      TRY(expect(&m, &f, WIRE_BYTES, error));
      names->piece[f.number - TRAINER_UNKNOWN_PIECE] = f.bytes;
    }
  }
done:
  return result;
}

static status read_normalizer(sentencepiece *s, message m, alibi_error *error)
{
  status result = ALIBI_OK;
  m.name = "normalizer_spec";
  for (;;) {
    wire_field f = {0};
    bool more;
    TRY(next_field(&m, &f, &more, error));
    if (!more) break;
    if (f.number == NORMALIZER_DUMMY) TRY(set_flag(&m, &f, &s->dummy_prefix, error));
    else if (f.number == NORMALIZER_TRIM) TRY(set_flag(&m, &f, &s->trim_spaces, error));
    else if (f.number == NORMALIZER_ESCAPE) TRY(set_flag(&m, &f, &s->escape_spaces, error));
    if (f.number != NORMALIZER_RULES) continue;
    TRY(expect(&m, &f, WIRE_BYTES, error));
    TRY(sentencepiece_set_rules(s, f.bytes.at, (size_t)(f.bytes.end - f.bytes.at), error));
  }
done:
  return result;
}

static status check_denormalizer(message m, alibi_error *error)
{
  status result = ALIBI_OK;
  m.name = "denormalizer_spec";
  for (;;) {
    wire_field f = {0};
    bool more;
    TRY(next_field(&m, &f, &more, error));
    if (!more) break;
    if (f.number != NORMALIZER_RULES || f.type != WIRE_BYTES || f.bytes.at == f.bytes.end) continue;
    RAISE(error, ALIBI_BAD_INPUT, "%s: denormalizer_spec: rules for decoded text are not supported", m.path);
  }
done:
  return result;
}

/* ---- the file ---- */

static status count_pieces(message m, size_t *count, alibi_error *error)
{
  status result = ALIBI_OK;
  *count = 0;
  for (;;) {
    wire_field f = {0};
    bool more;
    TRY(next_field(&m, &f, &more, error));
    if (!more) break;
    if (f.number > MODEL_DENORMALIZER) continue;
    TRY(expect(&m, &f, WIRE_BYTES, error));
    *count += f.number == MODEL_PIECES;
  }
  if (*count == 0) RAISE(error, ALIBI_BAD_INPUT, "%s: expected a SentencePiece model, found no pieces", m.path);
done:
  return result;
}

static status read_messages(sentencepiece *s, message m, special_names *names, alibi_error *error)
{
  status result = ALIBI_OK;
  uint32_t id = 0;
  for (;;) {
    wire_field f = {0};
    bool more;
    TRY(next_field(&m, &f, &more, error));
    if (!more) break;
    if (f.number == MODEL_PIECES) TRY(read_piece(s, id++, f.bytes, error));
    else if (f.number == MODEL_TRAINER) TRY(read_trainer(s, f.bytes, names, error));
    else if (f.number == MODEL_NORMALIZER) TRY(read_normalizer(s, f.bytes, error));
    else if (f.number == MODEL_DENORMALIZER) TRY(check_denormalizer(f.bytes, error));
  }
done:
  return result;
}

/* A piece comes once among those that text can become, and once among the others. */
static status check_twins(const sentencepiece *s, const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  piece_map seen[2] = {{0}, {0}};
  char shown[VOCABULARY_SHOWN];
  for (uint32_t id = 0; id < s->words.count; id++) {
    size_t size;
    piece *entry;
    const unsigned char *text = vocabulary_spelling(&s->words, id, &size);
    int type = s->types[id];
    bool plain = type == PIECE_NORMAL || type == PIECE_USER || type == PIECE_UNUSED;
    TRY(piece_map_add(&seen[plain], text, size, &entry, error));
    if (entry->length > 0)
      RAISE(error, ALIBI_BAD_INPUT, "%s: pieces %zu and %u are both '%s'", path, entry->value, (unsigned)id,
            vocabulary_shown(text, size, shown));
    entry->value = id;
    entry->length = 1;
    if (type == PIECE_BYTE && !s->byte_fallback)
      RAISE(error, ALIBI_BAD_INPUT, "%s: piece %u ('%s') is a byte, but byte_fallback is not set", path,
            (unsigned)id, vocabulary_shown(text, size, shown));
  }
done:
  piece_map_free(&seen[0]);
  piece_map_free(&seen[1]);
  return result;
}

/* The names say which pieces are special; only a control piece is one. */
static void find_specials(sentencepiece *s, const special_names *names)
{
  static const char *const usual[4] = {"<unk>", "<s>", "</s>", "<pad>"};
  static const alibi_special special[4] = {ALIBI_SPECIAL_UNKNOWN, ALIBI_SPECIAL_BEGIN, ALIBI_SPECIAL_END,
                                           ALIBI_SPECIAL_PADDING};
  for (int i = 1; i < 4; i++) {
    const unsigned char *name = (const unsigned char *)usual[i], *text;
    size_t size = strlen(usual[i]), length;
    if (names->piece[i].end > names->piece[i].at) {
      name = names->piece[i].at;
      size = (size_t)(names->piece[i].end - names->piece[i].at);
    }
    for (uint32_t id = 0; id < s->words.count; id++) {
      if (s->types[id] != PIECE_CONTROL) continue;
      text = vocabulary_spelling(&s->words, id, &length);
      if (length == size && memcmp(text, name, size) == 0) s->special[special[i]] = id;
    }
  }
}

status sentencepiece_read(const char *path, sentencepiece **made, alibi_error *error)
{
  status result = ALIBI_OK;
  mapped_file file = {0};
  sentencepiece *s = NULL;
  special_names names = {0};
  size_t count;
  *made = NULL;
  TRY(mapped_file_open(path, &file, error));
  message whole = {path, "the model", file.data, file.data, file.data + file.size};
  TRY(count_pieces(whole, &count, error));
  TRY(sentencepiece_new(count, &s, error));
  TRY(read_messages(s, whole, &names, error));
  TRY(check_twins(s, path, error));
  find_specials(s, &names);
  TRY(sentencepiece_finish(s, path, error));
  *made = s;
  s = NULL;
done:
  sentencepiece_free(s);
  mapped_file_close(&file);
  return result;
}

/* There is no magic number: a file is one if it begins with a piece and is made of fields up to its end, or at
 * least cannot be JSON. */
bool sentencepiece_recognise(const unsigned char *data, size_t size)
{
  size_t count, i = 0;
  if (size < 4 || data[0] != (MODEL_PIECES << 3 | WIRE_BYTES)) return false;
  if (count_pieces((message){"", "", data, data, data + size}, &count, NULL) == ALIBI_OK) return true;
  while (i < size && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t')) i++;
  return i == size || data[i] != '{';
}

/* A .model does not say whether a text gets a begin and an end; tokenizer_config.json, where one lies beside it,
 * does. Llama's class adds a begin where it is not told otherwise. */
static status read_config(const char *path, bool *add_begin, bool *add_end, alibi_error *error)
{
  json_node *config;
  *add_begin = *add_end = false;
  status result = tokenizer_config_read(path, &config, error);
  if (result != ALIBI_OK || !config) return result;
  bool llama = strncmp(node_text(node_get(config, "tokenizer_class"), ""), "LlamaTokenizer", 14) == 0;
  *add_begin = node_boolean(node_get(config, "add_bos_token"), llama);
  *add_end = node_boolean(node_get(config, "add_eos_token"), false);
  node_free(config);
  return ALIBI_OK;
}

static status open_sentencepiece(const char *path, alibi_tokenizer **made, alibi_error *error)
{
  sentencepiece *s;
  bool add_begin, add_end;
  status result = read_config(path, &add_begin, &add_end, error);
  if (result == ALIBI_OK) result = sentencepiece_read(path, &s, error);
  return result == ALIBI_OK ? sentencepiece_tokenizer(s, add_begin, add_end, path, made, error) : result;
}

const tokenizer_format tokenizer_format_sentencepiece = {
    "SentencePiece",
    sentencepiece_recognise,
    open_sentencepiece,
};
