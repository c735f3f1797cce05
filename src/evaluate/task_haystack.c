/* Haystacks.  Every part is encoded by itself, so its tokens are counted before the haystack is cut to what they
 * leave; as parts begin with a blank, GPT-2's kind of tokenizer makes the same tokens of the whole. */
#include "evaluate/task_haystack.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

enum { LOOK_BACK = 96 };

const char *const haystack_names[] = {"text", "noise", "others", NULL};

static const char noise[] =
    " The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.";

status haystack_new(size_t pieces, size_t answers, haystack *h, alibi_error *error)
{
  *h = (haystack){.piece_count = pieces, .answer_count = answers};
  status result = memory_new(&h->pieces, pieces, sizeof *h->pieces, "the pieces of a haystack", error);
  if (result == ALIBI_OK)
    result = memory_new(&h->answers, answers, sizeof *h->answers, "the answers of a prompt", error);
  return result;
}

void haystack_free(haystack *h)
{
  memory_free(h->pieces);
  memory_free(h->answers);
  *h = (haystack){0};
}

void haystack_draw_depths(task_random *random, double *depths, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    double depth = task_uniform(random);
    size_t at = i;
    for (; at > 0 && depths[at - 1] > depth; at--) depths[at] = depths[at - 1];
    depths[at] = depth;
  }
}

static status encode_part(haystack_ids *e, const alibi_tokenizer *tokenizer, const char *text, alibi_error *error)
{
  status result = id_list_add_text(&e->ids, tokenizer, text, error);
  if (result == ALIBI_OK) e->ends[e->parts++] = e->ids.count;
  return result;
}

status haystack_encode(const haystack *h, const task_request *r, haystack_ids *e, alibi_error *error)
{
  const alibi_tokenizer *tokenizer = r->material->tokenizer;
  status result;
  *e = (haystack_ids){0};
  TRY(memory_new(&e->ends, h->piece_count + 2 * h->answer_count + 2, sizeof *e->ends, "the parts of a prompt",
                 error));
  TRY(encode_part(e, tokenizer, h->head, error));
  for (size_t i = 0; i < h->piece_count; i++) TRY(encode_part(e, tokenizer, h->pieces[i].text, error));
  TRY(encode_part(e, tokenizer, h->question, error));
  for (size_t i = 0; i < h->answer_count; i++) {
    TRY(encode_part(e, tokenizer, h->answers[i].before, error));
    TRY(encode_part(e, tokenizer, h->answers[i].text, error));
  }
  if (e->ids.count > r->length)
    RAISE(error, ALIBI_INVALID,
          "not possible: what is hidden, the question and the answer take %zu tokens, the length is %zu",
          e->ids.count, r->length);
  e->room = r->length - e->ids.count;
done:
  if (result != ALIBI_OK) haystack_ids_free(e);
  return result;
}

void haystack_ids_free(haystack_ids *e)
{
  id_list_free(&e->ids);
  memory_free(e->ends);
  *e = (haystack_ids){0};
}

/* ---- what lies between head and question ---- */

static status add_noise(const task_request *r, size_t count, id_list *list, alibi_error *error)
{
  id_list once = {0};
  status result;
  TRY(id_list_add_text(&once, r->material->tokenizer, noise, error));
  for (size_t left = count; left > 0;) {
    size_t n = left < once.count ? left : once.count;
    TRY(task_check_cancel(r, error));
    TRY(id_list_add(list, once.ids, n, error));
    left -= n;
  }
done:
  id_list_free(&once);
  return result;
}

static status add_others(const haystack *h, const task_request *r, size_t count, task_random *random,
                         id_list *list, alibi_error *error)
{
  char text[PIECE_SIZE];
  status result = ALIBI_OK;
  while (list->count < count) {
    TRY(task_check_cancel(r, error));
    h->other(h->user, random, text);
    TRY(id_list_add_text(list, r->material->tokenizer, text, error));
  }
  list->count = count;
done:
  return result;
}

static status fill(const haystack *h, const task_request *r, size_t count, task_random *random, id_list *list,
                   alibi_error *error)
{
  const task_material *m = r->material;
  if (h->kind == HAYSTACK_NOISE) return add_noise(r, count, list, error);
  if (h->kind == HAYSTACK_OTHERS) return add_others(h, r, count, random, list, error);
  if (m->text_count < count)
    return fail(error, ALIBI_INVALID, "not possible: the text has %zu tokens, %zu are needed", m->text_count,
                count);
  return id_list_add(list, m->text + task_below(random, m->text_count - count + 1), count, error);
}

