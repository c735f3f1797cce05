/* position/rope_frequencies.h - what the rotary methods share: their settings, the frequencies that an extension
 * may change, and the tables of cosines and sines. */
#ifndef POSITION_ROPE_FREQUENCIES_H
#define POSITION_ROPE_FREQUENCIES_H

#include "position/position.h"

enum { ROPE_PAIRS_MAX = 2048 }; /* of the frequencies kept on the stack */

typedef struct rope_settings {
  double base, fraction;
  int layout; /* 0: half, 1: adjacent */
} rope_settings;

extern const char *const rope_layouts[];

/* Their rows for the table of fields of `type`, which has them as `member`. */
#define ROPE_FIELDS(type, member)                                                                            \
  {.name = "base",                                                                                           \
   .kind = FIELD_REAL,                                                                                       \
   .offset = offsetof(type, member) + offsetof(rope_settings, base),                                         \
   .minimum = 2,                                                                                             \
   .maximum = 1e12,                                                                                          \
   .initial = 10000,                                                                                         \
   .help = "longest wavelength is 2 pi times this"},                                                         \
      {.name = "fraction",                                                                                   \
       .kind = FIELD_REAL,                                                                                   \
       .offset = offsetof(type, member) + offsetof(rope_settings, fraction),                                 \
       .minimum = 0,                                                                                         \
       .maximum = 1,                                                                                         \
       .initial = 1,                                                                                         \
       .help = "share of the head's channels that turn"},                                                    \
  {                                                                                                          \
    .name = "layout", .kind = FIELD_CHOICE, .offset = offsetof(type, member) + offsetof(rope_settings, layout), \
    .initial = 0, .choices = rope_layouts, .help = "pairs: channels p and p + r/2, or neighbours 2p and 2p + 1" \
  }

/* r, the channels that turn. */
size_t rope_rotary(const position_shape *shape, const rope_settings *settings);
/* Is r even and in range?  `method` names the method in the sentence. */
status rope_check(const char *method, const position_shape *shape, const rope_settings *settings,
                  alibi_error *error);
/* And does the share of the frequencies that turn make one, where it must?  fields: the method's (share.h) */
status rope_check_share(const char *method, field_table fields, const position_shape *shape,
                        const rope_settings *settings, double share, alibi_error *error);

/* w[r/2], changed by the request's extension if there is one; returns the factor on cos and sin.  kept: the share
 * of the frequencies, highest first, that turn at all; the rest are 0. */
double rope_frequencies(const position_request *request, const rope_settings *settings, double kept, double *w);

/* w_p = base^(-2p/r). */
void rope_powers(double base, size_t rotary, double *w);
/* The same with a base that makes the longest wavelength s times as long and leaves the shortest:
 * base s^(r/(r-2)). */
void rope_stretch(double base, double s, size_t rotary, double *w);

/* The parts of a position_method; keys turn as queries. */
void rope_layout(const position_request *request, const rope_settings *settings, position_plan *plan, arena *a);
void rope_fill(const position_request *request, const rope_settings *settings, double kept, position_plan *plan);
double rope_angle(const position_request *request, const rope_settings *settings, double kept, size_t pair,
                  size_t position, double *magnitude);

#endif
