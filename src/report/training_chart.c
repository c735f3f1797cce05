/* Logs made ready to be shown: names that tell the runs apart, places on the x axis, means around each step, and
 * the few figures of the table.  Everything that is drawn or written is taken from here, so picture, characters
 * and numbers cannot disagree. */
#include "report/training_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/system.h"
#include "report/path_names.h"

const char *const training_axis_names[] = {"steps", "tokens", "seconds", NULL};

const panel_meaning training_panels[TRAINING_PANELS] = {
    [PANEL_LOSS] = {"loss", offsetof(training_step, loss), true, false, false},
    [PANEL_RATE] = {"learning rate", offsetof(training_step, learning_rate), false, false, true},
    [PANEL_NORM] = {"gradient norm", offsetof(training_step, gradient_norm), true, true, false},
    [PANEL_SPEED] = {"tokens/s", offsetof(training_step, tokens_per_second), true, false, true},
};

double training_value(const training_step *step, training_panel panel)
{
  return *(const double *)((const char *)step + training_panels[panel].offset);
}

double training_place(const logged_run *run, int64_t step)
{
  size_t low = 0, high = run->log.step_count; /* steps before `low` are not after `step` */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (run->log.steps[middle].step <= step) low = middle + 1;
    else high = middle;
  }
  return low > 0 ? run->place[low - 1] : 0;
}

bool training_event_warns(const training_event *event)
{
  static const char *const usual[] = {TRAINING_RESUMED, "sample", "early_stop"};
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
    if (strcmp(event->name, usual[i]) == 0) return false;
  return true; /* also what is not known */
}

/* ---- names ---- */

static status name_runs(training_chart *trainings, alibi_error *error)
{
  status result = ALIBI_OK;
  const char **paths = calloc(trainings->count + 1, sizeof *paths);
  if (!paths) RAISE(error, ALIBI_FAILED, "not enough memory for the names of the runs");
  for (size_t i = 0; i < trainings->count; i++) paths[i] = trainings->runs[i].path;
  for (size_t i = 0; i < trainings->count; i++) {
    trainings->runs[i].name = path_name(paths, trainings->count, i, "/log.jsonl");
    if (!trainings->runs[i].name) RAISE(error, ALIBI_FAILED, "not enough memory for the name of a run");
  }
done:
  free(paths);
  return result;
}

/* ---- lines ---- */

/* The mean over `smooth` steps around each.  Near the start, where curves are steep, over as many as fit on both
 * sides, so that the mean stays where its steps are; near the end over what is there, so that the last mean is no
 * single step.  Sums from the start make it one pass. */
static status make_smooth(const training_log *log, training_panel panel, int64_t smooth, double *mean,
                          alibi_error *error)
{
  size_t count = log->step_count, half = training_panels[panel].smoothed ? (size_t)smooth / 2 : 0;
  double *sum = NULL, *known = NULL;
  status result = memory_new(&sum, count + 1, sizeof *sum, "the means of a curve", error);
  if (result == ALIBI_OK) result = memory_new(&known, count + 1, sizeof *known, "the means of a curve", error);
  for (size_t i = 0; i < count && result == ALIBI_OK; i++) {
    double value = training_value(&log->steps[i], panel);
    sum[i + 1] = sum[i] + (isfinite(value) ? value : 0);
    known[i + 1] = known[i] + isfinite(value);
  }
  for (size_t i = 0; i < count && result == ALIBI_OK; i++) {
    size_t before = half < i ? half : i, after = before < count - 1 - i ? before : count - 1 - i;
    double value = training_value(&log->steps[i], panel);
    double all = sum[i + after + 1] - sum[i - before], steps = known[i + after + 1] - known[i - before];
    mean[i] = !isfinite(value) ? NAN : before + after == 0 ? value : all / steps;
  }
  memory_free(sum);
  memory_free(known);
  return result;
}

static status make_places(logged_run *run, training_axis axis, alibi_error *error)
{
  const training_log *log = &run->log;
  double elapsed = 0;
  for (size_t i = 0; i < log->step_count; i++) {
    const training_step *step = &log->steps[i];
    if (step->seconds > 0) elapsed += step->seconds;
    run->elapsed[i] = elapsed;
    run->place[i] = axis == AGAINST_STEPS    ? (double)step->step
                    : axis == AGAINST_TOKENS ? (double)step->tokens_done
                                             : elapsed;
  }
  if (run->place[log->step_count - 1] > 0) return ALIBI_OK;
  return fail(error, ALIBI_BAD_INPUT, "%s: its log knows no %s: expected another --against than %s", run->path,
              axis == AGAINST_STEPS    ? "step but 0"
              : axis == AGAINST_TOKENS ? "tokens_done"
                                       : "seconds",
              training_axis_names[axis]);
}

/* ---- figures ---- */

