/* A program of somebody else: knows the public headers only, has names of its own that the library uses inside. */
#include <stdio.h>
#include <string.h>

#include "alibi/attention.h"
#include "alibi/base.h"

int fail(void);
int memory_new(void);
int fail(void) { return 1; }
int memory_new(void) { return 2; }

int main(void)
{
  double slopes[2];
  alibi_error error;
  alibi_error_init(&error);
  if (strcmp(alibi_version(), "") == 0) return fail();
  if (alibi_slopes(2, 8, ALIBI_SLOPES_INTERLEAVED, slopes, &error) != ALIBI_OK || slopes[0] != 0.0625) {
    printf("slope %g: %s\n", slopes[0], error.message);
    return 1;
  }
  if (alibi_slopes(0, 8, ALIBI_SLOPES_INTERLEAVED, slopes, &error) != ALIBI_INVALID || !error.message[0]) return 1;
  alibi_context *context;
  if (alibi_context_new(NULL, &context, &error) != ALIBI_OK) {
    printf("%s\n", error.message);
    return 1;
  }
  int threads = alibi_context_threads(context);
  alibi_context_free(context);
  return threads >= 1 && memory_new() == 2 ? 0 : 1;
}
