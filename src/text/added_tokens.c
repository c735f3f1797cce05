/* Added tokens.  A set is sorted by spelling, so that the candidates at a place are a range that narrows byte by
 * byte: no tree to build, and time that is the length of the longest spelling, at most, for every byte of text. */
#include "text/added_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_part.h"
#include "text/text_buffer.h"
#include "text/unicode.h"

enum { MAX_IDS = 1 << 24, IDS_A_TOKEN = 4, IDS_MORE = 1 << 16 }; /* tables are as long as the largest id */

void added_tokens_free(added_tokens *tokens)
{
  for (size_t i = 0; i < tokens->count; i++) {
    free(tokens->tokens[i].content);
    free(tokens->tokens[i].spelling);
  }
  free(tokens->tokens);
  free(tokens->raw.tokens);
  free(tokens->normalized.tokens);
  *tokens = (added_tokens){0};
}

/* The spelling of a token that wants its text normalized. */
static status normalize(const char *content, const normalizer *n, const char *path, added_token *token,
                        alibi_error *error)
{
  status result = ALIBI_OK;
  alibi_error why = {0};
  normalizer_memory memory = {0};
  const unsigned char *text = (const unsigned char *)content;
  size_t size = strlen(content), lead = 0;
  if (token->normalized) result = normalizer_run(n, &memory, &text, &size, &lead, &why);
  if (result != ALIBI_OK) RAISE(error, result, "%s: added_tokens: '%.60s': %s", path, content, why.message);
  token->spelling = malloc(size + 1);
  if (!token->spelling) RAISE(error, ALIBI_FAILED, "not enough memory for added tokens");
  if (size > 0) memcpy(token->spelling, text, size);
  token->spelling[size] = '\0';
  token->size = size;
done:
  normalizer_memory_free(n, &memory);
  return result;
}

typedef struct reader {
  const char *path;
  const token_model *model;
  const void *state;
  const normalizer *n;
  added_tokens *tokens;
} reader;

/* The id that the file says is that of the model, or no token's of the model. */
static status check_id(const reader *r, const json_part *part, const added_token *token, alibi_error *error)
{
  size_t size = strlen(token->content), other_size;
  int64_t known = r->model->find(r->state, (const unsigned char *)token->content, size);
  if (known >= 0 && known != token->id)
    return json_part_wrong(part, error, "'%.60s' has id %u, but id %lld in the model's vocabulary", token->content,
                           (unsigned)token->id, (long long)known);
  const unsigned char *other = r->model->spelling(r->state, token->id, &other_size);
  if (known < 0 && other)
    return json_part_wrong(part, error, "'%.60s' has id %u, which is that of '%.*s' in the model's vocabulary",
                           token->content, (unsigned)token->id, other_size > 60 ? 60 : (int)other_size,
                           (const char *)other);
  return ALIBI_OK;
}

static status read_token(const reader *r, const json_node *node, size_t index, alibi_error *error)
{
  static const char *const known[] = {"id",     "content", "single_word", "lstrip",
                                      "rstrip", "special", "normalized",  NULL};
  static const bool off = false;
  status result = ALIBI_OK;
  json_part part = {.node = node, .path = r->path};
  added_token token = {0};
  const char *content;
  int64_t id;
  snprintf(part.where, sizeof part.where, "added_tokens %zu", index);
  if (node_kind_of(node) != NODE_OBJECT) return json_part_wrong(&part, error, "expected an object");
  TRY(json_part_keys(&part, known, error));
  TRY(json_part_integer(&part, "id", NULL, 0, MAX_IDS - 1, &id, error));
  TRY(json_part_text(&part, "content", NULL, &content, error));
  TRY(json_part_boolean(&part, "single_word", &off, &token.single_word, error));
  TRY(json_part_boolean(&part, "lstrip", &off, &token.strip_left, error));
  TRY(json_part_boolean(&part, "rstrip", &off, &token.strip_right, error));
  TRY(json_part_boolean(&part, "special", &off, &token.control, error));
  bool plain = !token.control;
  TRY(json_part_boolean(&part, "normalized", &plain, &token.normalized, error));
  if (*content == '\0') {
    result = json_part_wrong(&part, error, "expected a content that is not empty");
    goto done;
  }
  token.id = (uint32_t)id;
  token.content = strdup(content);
  if (!token.content) RAISE(error, ALIBI_FAILED, "%s: not enough memory for added tokens", r->path);
  TRY(check_id(r, &part, &token, error));
  TRY(normalize(content, r->n, r->path, &token, error));
  TRY(memory_grow(&r->tokens->tokens, &r->tokens->capacity, r->tokens->count + 1, sizeof token, "added tokens",
                  error));
  r->tokens->tokens[r->tokens->count++] = token;
  token = (added_token){0};
done:
  free(token.content);
  free(token.spelling);
  return result;
}

