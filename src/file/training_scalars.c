/* Names of scalars.  What stands before the '/' is a group of pictures in the viewer. */
#include "file/training_scalars.h"

#include <inttypes.h>

enum { MOST = 64, TAG_SIZE = 48 };

status training_scalars_step(event_file *file, const training_step *step, double time, alibi_error *error)
{
  const event_scalar list[] = {{"training/loss", step->loss},
                               {"training/gradient_norm", step->gradient_norm},
                               {"training/learning_rate", step->learning_rate},
                               {"speed/tokens_per_second", step->tokens_per_second},
                               {"speed/share_of_peak", step->share_of_peak}};
  return event_file_add(file, step->step, time, list, sizeof list / sizeof list[0], error);
}

status training_scalars_evaluations(event_file *file, const training_evaluation *list, size_t count, double time,
                                    alibi_error *error)
{
  char tags[MOST][TAG_SIZE];
  event_scalar scalars[MOST];
  if (count == 0) return ALIBI_OK;
  if (count > MOST)
    return fail(error, ALIBI_INVALID, "evaluations of a step: expected at most %d, found %zu", MOST, count);
  for (size_t i = 0; i < count; i++) {
    snprintf(tags[i], sizeof tags[i], "evaluation/%" PRId64, list[i].length);
    scalars[i] = (event_scalar){tags[i], list[i].loss};
  }
  return event_file_add(file, list[0].step, time, scalars, count, error);
}
