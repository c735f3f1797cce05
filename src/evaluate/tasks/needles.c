/* Needles: one or several sentences, "The special magic number for {key} is: {value}.", in a haystack.  needle,
 * multi-key, multi-value and multi-query are the same with other options, so all four are rows of this file.
 * Kinds and numbers: RULER (Hsieh et al. 2024).
 *
 * A name is drawn as a number below how many there are of its kind, so that keys are different by their numbers;
 * values are drawn anew for each needle. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "evaluate/task_haystack.h"

typedef struct needle_options {
  int haystack, key_kind, value_kind;
  int64_t keys, values, queries; /* keys in all; values of each; keys asked for.  0: not of this task */
} needle_options;

typedef enum needle_kind { NEEDLE_WORDS = 0, NEEDLE_NUMBERS, NEEDLE_UUIDS } needle_kind;

static const char *const kind_names[] = {"words", "numbers", "uuids", NULL};

/* As a sentence calls them. */
static const char *const nouns[] = {"word", "number", "uuid"};

/* MOST: of each of the counts.  MANY: names of a kind for each key, so that others are found soon. */
enum { MOST = 64, MANY = 16, NAME_SIZE = 2 * WORD_SIZE };
typedef char needle_name[NAME_SIZE];

/* ---- names ---- */

/* What all needles of a prompt have in common. */
typedef struct needle_draw {
  const needle_options *options;
  const word_list *words; /* NULL: made ones */
  size_t *keys;           /* [key_count] their numbers */
  size_t key_count, queries, values;
} needle_draw;

/* Two different words make a name. */
static size_t name_count(int kind, const word_list *words)
{
  size_t count = words ? words->count : WORDS_MADE;
  return kind == NEEDLE_NUMBERS ? 9000000 : kind == NEEDLE_UUIDS ? SIZE_MAX : count * (count - 1);
}

static void spell_words(const word_list *words, size_t number, needle_name name)
{
  char made[2][WORD_SIZE];
  size_t others = (words ? words->count : WORDS_MADE) - 1, first = number / others, second = number % others;
  second += second >= first;
  if (!words) {
    word_make(first, made[0]);
    word_make(second, made[1]);
  }
  snprintf(name, NAME_SIZE, "%.*s-%.*s", WORD_SIZE - 1, words ? words->words[first] : made[0], WORD_SIZE - 2,
           words ? words->words[second] : made[1]);
}

static void spell(int kind, const word_list *words, size_t number, task_random *random, needle_name name)
{
  uint64_t high;
  switch (kind) {
  case NEEDLE_NUMBERS: snprintf(name, NAME_SIZE, "%zu", 1000000 + number); break;
  case NEEDLE_UUIDS: /* the number is its low half */
    high = task_bits(random);
    snprintf(name, NAME_SIZE, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
             (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff), (unsigned)((uint64_t)number >> 48),
             (unsigned long long)((uint64_t)number & 0xffffffffffff));
    break;
  default: spell_words(words, number, name);
  }
}

static void draw_value(const needle_draw *d, task_random *random, needle_name value)
{
  int kind = d->options->value_kind;
  spell(kind, d->words, task_below(random, name_count(kind, d->words)), random, value);
}

/* ---- sentences ---- */

static void write_needle(const needle_draw *d, size_t values, const char *key, const char *value,
                         char text[PIECE_SIZE])
{
  const char *noun = nouns[d->options->value_kind];
  if (values > 1) snprintf(text, PIECE_SIZE, " One of the special magic %ss for %s is: %s.", noun, key, value);
  else snprintf(text, PIECE_SIZE, " The special magic %s for %s is: %s.", noun, key, value);
}

/* Of a key that is none of the prompt's, which would have two answers. */
static void write_other(const void *user, task_random *random, char text[PIECE_SIZE])
{
  const needle_draw *d = user;
  needle_name key, value;
  int kind = d->options->key_kind;
  spell(kind, d->words, task_another(random, name_count(kind, d->words), d->keys, d->key_count), random, key);
  draw_value(d, random, value);
  write_needle(d, 1, key, value, text);
}

