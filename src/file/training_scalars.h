/* file/training_scalars.h - the lines of a training's log (file/training_log.h) as scalars of a file of events:
 * the one place that names them, whether they are written while the training runs or out of its log. */
#ifndef FILE_TRAINING_SCALARS_H
#define FILE_TRAINING_SCALARS_H

#include "file/event_file.h"
#include "file/training_log.h"

/* "training/loss" and the others.  time, and what a failure means: as in event_file_add. */
status training_scalars_step(event_file *file, const training_step *step, double time, alibi_error *error);

/* "evaluation/LENGTH", the loss, of evaluations after one step; at most 64. */
status training_scalars_evaluations(event_file *file, const training_evaluation *list, size_t count, double time,
                                    alibi_error *error);

#endif
