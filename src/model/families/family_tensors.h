/* model/families/family_tensors.h - from the rules of a family to the tensors of a file; within families/ only. */
#ifndef MODEL_FAMILIES_FAMILY_TENSORS_H
#define MODEL_FAMILIES_FAMILY_TENSORS_H

#include "model/families/family.h"

enum { FAMILY_NAME_SIZE = 256, FAMILY_BLOCK_SIZE = 16 };

/* Is a rule's `ours` for the parameter of that name?  block: the number that '*' stands for.  *last: our last
 * word, where the rule leaves it open, else NULL. */
bool family_rule_is_for(const char *ours, const char *name, char block[FAMILY_BLOCK_SIZE], const char **last);

/* A rule's name as the file has it: prefix, number of the block, last word.  last: of our name, "gain", or NULL
 * where theirs is whole. */
void family_tensor_name(const family_opening *o, const char *theirs, const char *block, const char *last,
                        char full[FAMILY_NAME_SIZE]);

/* All of a small tensor as fp32; false where its type is not F32, F16 or BF16. */
bool family_widen_small(const file_tensor *t, float *out);

#endif
