/* study/schedule.h - how long the entries of a study take, in which order they start, and how many steps fit into
 * the minutes. */
#ifndef STUDY_SCHEDULE_H
#define STUDY_SCHEDULE_H

#include "alibi/evaluate.h"
#include "study/study_plan.h"

/* What one cell of the study runs; length and extension as given. */
alibi_evaluate_options schedule_cell(const study_plan *plan, int protocol, int64_t length, const char *extend);

/* Does the extension change this entry at this length? */
bool schedule_extends(const study_entry *entry, const char *extend, int64_t length);

/* Which entry to start next: the one that takes longest of those not started, so that the last ones end together;
 * entry_count where all are. */
size_t schedule_next(const study_plan *plan, const bool *started);

/* With --minutes: the largest number of steps with which all entries, side by side, end within `seconds` from now.
 * ALIBI_INVALID where hardly any would. */
status schedule_fix_steps(study_plan *plan, double seconds, alibi_error *error);

#endif
