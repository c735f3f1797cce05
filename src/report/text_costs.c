/* What each method cost, as text for a terminal: speed, extra time against the fastest, memory. */
#include <stdio.h>
#include <string.h>

#include "report/drawing.h"

double results_fastest(const study_results *results)
{
  double fastest = 0;
  for (size_t i = 0; i < results->method_count; i++)
    if (results->methods[i].train_tokens_per_second > fastest)
      fastest = results->methods[i].train_tokens_per_second;
  return fastest;
}

char *results_costs(const study_results *results)
{
  draft d = {0};
  double fastest = results_fastest(results);
  draft_add(&d, "%-22s %14s %12s %12s %10s\n", "method", "train tokens/s", "extra time", "test tokens/s",
            "peak MB");
  for (size_t i = 0; i < results->method_count; i++) {
    const method_result *m = &results->methods[i];
    char label[2 * RESULT_NAME_SIZE + 64];
    method_label(results, m, "", label, sizeof label);
    draft_add(&d, "%-22.60s %14.0f", label, m->train_tokens_per_second);
    if (m->train_tokens_per_second > 0)
      draft_add(&d, " %10.1f %%", 100 * (fastest / m->train_tokens_per_second - 1));
    else draft_add(&d, " %12s", "-");
    draft_add(&d, " %12.0f %10.1f\n", m->evaluate_tokens_per_second, (double)m->peak_memory_bytes * 1e-6);
  }
  return draft_take(&d);
}
