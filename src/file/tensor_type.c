/* The table of types.  The one idea: whatever a reader or a writer must know of a type is a column here, so that a
 * new type is a row and a name in the header. */
#include "file/tensor_type.h"

#include <string.h>

#include "base/memory.h"

typedef struct type_row {
  const char *name;
  unsigned short elements, bytes; /* of a block */
  short ggml;                     /* -1: not known there */
  bool safetensors;
  bool rows; /* blocks are of one row */
} type_row;

static const type_row rows[TENSOR_TYPES] = {
    [TENSOR_F32] = {"F32", 1, 4, 0, true, false},
    [TENSOR_F16] = {"F16", 1, 2, 1, true, false},
    [TENSOR_BF16] = {"BF16", 1, 2, 30, true, false},
    [TENSOR_F64] = {"F64", 1, 8, 28, true, false},
    [TENSOR_C64] = {"C64", 1, 8, -1, true, false},
    [TENSOR_I64] = {"I64", 1, 8, 27, true, false},
    [TENSOR_U64] = {"U64", 1, 8, -1, true, false},
    [TENSOR_I32] = {"I32", 1, 4, 26, true, false},
    [TENSOR_U32] = {"U32", 1, 4, -1, true, false},
    [TENSOR_I16] = {"I16", 1, 2, 25, true, false},
    [TENSOR_U16] = {"U16", 1, 2, -1, true, false},
    [TENSOR_I8] = {"I8", 1, 1, 24, true, false},
    [TENSOR_U8] = {"U8", 1, 1, -1, true, false},
    [TENSOR_BOOL] = {"BOOL", 1, 1, -1, true, false},
    [TENSOR_F8_E4M3] = {"F8_E4M3", 1, 1, -1, true, false},
    [TENSOR_F8_E5M2] = {"F8_E5M2", 1, 1, -1, true, false},
    [TENSOR_F8_E8M0] = {"F8_E8M0", 1, 1, -1, true, false},
    [TENSOR_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 1, 1, -1, true, false},
    [TENSOR_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 1, 1, -1, true, false},
    [TENSOR_F6_E2M3] = {"F6_E2M3", 4, 3, -1, true, false},
    [TENSOR_F6_E3M2] = {"F6_E3M2", 4, 3, -1, true, false},
    [TENSOR_F4] = {"F4", 2, 1, -1, true, false},
    [TENSOR_Q4_0] = {"Q4_0", 32, 18, 2, false, true},
    [TENSOR_Q4_1] = {"Q4_1", 32, 20, 3, false, true},
    [TENSOR_Q5_0] = {"Q5_0", 32, 22, 6, false, true},
    [TENSOR_Q5_1] = {"Q5_1", 32, 24, 7, false, true},
    [TENSOR_Q8_0] = {"Q8_0", 32, 34, 8, false, true},
    [TENSOR_Q8_1] = {"Q8_1", 32, 40, 9, false, true},
    [TENSOR_Q2_K] = {"Q2_K", 256, 84, 10, false, true},
    [TENSOR_Q3_K] = {"Q3_K", 256, 110, 11, false, true},
    [TENSOR_Q4_K] = {"Q4_K", 256, 144, 12, false, true},
    [TENSOR_Q5_K] = {"Q5_K", 256, 176, 13, false, true},
    [TENSOR_Q6_K] = {"Q6_K", 256, 210, 14, false, true},
    [TENSOR_Q8_K] = {"Q8_K", 256, 292, 15, false, true},
    [TENSOR_IQ2_XXS] = {"IQ2_XXS", 256, 66, 16, false, true},
    [TENSOR_IQ2_XS] = {"IQ2_XS", 256, 74, 17, false, true},
    [TENSOR_IQ3_XXS] = {"IQ3_XXS", 256, 98, 18, false, true},
    [TENSOR_IQ1_S] = {"IQ1_S", 256, 50, 19, false, true},
    [TENSOR_IQ4_NL] = {"IQ4_NL", 32, 18, 20, false, true},
    [TENSOR_IQ3_S] = {"IQ3_S", 256, 110, 21, false, true},
    [TENSOR_IQ2_S] = {"IQ2_S", 256, 82, 22, false, true},
    [TENSOR_IQ4_XS] = {"IQ4_XS", 256, 136, 23, false, true},
    [TENSOR_IQ1_M] = {"IQ1_M", 256, 56, 29, false, true},
    [TENSOR_TQ1_0] = {"TQ1_0", 256, 54, 34, false, true},
    [TENSOR_TQ2_0] = {"TQ2_0", 256, 66, 35, false, true},
    [TENSOR_MXFP4] = {"MXFP4", 32, 17, 39, false, true},
    [TENSOR_NVFP4] = {"NVFP4", 64, 36, 40, false, true},
    [TENSOR_Q1_0] = {"Q1_0", 128, 18, 41, false, true},
};

