/* The word-level model of a tokenizer.json: a piece is a token, or it is unknown. */
#include <stdlib.h>
#include <string.h>

#include "text/token_model.h"
#include "text/vocabulary.h"

extern const token_model token_model_wordlevel;

typedef struct wordlevel {
  vocabulary words;
  char *unknown_text; /* as in the file, where it need not be a word */
  int64_t unknown;
} wordlevel;

static void wordlevel_free(void *state)
{
  wordlevel *w = state;
  if (!w) return;
  vocabulary_free(&w->words);
  free(w->unknown_text);
  free(w);
}

/* Old files have no "type"; what tells this model from the others is what it lacks. */
static bool is_wordlevel(const json_node *model)
{
  const json_node *words = node_get(model, "vocab");
  return node_get(model, "type") ||
         (words && node_kind_of(words) == NODE_OBJECT && !node_get(model, "merges") &&
          !node_get(model, "continuing_subword_prefix") && node_get(model, "unk_token"));
}

static status wordlevel_open(const json_node *model, const char *path, void **state, alibi_error *error)
{
  static const char *const known[] = {"type", "vocab", "unk_token", NULL};
  status result = ALIBI_OK;
  wordlevel *w = NULL;
  const char *unknown;
  *state = NULL;
  if (!is_wordlevel(model)) return ALIBI_OK;
  TRY(model_check_keys(model, known, path, error));
  TRY(model_text(model, "unk_token", "<unk>", path, &unknown, error));
  w = calloc(1, sizeof *w);
  if (!w) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  w->unknown_text = malloc(strlen(unknown) + 1);
  if (!w->unknown_text) RAISE(error, ALIBI_FAILED, "not enough memory for a tokenizer");
  strcpy(w->unknown_text, unknown);
  TRY(model_vocabulary(model, path, &w->words, error));
  w->unknown = vocabulary_find(&w->words, unknown, strlen(unknown));
  *state = w;
  w = NULL;
done:
  wordlevel_free(w);
  return result;
}

static status wordlevel_encode_piece(const void *state, void *memo, const unsigned char *text, size_t size,
                                     token_list *out, alibi_error *error)
{
  const wordlevel *w = state;
  int64_t id = vocabulary_find(&w->words, text, size);
  (void)memo;
  if (id < 0) id = w->unknown;
  if (id < 0)
    return fail(error, ALIBI_FAILED, "the tokenizer has no token for '%.*s', and its unknown token '%s' is none",
                (int)(size < 40 ? size : 40), (const char *)text, w->unknown_text);
  return token_list_add(out, (uint32_t)id, error);
}

static const unsigned char *wordlevel_spelling(const void *state, uint32_t id, size_t *size)
{
  return vocabulary_spelling(&((const wordlevel *)state)->words, id, size);
}

static int64_t wordlevel_find(const void *state, const unsigned char *spelling, size_t size)
{
  return vocabulary_find(&((const wordlevel *)state)->words, spelling, size);
}

static uint32_t wordlevel_vocabulary(const void *state)
{
  return ((const wordlevel *)state)->words.count;
}

static int64_t wordlevel_unknown(const void *state)
{
  return ((const wordlevel *)state)->unknown;
}

static status wordlevel_describe(const void *state, json_node **model, alibi_error *error)
{
  const wordlevel *w = state;
  (void)error;
  *model = node_new_object();
  node_set_text(*model, "type", "WordLevel");
  node_set(*model, "vocab", model_vocabulary_node(&w->words));
  node_set_text(*model, "unk_token", w->unknown_text);
  return ALIBI_OK;
}

const token_model token_model_wordlevel = {
    .name = "WordLevel",
    .open = wordlevel_open,
    .encode_piece = wordlevel_encode_piece,
    .spelling = wordlevel_spelling,
    .find = wordlevel_find,
    .vocabulary = wordlevel_vocabulary,
    .unknown = wordlevel_unknown,
    .describe = wordlevel_describe,
    .free = wordlevel_free,
};