static status write_question(const needle_draw *d, needle_name *names, haystack *h, alibi_error *error)
{
  const char *noun = nouns[d->options->value_kind];
  char list[QUESTION_SIZE / 2] = "";
  size_t used = 0;
  int size;
  for (size_t i = 0; i < d->queries && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                             i == 0               ? ""
                             : i + 1 < d->queries ? ", "
                                                  : " and ",
                             names[i]);
  snprintf(
      h->head, sizeof h->head,
      "Special magic %ss are hidden in the following text. Remember them, for a question about them follows.\n",
      noun);
  if (d->queries * d->values == 1)
    size = snprintf(h->question, sizeof h->question,
                    "\nWhat is the special magic %s for %s in the text above? The special magic %s for %s in the "
                    "text above is",
                    noun, list, noun, list);
  else
    size = snprintf(h->question, sizeof h->question,
                    "\nWhat are all the special magic %ss for %s in the text above, in the order of the %s? The "
                    "special magic %ss for %s in the text above are",
                    noun, list, d->queries > 1 ? "question" : "text", noun, list);
  if (used >= sizeof list || size < 0 || (size_t)size >= sizeof h->question)
    return fail(error, ALIBI_INVALID, "not possible: the question after %zu keys is longer than %d bytes",
                d->queries, QUESTION_SIZE - 1);
  return ALIBI_OK;
}

/* Needle v of key k; of a key with several values they lie in the order in which they are asked for. */
static void put_needles(const needle_draw *d, double depth, needle_name *names, task_random *random, haystack *h)
{
  size_t answer = 0;
  for (size_t k = 0; k < d->key_count; k++) {
    double depths[MOST];
    if (d->queries * d->values == 1 && k == 0) depths[0] = depth;
    else haystack_draw_depths(random, depths, d->values);
    for (size_t v = 0; v < d->values; v++) {
      needle_name value;
      haystack_piece *piece = &h->pieces[k * d->values + v];
      draw_value(d, random, value);
      piece->depth = depths[v];
      write_needle(d, d->values, names[k], value, piece->text);
      if (k >= d->queries) continue;
      haystack_answer *a = &h->answers[answer];
      snprintf(a->before, sizeof a->before, "%s", answer > 0 ? "," : "");
      snprintf(a->text, ANSWER_SIZE, " %s", value);
      a->depth = depths[v];
      answer++;
    }
  }
}

/* ---- the prompt ---- */

static size_t at_least_one(int64_t count)
{
  return count > 0 ? (size_t)count : 1;
}

/* The queried needle lies at the request's depth; where several are asked for, all of them anywhere. */
static status make(const task_request *r, task_prompts *prompts, alibi_error *error)
{
  const needle_options *o = r->options;
  const word_list *words = r->material->words;
  task_random random = r->random;
  needle_draw d = {.options = o, .queries = at_least_one(o->queries), .values = at_least_one(o->values)};
  needle_name *names = NULL;
  haystack h = {0};
  status result;
  d.key_count = at_least_one(o->keys);
  if (d.key_count < d.queries) d.key_count = d.queries;
  if (words && words->count > 1 && name_count(NEEDLE_WORDS, words) / MANY >= d.key_count) d.words = words;
  TRY(memory_new(&d.keys, d.key_count, sizeof *d.keys, "the keys of needles", error));
  TRY(memory_new(&names, d.key_count, sizeof *names, "the keys of needles", error));
  TRY(task_choose(&random, name_count(o->key_kind, d.words), d.keys, d.key_count, error));
  for (size_t k = 0; k < d.key_count; k++) spell(o->key_kind, d.words, d.keys[k], &random, names[k]);
  TRY(haystack_new(d.key_count * d.values, d.queries * d.values, &h, error));
  h.kind = (haystack_kind)o->haystack;
  h.other = write_other;
  h.user = &d;
  TRY(write_question(&d, names, &h, error));
  put_needles(&d, r->depth, names, &random, &h);
  TRY(haystack_write(&h, r, &random, prompts, error));
done:
  haystack_free(&h);
  memory_free(names);
  memory_free(d.keys);
  return result;
}

