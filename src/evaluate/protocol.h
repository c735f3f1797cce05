/* evaluate/protocol.h - what a caller asks for, made into a plan. */
#ifndef EVALUATE_PROTOCOL_H
#define EVALUATE_PROTOCOL_H

#include "alibi/evaluate.h"
#include "evaluate/plan.h"

/* The given options (base/settings.h) into own, with every number in its range. */
status protocol_options(const alibi_evaluate_options *given, alibi_evaluate_options *own, alibi_error *error);

/* Sets the options that are 0 to what they stand for and makes the plan, of the documents that have two tokens, in
 * fixed-target room for the longest window of the sweep.  ALIBI_INVALID where none has, or options do
 * not go together. */
status protocol_plan(alibi_evaluate_options *o, const plan_text *documents, size_t count, plan *p,
                     alibi_error *error);

/* Tokens that a document must have to be read, by options that protocol_plan has filled in. */
size_t protocol_tokens_needed(const alibi_evaluate_options *o);

#endif
