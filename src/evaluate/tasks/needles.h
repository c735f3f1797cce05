/* evaluate/tasks/needles.h - one or several needles, "The special magic number for {key} is: {value}.", in a
 * haystack: what needle, multi-key, multi-value and multi-query share.  Kinds and numbers: RULER (Hsieh et al.
 * 2024). */
#ifndef EVALUATE_TASKS_NEEDLES_H
#define EVALUATE_TASKS_NEEDLES_H

#include "evaluate/task_haystack.h"

typedef struct needle_options {
  int haystack, key_kind, value_kind;
  int64_t keys, values, queries; /* keys in all; values of each key; keys asked for */
} needle_options;

extern const char *const needle_kind_names[]; /* "words", "numbers", "uuids" */

/* The fields that all of them have. */
#define NEEDLE_FIELDS                                                                                             \
  {.name = "haystack",                                                                                            \
   .kind = FIELD_CHOICE,                                                                                          \
   .offset = offsetof(needle_options, haystack),                                                                  \
   .choices = haystack_names,                                                                                     \
   .help = "the user's text, five sentences again and again, or nothing but needles"},                            \
      {.name = "key_kind",                                                                                        \
       .kind = FIELD_CHOICE,                                                                                      \
       .offset = offsetof(needle_options, key_kind),                                                              \
       .choices = needle_kind_names,                                                                              \
       .help = "what the keys are"},                                                                              \
  {                                                                                                               \
    .name = "value_kind", .kind = FIELD_CHOICE, .offset = offsetof(needle_options, value_kind), .initial = 1,     \
    .choices = needle_kind_names, .help = "what the values are"                                                   \
  }
#define NEEDLE_COUNT(member, count, what)                                                                         \
  {                                                                                                               \
    .name = #member, .kind = FIELD_INTEGER, .offset = offsetof(needle_options, member), .minimum = 1,             \
    .maximum = 64, .initial = (count), .help = (what)                                                             \
  }

/* The queried needle lies at the request's depth; where several are asked for, all of them anywhere. */
status needles_make(const needle_options *options, const task_request *request, task_prompts *prompts,
                    alibi_error *error);
bool needles_need_text(const void *options);

#endif