static bool needs_text(const void *options)
{
  return ((const needle_options *)options)->haystack == HAYSTACK_TEXT;
}

/* ---- the rows ---- */

#define NEEDLE_FIELDS                                                                                             \
  {.name = "haystack",                                                                                            \
   .kind = FIELD_CHOICE,                                                                                          \
   .offset = offsetof(needle_options, haystack),                                                                  \
   .choices = haystack_names,                                                                                     \
   .help = "the user's text, five sentences again and again, or nothing but needles"},                            \
      {.name = "key_kind",                                                                                        \
       .kind = FIELD_CHOICE,                                                                                      \
       .offset = offsetof(needle_options, key_kind),                                                              \
       .choices = kind_names,                                                                                     \
       .help = "what the keys are"},                                                                              \
  {                                                                                                               \
    .name = "value_kind", .kind = FIELD_CHOICE, .offset = offsetof(needle_options, value_kind), .initial = 1,     \
    .choices = kind_names, .help = "what the values are"                                                          \
  }
#define NEEDLE_COUNT(member, what)                                                                                \
  {                                                                                                               \
    .name = #member, .kind = FIELD_INTEGER, .offset = offsetof(needle_options, member), .minimum = 1,             \
    .maximum = MOST, .initial = 4, .help = (what)                                                                 \
  }
#define NEEDLE_TASK                                                                                               \
  .needs = TASK_NEEDS_TOKENIZER | TASK_TAKES_TEXT, .depths = true, .options_size = sizeof(needle_options),        \
  .needs_text = needs_text, .make = make

static const field lone_fields[] = {NEEDLE_FIELDS};
static const field key_fields[] = {NEEDLE_FIELDS, NEEDLE_COUNT(keys, "needles in all, one of which is asked for")};
static const field value_fields[] = {NEEDLE_FIELDS,
                                     NEEDLE_COUNT(values, "values of the key, all of them asked for")};
static const field query_fields[] = {NEEDLE_FIELDS, NEEDLE_COUNT(queries, "keys, all of them asked for")};

const evaluation_task task_needle = {
    .name = "needle",
    .title = "Needle in a haystack",
    .about = "a special magic number at each depth of the user's text",
    .source = "Kamradt 2023; RULER's single needle, Hsieh et al. 2024, arXiv 2404.06654",
    .fields = FIELD_TABLE(lone_fields),
    NEEDLE_TASK,
};

const evaluation_task task_multi_key = {
    .name = "multi-key",
    .title = "Needles of several keys",
    .about = "the same among needles of other keys",
    .source = "RULER (niah_multikey), Hsieh et al. 2024, arXiv 2404.06654",
    .fields = FIELD_TABLE(key_fields),
    NEEDLE_TASK,
};

const evaluation_task task_multi_value = {
    .name = "multi-value",
    .title = "Needles of several values",
    .about = "all special magic numbers of one key",
    .source = "RULER (niah_multivalue), Hsieh et al. 2024, arXiv 2404.06654",
    .spreads = true,
    .fields = FIELD_TABLE(value_fields),
    NEEDLE_TASK,
};

const evaluation_task task_multi_query = {
    .name = "multi-query",
    .title = "Needles of several questions",
    .about = "the special magic numbers of several keys",
    .source = "RULER (niah_multiquery), Hsieh et al. 2024, arXiv 2404.06654",
    .spreads = true,
    .fields = FIELD_TABLE(query_fields),
    NEEDLE_TASK,
};
