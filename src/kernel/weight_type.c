/* Names and sizes of the types of weights. */
#include "kernel/weight_type.h"

static const struct {
  const char *name;
  size_t elements, bytes;
} types[WEIGHT_TYPES] = {
    [WEIGHT_F32] = {"F32", 1, 4},       [WEIGHT_F16] = {"F16", 1, 2},       [WEIGHT_BF16] = {"BF16", 1, 2},
    [WEIGHT_Q8_0] = {"Q8_0", 32, 34},   [WEIGHT_Q4_0] = {"Q4_0", 32, 18},   [WEIGHT_Q4_1] = {"Q4_1", 32, 20},
    [WEIGHT_Q5_0] = {"Q5_0", 32, 22},   [WEIGHT_Q5_1] = {"Q5_1", 32, 24},   [WEIGHT_Q4_K] = {"Q4_K", 256, 144},
    [WEIGHT_Q5_K] = {"Q5_K", 256, 176}, [WEIGHT_Q6_K] = {"Q6_K", 256, 210},
};

const char *weight_type_name(weight_type type)
{
  return types[type].name;
}

size_t weight_block_elements(weight_type type)
{
  return types[type].elements;
}

size_t weight_block_bytes(weight_type type)
{
  return types[type].bytes;
}