/* ---- the prompt ---- */

/* The first or last byte of a token; 0 where there is none. */
static char edge_byte(const alibi_tokenizer *tokenizer, const id_list *middle, size_t index, bool last)
{
  size_t size = 0;
  const unsigned char *bytes =
      index < middle->count ? alibi_tokenizer_bytes(tokenizer, middle->ids[index], &size) : NULL;
  return bytes && size > 0 ? (char)bytes[last ? size - 1 : 0] : '\0';
}

static bool is_one_of(char c, const char *set)
{
  return c != '\0' && strchr(set, c) != NULL;
}

/* Where a piece goes in: at the end of the sentence before `depth`, else of the word; where none is near, right
 * there. */
static size_t place_of(const task_request *r, const id_list *middle, double depth)
{
  const alibi_tokenizer *t = r->material->tokenizer;
  size_t at = (size_t)llround(depth * (double)middle->count), word = SIZE_MAX;
  for (size_t back = 0; back <= LOOK_BACK && back <= at; back++) {
    size_t place = at - back;
    if (place == 0) return place;
    if (place < middle->count && !is_one_of(edge_byte(t, middle, place, false), " \n")) continue;
    if (is_one_of(edge_byte(t, middle, place - 1, true), ".!?")) return place;
    if (word == SIZE_MAX) word = place;
  }
  return word == SIZE_MAX ? at : word;
}

static status add_part(const haystack_ids *e, size_t part, task_prompts *prompts, alibi_error *error)
{
  size_t from = part > 0 ? e->ends[part - 1] : 0;
  return prompts_add(prompts, e->ids.ids + from, e->ends[part] - from, error);
}

/* Pieces in the order of their places; few, so the next one is searched for. */
static status add_middle(const haystack *h, const haystack_ids *e, const task_request *r, const id_list *middle,
                         task_prompts *prompts, alibi_error *error)
{
  size_t *places = NULL, done = 0;
  status result;
  TRY(memory_new(&places, h->piece_count, sizeof *places, "the pieces of a haystack", error));
  for (size_t i = 0; i < h->piece_count; i++) places[i] = place_of(r, middle, h->pieces[i].depth);
  for (size_t n = 0; n < h->piece_count; n++) {
    size_t next = 0;
    for (size_t i = 1; i < h->piece_count; i++)
      if (places[i] < places[next]) next = i;
    TRY(prompts_add(prompts, middle->ids + done, places[next] - done, error));
    TRY(add_part(e, 1 + next, prompts, error));
    done = places[next];
    places[next] = SIZE_MAX;
  }
  TRY(prompts_add(prompts, middle->ids + done, middle->count - done, error));
done:
  memory_free(places);
  return result;
}

status haystack_put(const haystack *h, const haystack_ids *e, const task_request *r, const id_list *middle,
                    task_prompts *prompts, alibi_error *error)
{
  id_list rest = {0};
  size_t part = 1 + h->piece_count;
  status result;
  prompts_begin(prompts);
  TRY(add_part(e, 0, prompts, error));
  if (middle->count < e->room) {
    TRY(add_noise(r, e->room - middle->count, &rest, error));
    TRY(prompts_add(prompts, rest.ids, rest.count, error));
  }
  TRY(add_middle(h, e, r, middle, prompts, error));
  TRY(add_part(e, part++, prompts, error));
  for (size_t i = 0; i < h->answer_count; i++) {
    TRY(add_part(e, part++, prompts, error));
    TRY(prompts_add_answer(prompts, e->ids.ids + e->ends[part - 1], e->ends[part] - e->ends[part - 1],
                           h->answers[i].depth, error));
    part++;
  }
  TRY(prompts_end(prompts, error));
done:
  id_list_free(&rest);
  return result;
}

status haystack_write(const haystack *h, const task_request *r, task_random *random, task_prompts *prompts,
                      alibi_error *error)
{
  haystack_ids encoded = {0};
  id_list middle = {0};
  status result;
  TRY(haystack_encode(h, r, &encoded, error));
  TRY(fill(h, r, encoded.room, random, &middle, error));
  TRY(haystack_put(h, &encoded, r, &middle, prompts, error));
done:
  id_list_free(&middle);
  haystack_ids_free(&encoded);
  return result;
}
