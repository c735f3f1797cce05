/* model/carry.h - keys and values that a run of a pass leaves to the next one, which sees only the last of them,
 * to the token: what streaming evaluation carries on.  (A cache of op/block_cache.h keeps all, or drops what a
 * proof allows, in whole blocks.)  Position after position in one piece of memory of a bounded size. */
#ifndef MODEL_CARRY_H
#define MODEL_CARRY_H

#include <stddef.h>

#include "base/error.h"
#include "op/attend.h"

struct model_pass;
typedef struct pass_carry pass_carry;

/* For runs of this pass: the last shape.carried tokens stay. */
status model_carry_new(const struct model_pass *pass, pass_carry **carry, alibi_error *error);
void model_carry_free(pass_carry *carry);

/* What follows is for the pass.  A run of `count` tokens is entered, layer by layer stored, and left: then it is
 * there.  One that is not left is as if it had not been. */
void carry_enter(pass_carry *carry, size_t seen, size_t count, bool anew);
/* keys and values [count, G D], offsets [count, H] or NULL, of one layer. */
void carry_store(pass_carry *carry, size_t layer, size_t count, const float *keys, const float *values,
                 size_t stride, const double *offsets);
void carry_leave(pass_carry *carry, size_t count);

/* The row of the first of so many tokens before the run that was entered. */
size_t carry_row(const pass_carry *carry, size_t seen);
op_heads carry_keys(const pass_carry *carry, size_t layer);
op_heads carry_values(const pass_carry *carry, size_t layer);
const double *carry_offsets(const pass_carry *carry, size_t layer); /* [rows, H]; NULL: none */
/* Those of the token before the run [H]; NULL: there is none. */
const double *carry_last_offsets(const pass_carry *carry, size_t layer);

#endif