static int by_id(const void *a, const void *b)
{
  const added_token *left = a, *right = b;
  return left->id < right->id ? -1 : left->id > right->id;
}

static int by_content(const void *a, const void *b)
{
  return strcmp((*(added_token *const *)a)->content, (*(added_token *const *)b)->content);
}

static int by_spelling(const void *a, const void *b)
{
  const added_token *left = *(added_token *const *)a, *right = *(added_token *const *)b;
  size_t size = left->size < right->size ? left->size : right->size;
  int order = memcmp(left->spelling, right->spelling, size);
  return order ? order : left->size < right->size ? -1 : left->size > right->size;
}

static status build_set(const added_tokens *tokens, bool normalized, const char *path, added_set *set,
                        alibi_error *error)
{
  set->tokens = calloc(tokens->count + 1, sizeof *set->tokens);
  if (!set->tokens) return fail(error, ALIBI_FAILED, "%s: not enough memory for added tokens", path);
  for (size_t i = 0; i < tokens->count; i++)
    if (tokens->tokens[i].normalized == normalized && tokens->tokens[i].size > 0)
      set->tokens[set->count++] = &tokens->tokens[i];
  qsort(set->tokens, set->count, sizeof *set->tokens, by_spelling);
  for (size_t i = 1; i < set->count; i++)
    if (by_spelling(&set->tokens[i - 1], &set->tokens[i]) == 0)
      return fail(error, ALIBI_BAD_INPUT,
                  "%s: added_tokens: '%.60s' and '%.60s' (ids %u and %u) are the same text", path,
                  set->tokens[i - 1]->content, set->tokens[i]->content, (unsigned)set->tokens[i - 1]->id,
                  (unsigned)set->tokens[i]->id);
  for (size_t byte = 0, i = 0; byte < 256; byte++) {
    set->first[byte] = i;
    while (i < set->count && (unsigned char)set->tokens[i]->spelling[0] == byte) i++;
    set->first[byte + 1] = i;
  }
  return ALIBI_OK;
}

/* Which spellings are those of control tokens: n log n, for files that add thousands. */
static status mark_control(added_tokens *tokens, const char *path, alibi_error *error)
{
  added_token **sorted = calloc(tokens->count + 1, sizeof *sorted);
  if (!sorted) return fail(error, ALIBI_FAILED, "%s: not enough memory for added tokens", path);
  size_t count = 0;
  for (size_t i = 0; i < tokens->count; i++)
    if (tokens->tokens[i].control) sorted[count++] = &tokens->tokens[i];
  qsort(sorted, count, sizeof *sorted, by_content);
  for (size_t i = 0; i < tokens->count; i++) {
    added_token like = {.content = tokens->tokens[i].spelling}, *key = &like;
    tokens->tokens[i].control_spelling = bsearch(&key, sorted, count, sizeof *sorted, by_content) != NULL;
  }
  free(sorted);
  return ALIBI_OK;
}