static int compare_numbers(const void *a, const void *b)
{
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static status summarise(logged_run *run, alibi_error *error)
{
  const training_log *log = &run->log;
  size_t last = (log->step_count + 19) / 20, known = 0;
  double *speeds = NULL, sum = 0;
  status result = memory_new(&speeds, log->step_count, sizeof *speeds, "the speeds of a run", error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < log->step_count; i++)
    if (log->steps[i].tokens_per_second > 0) speeds[known++] = log->steps[i].tokens_per_second;
  qsort(speeds, known, sizeof *speeds, compare_numbers);
  run->tokens_per_second = known ? (speeds[(known - 1) / 2] + speeds[known / 2]) / 2 : NAN;
  memory_free(speeds);
  known = 0;
  for (size_t i = log->step_count - last; i < log->step_count; i++) {
    if (!isfinite(log->steps[i].loss)) continue;
    sum += log->steps[i].loss;
    known++;
  }
  run->final_loss = known && isfinite(log->steps[log->step_count - 1].loss) ? sum / (double)known : NAN;
  for (size_t i = 0; i < log->evaluation_count; i++)
    if (isfinite(log->evaluations[i].loss) && (!run->best || log->evaluations[i].loss < run->best->loss))
      run->best = &log->evaluations[i];
  return ALIBI_OK;
}

/* ---- reading ---- */

static status read_run(logged_run *run, alibi_error *error)
{
  bool directory = path_is_directory(run->path);
  char *path = directory ? path_join(run->path, "log.jsonl") : strdup(run->path);
  status result;
  if (!path) RAISE(error, ALIBI_FAILED, "not enough memory for a path");
  if (!path_exists(run->path))
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the directory of a run or a log file, found nothing", run->path);
  if (directory && !path_exists(path))
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected the directory of a run, found no log.jsonl in it", run->path);
  TRY(training_log_read(path, &run->log, error));
  if (run->log.step_count == 0) RAISE(error, ALIBI_BAD_INPUT, "%s: expected at least one step, found none", path);
done:
  free(path);
  return result;
}

static status prepare_run(training_chart *trainings, logged_run *run, alibi_error *error)
{
  size_t count = run->log.step_count;
  status result;
  TRY(memory_new(&run->place, count, sizeof *run->place, "the places of steps", error));
  TRY(memory_new(&run->elapsed, count, sizeof *run->elapsed, "the times of steps", error));
  TRY(make_places(run, trainings->axis, error));
  for (training_panel p = 0; p < TRAINING_PANELS; p++) {
    TRY(memory_new(&run->smooth[p], count, sizeof *run->smooth[p], "the means of a curve", error));
    TRY(make_smooth(&run->log, p, trainings->smooth, run->smooth[p], error));
  }
  TRY(summarise(run, error));
done:
  return result;
}

status training_chart_read(const char *const *paths, size_t count, training_axis axis, int64_t smooth,
                           training_chart *trainings, alibi_error *error)
{
  status result;
  size_t longest = 0;
  *trainings = (training_chart){.axis = axis};
  TRY(memory_new(&trainings->runs, count, sizeof *trainings->runs, "the runs", error));
  trainings->count = count;
  for (size_t i = 0; i < count; i++) {
    trainings->runs[i].path = paths[i];
    TRY(read_run(&trainings->runs[i], error));
    if (trainings->runs[i].log.step_count > longest) longest = trainings->runs[i].log.step_count;
  }
  TRY(name_runs(trainings, error));
  trainings->smooth = (smooth > 0 ? smooth : (int64_t)longest / 50) | 1;
  for (size_t i = 0; i < count; i++) TRY(prepare_run(trainings, &trainings->runs[i], error));
done:
  if (result != ALIBI_OK) training_chart_free(trainings);
  return result;
}

void training_chart_free(training_chart *trainings)
{
  for (size_t i = 0; i < trainings->count; i++) {
    logged_run *run = &trainings->runs[i];
    training_log_free(&run->log);
    free(run->name);
    memory_free(run->place);
    memory_free(run->elapsed);
    for (int p = 0; p < TRAINING_PANELS; p++) memory_free(run->smooth[p]);
  }
  memory_free(trainings->runs);
  *trainings = (training_chart){0};
}

/* ---- what is shown ---- */

static void widen(double value, double *low, double *high)
{
  if (!isfinite(value)) return;
  if (value < *low) *low = value;
  if (value > *high) *high = value;
}

bool training_range(const training_chart *trainings, training_panel panel, double *low, double *high, bool *log_y)
{
  const panel_meaning *meaning = &training_panels[panel];
  *low = INFINITY;
  *high = -INFINITY;
  for (size_t i = 0; i < trainings->count; i++) {
    const logged_run *run = &trainings->runs[i];
    for (size_t k = meaning->smoothed ? run->log.step_count / 20 : 0; k < run->log.step_count; k++)
      widen(run->smooth[panel][k], low, high);
    for (size_t k = 0; k < run->log.evaluation_count && panel == PANEL_LOSS; k++)
      widen(run->log.evaluations[k].loss, low, high);
  }
  bool found = *low <= *high;
  *log_y = found && meaning->log_y && *low > 0;
  if (!found) {
    *low = 0;
    *high = 1;
  } else if (*log_y) {
    *low /= 1.3;
    *high *= 1.3;
  } else {
    if (meaning->from_zero && *low > 0) *low = 0;
    double room = 0.06 * (*high - *low);
    if (!(room > 1e-9 * fabs(*high))) room = *high != 0 ? 0.1 * fabs(*high) : 1;
    if (!meaning->from_zero || *low < 0) *low -= room;
    *high += room;
  }
  return found;
}

void training_extent(const training_chart *trainings, double *first, double *last)
{
  *first = 0;
  *last = 0;
  double least = INFINITY;
  for (size_t i = 0; i < trainings->count; i++) {
    const logged_run *run = &trainings->runs[i];
    least = fmin(least, run->place[0]);
    *last = fmax(*last, run->place[run->log.step_count - 1]);
  }
  if (least > 0.3 * *last) *first = least; /* a fine-tuning whose steps begin late */
  if (!(*first < *last)) *first = *last > 1 ? *last - 1 : 0;
}
