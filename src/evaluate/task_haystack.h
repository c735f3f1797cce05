/* evaluate/task_haystack.h - what the tasks in words share: a head, a long text with pieces put into it at given
 * depths, a question and its answers, so that the prompt has exactly as many tokens as were asked for. */
#ifndef EVALUATE_TASK_HAYSTACK_H
#define EVALUATE_TASK_HAYSTACK_H

#include "evaluate/task.h"

typedef enum haystack_kind {
  HAYSTACK_TEXT = 0, /* the user's, from a random place on */
  HAYSTACK_NOISE,    /* the same five sentences again and again (Mohtashami and Jaggi 2023) */
  HAYSTACK_OTHERS    /* sentences like those that are put in */
} haystack_kind;

extern const char *const haystack_names[]; /* "text", "noise", "others" */

enum { PIECE_SIZE = 192, HEAD_SIZE = 512, QUESTION_SIZE = 6144, ANSWER_SIZE = 80 };

/* Texts begin with the blank that parts them from what is before. */
typedef struct haystack_piece {
  double depth; /* 0: before the haystack, 1: after it; moved back to the end of a sentence */
  char text[PIECE_SIZE];
} haystack_piece;

typedef struct haystack_answer {
  char before[8], text[ANSWER_SIZE]; /* given, and scored */
  double depth;                      /* of what it asks for */
} haystack_answer;

typedef struct haystack {
  haystack_kind kind;
  char head[HEAD_SIZE], question[QUESTION_SIZE];
  haystack_piece *pieces; /* [piece_count], of one depth in their order */
  size_t piece_count;
  haystack_answer *answers; /* [answer_count] */
  size_t answer_count;
  void (*other)(const void *user, task_random *random, char text[PIECE_SIZE]); /* HAYSTACK_OTHERS: one sentence */
  const void *user;
} haystack;

/* Room for so many pieces and answers. */
status haystack_new(size_t pieces, size_t answers, haystack *h, alibi_error *error);
void haystack_free(haystack *h);

/* Random ones in their order. */
void haystack_draw_depths(task_random *random, double *depths, size_t count);

/* The whole prompt. */
status haystack_write(const haystack *h, const task_request *request, task_random *random, task_prompts *prompts,
                      alibi_error *error);

/* Or in two steps, for who makes what lies between head and question: `room` tokens are left for it; what it
 * leaves of them is filled with noise before it. */
typedef struct haystack_ids {
  id_list ids;  /* of head, pieces, question, and for each answer what is given and what is scored */
  size_t *ends; /* [parts] where each ends */
  size_t parts, room;
} haystack_ids;

status haystack_encode(const haystack *h, const task_request *request, haystack_ids *encoded, alibi_error *error);
status haystack_put(const haystack *h, const haystack_ids *encoded, const task_request *request,
                    const id_list *middle, task_prompts *prompts, alibi_error *error);
void haystack_ids_free(haystack_ids *encoded);

#endif
