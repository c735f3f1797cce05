/* evaluate/statistics.h - what is said about a list of losses.  Sums are in double, in the order of the list. */
#ifndef EVALUATE_STATISTICS_H
#define EVALUATE_STATISTICS_H

#include <stddef.h>

enum { STATISTICS_BLOCK = 1000, STATISTICS_SMOOTH = 101 };

typedef struct mean_estimate {
  double mean;
  double standard_error; /* NaN with fewer than two blocks */
  size_t count;
} mean_estimate;

/* A list, document after document. */
typedef struct loss_list {
  const float *values;
  const float *less;         /* NULL, or what is subtracted from the values */
  const unsigned char *left; /* NULL, or 1 where a value is left out */
  const size_t *ends;        /* [documents] where each one's values end; ascending */
  size_t documents;
} loss_list;

/* Neighbouring tokens are not independent, so the error is that of the means of blocks: consecutive runs of at
 * least STATISTICS_BLOCK values of a document, or all of a document that has not enough for two.  Blocks differ in
 * size, and in how much of them is left out, so it is the error of a ratio of sums (Cochran, Sampling Techniques,
 * chapter 6): with n_b of the values, of sum s_b, in block b of B, and m the mean,
 *   error^2 = B / (B - 1) * sum (s_b - m n_b)^2 / (sum n_b)^2
 * which for equal blocks is the deviation of their means / sqrt(B).  A mean of none is NaN. */
mean_estimate statistics_estimate(const loss_list *list);

/* The same of blocks whose values are not kept: their sums, which as squares lose a few digits. */
typedef struct block_sums {
  double blocks, sum, count; /* of all blocks that have values */
  double sum_squares, products, count_squares;
} block_sums;

void block_sums_add(block_sums *s, double sum, double count);
mean_estimate block_sums_estimate(const block_sums *s);

/* Of one document. */
mean_estimate statistics_mean(const float *values, size_t count);

/* Of total nats over so many bytes of text; NaN without bytes. */
double statistics_bits_per_byte(double nats, size_t bytes);

/* Rows of `columns` values, which are taken in one after the other: the mean over rows of each value, after each
 * row was smoothed over a centred run of STATISTICS_SMOOTH values (near its ends as many as there are on both
 * sides), and half the width of the mean's 95 % band, from the spread of the smoothed values over rows. */
typedef struct smooth_mean {
  size_t columns, rows;
  double *mean, *squares; /* [columns] the caller's, of zeros; squares: of deviations from the mean so far */
  double *sums;           /* [columns + 1] scratch */
} smooth_mean;

void smooth_mean_add(smooth_mean *s, const float *row);
/* band may be squares; NaN with fewer than two rows. */
void smooth_mean_band(const smooth_mean *s, double *band);

#endif
