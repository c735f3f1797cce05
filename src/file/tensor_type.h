/* file/tensor_type.h - the types of numbers that tensors in files have: all that safetensors and ggml name.  A
 * type is a block of `elements` in `bytes`: one element for plain numbers, 32 to 256 for the quantised ones, whose
 * rows are whole blocks.  Files store the names (safetensors) or the numbers (GGUF), never the order of this list.
 */
#ifndef FILE_TENSOR_TYPE_H
#define FILE_TENSOR_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/weight_type.h"

typedef enum tensor_type {
  TENSOR_F32,
  TENSOR_F16,
  TENSOR_BF16,
  TENSOR_F64,
  TENSOR_C64,
  TENSOR_I64,
  TENSOR_U64,
  TENSOR_I32,
  TENSOR_U32,
  TENSOR_I16,
  TENSOR_U16,
  TENSOR_I8,
  TENSOR_U8,
  TENSOR_BOOL,
  TENSOR_F8_E4M3,
  TENSOR_F8_E5M2,
  TENSOR_F8_E8M0,
  TENSOR_F8_E4M3FNUZ,
  TENSOR_F8_E5M2FNUZ,
  TENSOR_F6_E2M3,
  TENSOR_F6_E3M2,
  TENSOR_F4,
  TENSOR_Q4_0,
  TENSOR_Q4_1,
  TENSOR_Q5_0,
  TENSOR_Q5_1,
  TENSOR_Q8_0,
  TENSOR_Q8_1,
  TENSOR_Q2_K,
  TENSOR_Q3_K,
  TENSOR_Q4_K,
  TENSOR_Q5_K,
  TENSOR_Q6_K,
  TENSOR_Q8_K,
  TENSOR_IQ2_XXS,
  TENSOR_IQ2_XS,
  TENSOR_IQ3_XXS,
  TENSOR_IQ1_S,
  TENSOR_IQ4_NL,
  TENSOR_IQ3_S,
  TENSOR_IQ2_S,
  TENSOR_IQ4_XS,
  TENSOR_IQ1_M,
  TENSOR_TQ1_0,
  TENSOR_TQ2_0,
  TENSOR_MXFP4,
  TENSOR_NVFP4,
  TENSOR_Q1_0,
  TENSOR_TYPES
} tensor_type;

const char *tensor_type_name(tensor_type type);             /* "F32", "Q4_K": safetensors' name, else ggml's */
bool tensor_type_find(const char *name, tensor_type *type); /* by that name; NULL is none */
size_t tensor_type_elements(tensor_type type);              /* of a block; 1 for plain numbers */
size_t tensor_type_bytes(tensor_type type);                 /* of a block */

/* The number by which GGUF knows it; -1 for types that ggml has not. */
int tensor_type_ggml(tensor_type type);
bool tensor_type_from_ggml(uint32_t number, tensor_type *type);
/* The type as the kernels know it; false for those that they do not compute with. */
bool tensor_type_weight(tensor_type type, weight_type *weight);
tensor_type tensor_type_of_weight(weight_type weight);
/* Has safetensors a name for it? */
bool tensor_type_in_safetensors(tensor_type type);

/* Bytes of a tensor of this shape (outermost first); no dimensions: one element.  false where that does not fit a
 * size, where a row is no whole number of blocks (quantised types), or all of it no whole number of bytes (F4,
 * F6). A dimension of 0 makes it 0 bytes, whatever the others are. */
bool tensor_type_size(tensor_type type, int dimensions, const size_t *shape, size_t *bytes);

#endif