static const tensor_type weights[WEIGHT_TYPES] = {
    [WEIGHT_F32] = TENSOR_F32,   [WEIGHT_F16] = TENSOR_F16,   [WEIGHT_BF16] = TENSOR_BF16,
    [WEIGHT_Q8_0] = TENSOR_Q8_0, [WEIGHT_Q4_0] = TENSOR_Q4_0, [WEIGHT_Q4_1] = TENSOR_Q4_1,
    [WEIGHT_Q5_0] = TENSOR_Q5_0, [WEIGHT_Q5_1] = TENSOR_Q5_1, [WEIGHT_Q4_K] = TENSOR_Q4_K,
    [WEIGHT_Q5_K] = TENSOR_Q5_K, [WEIGHT_Q6_K] = TENSOR_Q6_K,
};

const char *tensor_type_name(tensor_type type)
{
  return rows[type].name;
}

bool tensor_type_find(const char *name, tensor_type *type)
{
  for (size_t i = 0; name && i < TENSOR_TYPES; i++) {
    if (strcmp(rows[i].name, name) != 0) continue;
    *type = (tensor_type)i;
    return true;
  }
  return false;
}

size_t tensor_type_elements(tensor_type type)
{
  return rows[type].elements;
}

size_t tensor_type_bytes(tensor_type type)
{
  return rows[type].bytes;
}

int tensor_type_ggml(tensor_type type)
{
  return rows[type].ggml;
}

bool tensor_type_from_ggml(uint32_t number, tensor_type *type)
{
  for (size_t i = 0; number <= INT16_MAX && i < TENSOR_TYPES; i++) {
    if (rows[i].ggml != (int)number) continue;
    *type = (tensor_type)i;
    return true;
  }
  return false;
}

bool tensor_type_weight(tensor_type type, weight_type *weight)
{
  for (size_t i = 0; i < WEIGHT_TYPES; i++) {
    if (weights[i] != type) continue;
    *weight = (weight_type)i;
    return true;
  }
  return false;
}

tensor_type tensor_type_of_weight(weight_type weight)
{
  return weights[weight];
}

bool tensor_type_in_safetensors(tensor_type type)
{
  return rows[type].safetensors;
}

bool tensor_type_size(tensor_type type, int dimensions, const size_t *shape, size_t *bytes)
{
  const type_row *row = &rows[type];
  size_t product = 1;
  bool empty = false;
  for (int i = 0; i < dimensions; i++) {
    product = size_mul(product, shape[i]);
    empty = empty || shape[i] == 0; /* also where the other dimensions would overflow */
  }
  size_t whole = row->rows ? dimensions > 0 ? shape[dimensions - 1] : 1 : product;
  *bytes = 0;
  if (empty) return true;
  if (product == SIZE_MAX || whole % row->elements != 0) return false;
  *bytes = size_mul(product / row->elements, row->bytes);
  return *bytes <= PTRDIFF_MAX;
}
