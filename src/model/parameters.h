/* model/parameters.h - the one list of parameters: name, shape, initialisation, weight decay or not.  Allocation,
 * initialisation, optimiser, saving and opening all iterate it. */
#ifndef MODEL_PARAMETERS_H
#define MODEL_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/config.h"

typedef enum parameter_initial {
  INITIAL_NORMAL,    /* deviation of the configuration */
  INITIAL_RESIDUAL,  /* the same / sqrt(2 L): what adds to the residual stream (Radford et al. 2019) */
  INITIAL_EMBEDDING, /* its own deviation: with 1 / sqrt(C), as in fairseq, a word scaled by sqrt(C) is as large as
                        its sinusoid */
  INITIAL_ONE,
  INITIAL_ZERO,
  INITIAL_POSITION, /* the position method says */
  INITIAL_SCORE_SCALE
} parameter_initial;

typedef struct parameter {
  char name[96];
  size_t rows, columns; /* a vector has columns 1 and is written with one dimension */
  bool vector, decay;
  parameter_initial initial;
  size_t offset; /* in floats, a multiple of 16; the padding between parameters stays 0 */
  bool placeable; /* a weight of a linear layer or an embedding: one that may lie elsewhere (model_place), */
  size_t slot;    /* and its place among those: below weight_slots */
} parameter;

/* Of block l: WEIGHTS_A_BLOCK * l + QKV and so on; after those of all L blocks the embedding and the output weight
 * (of which a tied model has none). */
enum { WEIGHT_QKV, WEIGHT_ATTENTION_OUTPUT, WEIGHT_INPUT, WEIGHT_OUTPUT, WEIGHTS_A_BLOCK };
enum { WEIGHT_EMBEDDING, WEIGHT_HEAD, WEIGHTS_BESIDE_BLOCKS };

static inline size_t weight_slots(const alibi_model_config *config)
{
  return (size_t)config->layers * WEIGHTS_A_BLOCK + WEIGHTS_BESIDE_BLOCKS;
}

typedef struct parameter_list {
  parameter *items;
  size_t count, capacity;
  size_t floats; /* of the block that holds them all */
  size_t blocks_from, blocks_to; /* in floats; all blocks are as large */
  bool placed;                   /* what is placeable has no floats there */
} parameter_list;

status parameter_list_new(const alibi_model_config *config, parameter_list *list, alibi_error *error);
/* Of a model whose weights lie elsewhere. */
status parameter_list_new_placed(const alibi_model_config *config, parameter_list *list, alibi_error *error);
void parameter_list_free(parameter_list *list);
const parameter *parameter_find(const parameter_list *list, const char *name);
size_t parameter_elements(const parameter *p);

/* Writes initial values; a value is a pure function of (seed, parameter, element). */
void parameter_list_initialise(const parameter_list *list, const alibi_model_config *config, uint64_t seed,
                               float *values);

/* Pointers into a block of values or of gradients; NULL where the configuration has no such parameter, or it lies
 * elsewhere. */
typedef struct block_parameters {
  float *attention_norm_gain, *attention_norm_shift, *qkv_weight, *qkv_bias, *query_norm_gain, *query_norm_shift,
      *key_norm_gain, *key_norm_shift, *output_weight, *output_bias, *output_norm_gain, *output_norm_shift,
      *feed_forward_norm_gain, *feed_forward_norm_shift, *input_weight, *input_bias, *feed_forward_output_weight,
      *feed_forward_output_bias;
} block_parameters;

typedef struct model_parameters {
  float *block;                                      /* that all point into */
  float *embedding;                                  /* [V, C] */
  float *embedding_shift;                            /* [C] */
  float *embedding_norm_gain, *embedding_norm_shift; /* [C] */
  float *position[POSITION_MAX_PARAMETERS];
  float *score_scale;                        /* [L, H] */
  block_parameters *blocks;                  /* [L], owned */
  float *final_norm_gain, *final_norm_shift; /* [C] */
  float *output_weight;                      /* [V, C]; the embedding where tied */
} model_parameters;

status model_parameters_new(const parameter_list *list, const alibi_model_config *config, float *block,
                            model_parameters *pointers, alibi_error *error);
void model_parameters_free(model_parameters *pointers);

#endif
