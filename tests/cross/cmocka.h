/* The part of cmocka that the kernel tests use, in one header: for cross-builds, where the library itself is not
 * installed for the other processor.  An assertion that fails jumps out of its test; the rest go on. */
#ifndef CROSS_CMOCKA_H
#define CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*cross_test)(void **state);
typedef int (*cross_fixture)(void **state);

struct CMUnitTest {
  const char *name;
  cross_test test;
  cross_fixture setup, teardown;
};

#define cmocka_unit_test(f) {#f, f, NULL, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown}
#define print_message printf

static jmp_buf cross_escape;

static inline void cross_failed(const char *file, int line, int skipped)
{
  if (!skipped) printf("%s:%d: failed\n", file, line);
  longjmp(cross_escape, skipped ? 2 : 1);
}

#define fail() cross_failed(__FILE__, __LINE__, 0)
#define fail_msg(...) (printf(__VA_ARGS__), printf("\n"), fail())
#define skip() cross_failed(__FILE__, __LINE__, 1)
#define assert_true(c) ((c) ? (void)0 : fail_msg("expected to be true: %s", #c))
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_ptr_equal(a, b) assert_true((a) == (b))
#define cross_integers(a, op, b)                                                                              \
  ((a)op(b) ? (void)0 : fail_msg("%s " #op " %s: %lld, %lld", #a, #b, (long long)(a), (long long)(b)))
#define assert_int_equal(a, b) cross_integers(a, ==, b)
#define assert_int_not_equal(a, b) cross_integers(a, !=, b)
#define assert_in_range(v, low, high) assert_true((v) >= (low) && (v) <= (high))
#define assert_string_equal(a, b) (strcmp(a, b) ? fail_msg("'%s' is not '%s'", a, b) : (void)0)
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)
#define assert_memory_not_equal(a, b, n) assert_true(memcmp(a, b, n) != 0)
#define assert_float_equal(a, b, e) assert_true((a) - (b) <= (e) && (b) - (a) <= (e))
#define assert_double_equal(a, b, e) assert_float_equal(a, b, e)

static inline int cross_run(const struct CMUnitTest *tests, size_t count, cross_fixture setup,
                            cross_fixture teardown)
{
  static void *group, *state;
  static size_t i;
  static int failures;
  if (setup && setup(&group) != 0) return 1;
  for (i = 0; i < count; i++) {
    state = group;
    int outcome = setjmp(cross_escape);
    if (outcome == 0) {
      if (tests[i].setup && tests[i].setup(&state) != 0) longjmp(cross_escape, 1);
      tests[i].test(&state);
    }
    printf("[ %s ] %s\n", outcome == 0 ? "     OK" : outcome == 2 ? "SKIPPED" : " FAILED", tests[i].name);
    failures += outcome == 1;
    if (tests[i].teardown) tests[i].teardown(&state);
  }
  if (teardown) teardown(&group);
  return failures;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                                        \
  cross_run(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
