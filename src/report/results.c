/* Releasing results and finding a curve or a point in them. */
#include "report/results.h"

#include <stdlib.h>
#include <string.h>

void method_result_free(method_result *method)
{
  if (!method) return;
  for (size_t i = 0; i < method->curve_count; i++) free(method->curves[i].points);
  free(method->curves);
  free(method->losses);
  *method = (method_result){0};
}

void study_results_free(study_results *results)
{
  if (!results) return;
  for (size_t i = 0; i < results->method_count; i++) method_result_free(&results->methods[i]);
  for (size_t i = 0; i < results->setting_count; i++) {
    free(results->settings[i].name);
    free(results->settings[i].value);
  }
  free(results->methods);
  free(results->settings);
  free(results->question);
  free(results->answer);
  free(results->rival_answer);
  free(results->next_command);
  free(results->command);
  free(results->text);
  free(results->machine);
  *results = (study_results){0};
}

const curve *method_find_curve(const method_result *method, const char *protocol, const char *extend)
{
  if (!extend) extend = "";
  for (size_t i = 0; i < method->curve_count; i++) {
    const curve *c = &method->curves[i];
    if (strcmp(c->protocol, protocol) == 0 && strcmp(c->extend, extend) == 0) return c;
  }
  return NULL;
}

const curve_point *curve_find_point(const curve *c, int64_t length)
{
  for (size_t i = 0; c && i < c->count; i++)
    if (c->points[i].length == length) return &c->points[i];
  return NULL;
}
