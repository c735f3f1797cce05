/* Needles.  Keys are different from each other; values are drawn anew for each needle. */
#include "evaluate/tasks/needles.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

typedef enum needle_kind { NEEDLE_WORDS = 0, NEEDLE_NUMBERS, NEEDLE_UUIDS } needle_kind;

enum { NAME_SIZE = 2 * WORD_SIZE };
typedef char needle_name[NAME_SIZE];

const char *const needle_kind_names[] = {"words", "numbers", "uuids", NULL};

/* As a sentence calls them. */
static const char *const nouns[] = {"word", "number", "uuid"};

static status draw_name(const task_material *m, int kind, task_random *random, needle_name name,
                        alibi_error *error)
{
  char words[2][WORD_SIZE];
  status result = ALIBI_OK;
  switch (kind) {
  case NEEDLE_NUMBERS: snprintf(name, NAME_SIZE, "%u", 1000000 + (unsigned)task_below(random, 9000000)); break;
  case NEEDLE_UUIDS: {
    uint64_t high = task_bits(random), low = task_bits(random);
    snprintf(name, NAME_SIZE, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff), (unsigned)(low >> 48),
             (unsigned long long)(low & 0xffffffffffff));
    break;
  }
  default:
    result = word_choose(m->words, random, words, 2, error);
    snprintf(name, NAME_SIZE, "%.*s-%.*s", WORD_SIZE - 1, words[0], WORD_SIZE - 2, words[1]);
  }
  return result;
}

static status draw_keys(const task_material *m, int kind, task_random *random, needle_name *keys, size_t count,
                        alibi_error *error)
{
  for (size_t i = 0; i < count;) {
    size_t same = 0;
    status result = draw_name(m, kind, random, keys[i], error);
    if (result != ALIBI_OK) return result;
    while (strcmp(keys[same], keys[i]) != 0) same++;
    i += same == i;
  }
  return ALIBI_OK;
}

typedef struct needle_draw {
  const needle_options *options;
  const task_material *material;
} needle_draw;

static void write_needle(const needle_options *o, size_t values, const char *key, const char *value,
                         char text[PIECE_SIZE])
{
  if (values > 1)
    snprintf(text, PIECE_SIZE, " One of the special magic %ss for %s is: %s.", nouns[o->value_kind], key, value);
  else snprintf(text, PIECE_SIZE, " The special magic %s for %s is: %s.", nouns[o->value_kind], key, value);
}

static void write_other(const void *user, task_random *random, char text[PIECE_SIZE])
{
  const needle_draw *d = user;
  needle_name key = "", value = "";
  if (draw_name(d->material, d->options->key_kind, random, key, NULL) != ALIBI_OK ||
      draw_name(d->material, d->options->value_kind, random, value, NULL) != ALIBI_OK)
    snprintf(key, sizeof key, "nothing"); /* memory is out; the haystack says so when it grows */
  write_needle(d->options, 1, key, value, text);
}

static void write_question(const needle_options *o, needle_name *keys, size_t queries, size_t values, haystack *h)
{
  const char *noun = nouns[o->value_kind];
  char list[QUESTION_SIZE - 512] = "";
  for (size_t i = 0, used = 0; i < queries && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                             i == 0            ? ""
                             : i + 1 < queries ? ", "
                                               : " and ",
                             keys[i]);
  snprintf(
      h->head, sizeof h->head,
      "Special magic %ss are hidden in the following text. Remember them, for a question about them follows.\n",
      noun);
  if (queries * values == 1)
    snprintf(h->question, sizeof h->question,
             "\nWhat is the special magic %s for %s in the text above? The special magic %s for %s in the text "
             "above is",
             noun, list, noun, list);
  else
    snprintf(
        h->question, sizeof h->question,
        "\nWhat are all the special magic %ss for %s in the text above, in the order of the %s? The special magic "
        "%ss for %s in the text above are",
        noun, list, queries > 1 ? "question" : "text", noun, list);
}

/* Needle v of key k; of a key with several values they lie in the order in which they are asked for. */
static status put_needles(const needle_options *o, const task_request *r, needle_name *keys, size_t key_count,
                          size_t values, size_t queries, task_random *random, haystack *h, alibi_error *error)
{
  size_t answer = 0;
  bool lone = queries * values == 1;
  for (size_t k = 0; k < key_count; k++) {
    double depths[64];
    for (size_t v = 0; v < values; v++) depths[v] = lone && k == 0 ? r->depth : task_uniform(random);
    for (size_t v = 1; v < values; v++)
      for (size_t w = v; w > 0 && depths[w - 1] > depths[w]; w--) {
        double other = depths[w];
        depths[w] = depths[w - 1];
        depths[w - 1] = other;
      }
    for (size_t v = 0; v < values; v++) {
      needle_name value;
      haystack_piece *piece = &h->pieces[k * values + v];
      status result = draw_name(r->material, o->value_kind, random, value, error);
      if (result != ALIBI_OK) return result;
      piece->depth = depths[v];
      write_needle(o, values, keys[k], value, piece->text);
      if (k >= queries) continue;
      haystack_answer *a = &h->answers[answer];
      snprintf(a->before, sizeof a->before, "%s", answer > 0 ? "," : "");
      a->text[0] = ' ';
      memcpy(a->text + 1, value, sizeof a->text - 1);
      a->text[sizeof a->text - 1] = '\0';
      a->depth = depths[v];
      answer++;
    }
  }
  return ALIBI_OK;
}

static size_t at_least_one(int64_t count)
{
  return count > 0 ? (size_t)count : 1;
}

status needles_make(const needle_options *o, const task_request *r, task_prompts *prompts, alibi_error *error)
{
  size_t queries = at_least_one(o->queries), values = at_least_one(o->values), keys = at_least_one(o->keys);
  if (keys < queries) keys = queries;
  task_random random = r->random;
  needle_draw others = {o, r->material};
  needle_name *names = NULL;
  haystack h = {0};
  status result;
  TRY(memory_new(&names, keys, sizeof *names, "the keys of needles", error));
  TRY(draw_keys(r->material, o->key_kind, &random, names, keys, error));
  TRY(haystack_new(keys * values, queries * values, &h, error));
  h.kind = (haystack_kind)o->haystack;
  h.other = write_other;
  h.user = &others;
  write_question(o, names, queries, values, &h);
  TRY(put_needles(o, r, names, keys, values, queries, &random, &h, error));
  TRY(haystack_write(&h, r, &random, prompts, error));
done:
  haystack_free(&h);
  memory_free(names);
  return result;
}

bool needles_need_text(const void *options)
{
  return ((const needle_options *)options)->haystack == HAYSTACK_TEXT;
}
