/* No positions: the causal mask alone tells a decoder where it is (Haviv et al., 2022; Kazemnejad et al.,
 * 2023). */
#include "position/position.h"

static void layout(const position_request *request, position_plan *plan, arena *a)
{
  (void)request, (void)plan, (void)a;
}

static void fill(const position_request *request, position_plan *plan)
{
  (void)request, (void)plan;
}

const position_method position_method_none = {
    .name = "none",
    .title = "no positions (NoPE)",
    .formula = "score",
    .source = "Haviv et al., EMNLP Findings 2022",
    .relative = true,
    .layout = layout,
    .fill = fill,
};
