/* position/score_scaling.h - log-n scaling of the scores, a switch beside any method: it fills a plan's row_scale.
 *
 * Notation: n, the number of keys that a query may see: position + 1, or the method's window where that is less; L
 * the trained length. */
#ifndef POSITION_SCORE_SCALING_H
#define POSITION_SCORE_SCALING_H

#include "position/position.h"

/* Its parameters: 0 or 1, "position.score_scale" [L, H]. */
size_t score_scaling_parameters(score_scaling_kind kind, const position_shape *shape,
                                position_parameter *parameter);
/* window: of the method's plan; 0: none. */
float score_scaling_initial(const position_shape *shape, size_t window);

/* After the method's own layout and fill; nothing where the switch is off or changes no position of the
 * request. */
void score_scaling_layout(const position_request *request, position_plan *plan, arena *a);
void score_scaling_fill(const position_request *request, position_plan *plan);
/* Adds to the gradient of the parameter [L, H]; row_scale_grad as plan->row_scale. */
void score_scaling_backward(const position_request *request, const position_plan *plan,
                            const float *row_scale_grad, float *parameter_grad);

/* The formula, in double. */
double score_scaling_factor(const position_request *request, size_t window, size_t layer, size_t head,
                            size_t position);

#endif