status added_tokens_read(const json_node *node, const char *path, const token_model *model, const void *state,
                         const normalizer *n, added_tokens *tokens, alibi_error *error)
{
  status result = ALIBI_OK;
  reader r = {path, model, state, n, tokens};
  *tokens = (added_tokens){0};
  if (!json_part_is_null(node) && node_kind_of(node) != NODE_ARRAY)
    RAISE(error, ALIBI_BAD_INPUT, "%s: added_tokens: expected an array", path);
  for (size_t i = 0; i < node_count(node); i++) TRY(read_token(&r, node_at(node, i), i, error));
  if (tokens->count > 0) qsort(tokens->tokens, tokens->count, sizeof *tokens->tokens, by_id);
  for (size_t i = 1; i < tokens->count; i++)
    if (tokens->tokens[i - 1].id == tokens->tokens[i].id)
      RAISE(error, ALIBI_BAD_INPUT, "%s: added_tokens: '%.60s' and '%.60s' have the same id %u", path,
            tokens->tokens[i - 1].content, tokens->tokens[i].content, (unsigned)tokens->tokens[i].id);
  size_t all = model->vocabulary(state) + tokens->count;
  const added_token *last = tokens->count > 0 ? &tokens->tokens[tokens->count - 1] : NULL;
  if (last && last->id >= IDS_A_TOKEN * all + IDS_MORE)
    RAISE(error, ALIBI_BAD_INPUT, "%s: added_tokens: '%.60s' has id %u, far from those of the other %zu tokens",
          path, last->content, (unsigned)last->id, all - 1);
  TRY(mark_control(tokens, path, error));
  TRY(build_set(tokens, false, path, &tokens->raw, error));
  TRY(build_set(tokens, true, path, &tokens->normalized, error));
done:
  if (result != ALIBI_OK) added_tokens_free(tokens);
  return result;
}

const added_token *added_tokens_by_id(const added_tokens *tokens, uint32_t id)
{
  added_token key = {.id = id};
  return tokens->count ? bsearch(&key, tokens->tokens, tokens->count, sizeof key, by_id) : NULL;
}

const added_token *added_tokens_by_content(const added_tokens *tokens, const char *content)
{
  for (size_t i = 0; i < tokens->count; i++)
    if (strcmp(tokens->tokens[i].content, content) == 0) return &tokens->tokens[i];
  return NULL;
}

/* ---- finding ---- */

/* The longest token that the text begins with; NULL. */
static const added_token *longest_at(const added_set *set, const unsigned char *text, size_t size)
{
  const added_token *best = NULL;
  size_t low = set->first[text[0]], high = set->first[text[0] + 1];
  for (size_t depth = 1; low < high; depth++) {
    if (set->tokens[low]->size == depth) best = set->tokens[low++]; /* the shortest comes first */
    if (depth == size) break;
    unsigned char byte = text[depth];
    size_t from = low, to = high;
    while (from < to) { /* the first whose byte here is not smaller */
      size_t middle = from + (to - from) / 2;
      if ((unsigned char)set->tokens[middle]->spelling[depth] < byte) from = middle + 1;
      else to = middle;
    }
    low = from;
    to = high;
    while (from < to) {
      size_t middle = from + (to - from) / 2;
      if ((unsigned char)set->tokens[middle]->spelling[depth] <= byte) from = middle + 1;
      else to = middle;
    }
    high = from;
  }
  return best;
}

static bool is_single_word(const added_walk *w, size_t start, size_t end)
{
  size_t length;
  if (start > 0 && unicode_is_word(utf8_before(w->text, w->text + start, &length))) return false;
  return end == w->size || !unicode_is_word(utf8_character(w->text + end, &length));
}

bool added_walk_next(added_walk *walk, const added_token **token, size_t *start, size_t *end)
{
  *token = NULL;
  *start = walk->given;
  if (walk->coming) { /* its gap was given */
    *token = walk->coming;
    walk->coming = NULL;
    *end = walk->given = walk->coming_end;
    return true;
  }
  size_t length;
  while (walk->set->count > 0 && walk->at < walk->size) {
    const added_token *found = longest_at(walk->set, walk->text + walk->at, walk->size - walk->at);
    size_t from = walk->at, to = from + (found ? found->size : 1);
    walk->at = to;
    if (!found || (found->control && !walk->control) || (found->single_word && !is_single_word(walk, from, to)))
      continue;
    while (found->strip_left && from > walk->given &&
           unicode_is_space(utf8_before(walk->text, walk->text + from, &length)))
      from -= length;
    while (found->strip_right && to < walk->size && unicode_is_space(utf8_character(walk->text + to, &length)))
      to += length;
    if (from >
        walk->given) { /* else it begins among the blanks that the token before took: it counts all the same */
      walk->coming = found;
      walk->coming_end = to;
      *end = walk->given = from;
    } else {
      *token = found;
      *end = walk->given = to;
    }
    return true;
  }
  *end = walk->given = walk->size;
  return *end > *start;
}
