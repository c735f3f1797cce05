/* study/answer.h - the sentences of a study, made from its numbers. */
#ifndef STUDY_ANSWER_H
#define STUDY_ANSWER_H

#include "study/study_plan.h"

/* Fills question, answer, rival_answer, next_command of the results, whose methods are there. */
status study_answer(const study_plan *plan, study_results *results, alibi_error *error);

#endif
