/* position/slopes.h - ALiBi's slopes for the methods that use them: one slope at a time, the settings that choose
 * them, lists of slopes that a caller gives as text, and what methods share that have a slope for each head. */
#ifndef POSITION_SLOPES_H
#define POSITION_SLOPES_H

#include "alibi/attention.h"
#include "position/position.h"

/* Arguments as alibi_slopes checks them; head: 0 .. heads-1. */
double slope_of_head(int head, int heads, double max_bias, alibi_slope_rule rule);

/* The settings of a method whose slopes are ALiBi's, or begin there. */
typedef struct slope_settings {
  int rule; /* alibi_slope_rule */
  double max_bias;
} slope_settings;

extern const char *const slope_rule_names[]; /* in the order of alibi_slope_rule */

/* Their rows for the table of fields of `type`, which has them as `member`. */
#define SLOPE_FIELDS(type, member)                                                                                \
  {.name = "slope_rule",                                                                                          \
   .kind = FIELD_CHOICE,                                                                                          \
   .offset = offsetof(type, member) + offsetof(slope_settings, rule),                                             \
   .initial = ALIBI_SLOPES_INTERLEAVED,                                                                           \
   .choices = slope_rule_names,                                                                                   \
   .help = "slopes of a number of heads that is no power of two"},                                                \
  {                                                                                                               \
    .name = "max_bias", .kind = FIELD_REAL,                                                                       \
    .offset = offsetof(type, member) + offsetof(slope_settings, max_bias), .minimum = 0.01, .maximum = 100,       \
    .initial = 8, .help = "exponent of the gentlest slope, 2^-max_bias"                                           \
  }

static inline double slope_by_settings(const slope_settings *s, size_t head, size_t heads)
{
  return slope_of_head((int)head, (int)heads, s->max_bias, (alibi_slope_rule)s->rule);
}

/* The same from the authors' definition, for the formulas that tables are held against. */
double slope_by_definition(const slope_settings *s, size_t head, size_t heads);

/* At most ALIBI_MAX_HEADS? */
status slope_check_heads(const char *method, const position_shape *shape, alibi_error *error);

/* "0.5, 0.25, 0.125": the slopes of all heads, at least 0, at most 1e6, and one of them above 0. */
status slope_check_list(const char *method, const char *list, size_t heads, alibi_error *error);
/* The slope of one head from a list that was checked. */
double slope_from_list(const char *list, size_t head);

/* ---- parts of a position_method with a slope for each set and head; trained: as without an extension ---- */

double slope_extended(const position_request *request, position_slope *trained, size_t set, size_t head);
/* The layout where the layers share the slopes, and where each has its own. */
void slope_layout(const position_request *request, position_plan *plan, arena *a);
void slope_layout_by_layer(const position_request *request, position_plan *plan, arena *a);
void slope_fill(const position_request *request, position_slope *trained, position_plan *plan);
/* The formula: of a bias, given that of the slopes. */
double slope_bias(const position_request *request, position_slope *formula, size_t layer, size_t head, size_t i,
                  size_t j);

#endif
