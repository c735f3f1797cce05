/* report/training_chart.h - the logs of one or several trainings side by side: a table, a picture of four panels,
 * the same in characters, JSON and CSV.  docs/watching.md is the user's page. */
#ifndef REPORT_TRAINING_CHART_H
#define REPORT_TRAINING_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "file/json.h"
#include "file/training_log.h"

/* What lies on the x axis; the names end with NULL. */
typedef enum training_axis { AGAINST_STEPS, AGAINST_TOKENS, AGAINST_SECONDS } training_axis;
extern const char *const training_axis_names[];

/* The panels, in the order in which they are drawn. */
typedef enum training_panel { PANEL_LOSS, PANEL_RATE, PANEL_NORM, PANEL_SPEED, TRAINING_PANELS } training_panel;

typedef struct panel_meaning {
  const char *title;
  size_t offset;  /* of the double in a training_step */
  bool smoothed;  /* or shown as it is */
  bool log_y;     /* where all is above 0 */
  bool from_zero; /* the axis begins there */
} panel_meaning;
extern const panel_meaning training_panels[TRAINING_PANELS];

/* Steps, evaluations and events are those of `log`; arrays have its step_count. */
typedef struct logged_run {
  const char *path; /* as given */
  char *name;       /* what tells it from the others: the last part of the path where that does */
  training_log log;
  double *place;                   /* on the x axis */
  double *elapsed;                 /* seconds of training, with this step */
  double *smooth[TRAINING_PANELS]; /* the mean around each step; NaN where the step has no number */
  double final_loss;               /* mean over the last twentieth of the steps; NaN where it ended in none */
  const training_evaluation *best; /* of the lowest loss; NULL without evaluations */
  double tokens_per_second;        /* median */
} logged_run;

typedef struct training_chart {
  logged_run *runs;
  size_t count;
  training_axis axis;
  int64_t smooth; /* steps of a mean, odd */
} training_chart;

/* Reads the logs: a path is a run's directory (with log.jsonl) or a log.  The paths are borrowed.  smooth: steps
 * of the mean around each, an even number counting as the next odd one; 0: a fiftieth of the longest run. */
status training_chart_read(const char *const *paths, size_t count, training_axis axis, int64_t smooth,
                           training_chart *trainings, alibi_error *error);
void training_chart_free(training_chart *trainings);

double training_value(const training_step *step, training_panel panel);
/* Where a step that need not be in the log lies on the x axis: at the last logged one up to it. */
double training_place(const logged_run *run, int64_t step);
bool training_event_warns(
    const training_event *event); /* it says that something was wrong: a spike, a loss that is no number */

/* What to show of a panel: the range of the smoothed lines and evaluations, opened a little; false: nothing is
 * there, and the range is 0 to 1.  The first twentieth of a run is left out, where that is a step: losses begin so
 * high that all the rest would be flat.  *log_y: whether the axis is to be logarithmic. */
bool training_range(const training_chart *trainings, training_panel panel, double *low, double *high, bool *log_y);
/* Of the x axis: from 0 or the first place to the last. */
void training_extent(const training_chart *trainings, double *first, double *last);

/* One row a run.  malloc'd, NULL when memory is out; so are the texts below. */
char *training_table(const training_chart *trainings);
/* The panels in characters, for a terminal of that many columns. */
char *training_plot(const training_chart *trainings, int columns, bool utf8);
char *training_csv(const training_chart *trainings);
json_node *training_node(const training_chart *trainings);

/* Draws the picture, path ending in .png, from a script and data beside it, .gp and .dat.  Without gnuplot:
 * ALIBI_OK, *drawn false; the script and the data are there. */
status training_picture(const training_chart *trainings, const char *path, bool *drawn, alibi_error *error);

#endif
