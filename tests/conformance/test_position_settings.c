/* What can be wrong about a position method or an extension, for each row of the two registries: lengths that do
 * not exist, settings out of range or unknown, parameters that are missing, names.  And settings survive the ways
 * through text and JSON. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/model.h"
#include "file/json.h"
#include "position/position.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "conformance/position_subject.h"

static void limits_are_enforced(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 64);
    alibi_error error;
    alibi_error_init(&error);
    s.request.length = 0;
    assert_int_equal(position_prepare(s.method, &s.request, &s.tables, &error), ALIBI_INVALID);
    assert_non_null(strstr(error.message, s.method->name));
    size_t limit = position_method_limit(s.method, &s.request.shape, s.request.options, s.request.extension);
    if (limit < SIZE_MAX) {
      subject_prepare(&s, limit);
      position_release(&s.tables);
      s.request.length = limit + 1;
      assert_int_equal(position_prepare(s.method, &s.request, &s.tables, &error), ALIBI_INVALID);
      assert_non_null(strstr(error.message, s.method->name));
      assert_null(s.tables.memory.base);
    } else {
      subject_prepare(&s, 6400);
    }
    subject_close(&s);
  }
}

/* A number of positions that no memory holds is a sentence. */
static void absurd_lengths_are_refused(void **unused)
{
  (void)unused;
  static const size_t absurd[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8};
  for (size_t row = 0; row < position_row_count(); row++)
    for (size_t k = 0; k < 3; k++) {
      subject s;
      subject_open(&s, row, 64);
      subject_prepare(&s, 32);
      size_t bytes = s.tables.memory.size;
      subject_prepare(&s, 64);
      bool grows = s.tables.memory.size != bytes;
      position_release(&s.tables);
      s.request.length = absurd[k];
      alibi_error error;
      alibi_error_init(&error);
      status result = position_prepare(s.method, &s.request, &s.tables, &error);
      assert_int_equal(result == ALIBI_OK, !grows);
      assert_int_equal(error.message[0] != '\0', grows);
      subject_close(&s);
    }
}

static void initial_values_are_modest(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_method_count(); row++) {
    subject s;
    subject_open(&s, row, 64);
    if (s.parameter_count > 0) assert_non_null(s.method->initial);
    position_parameter list[POSITION_MAX_PARAMETERS];
    if (s.parameter_count > 0) s.method->parameters(&s.request.shape, s.request.options, list);
    for (size_t i = 0; i < s.parameter_count; i++) {
      assert_true(strncmp(list[i].name, "position.", 9) == 0);
      /* a setting is another thing than what is learned */
      assert_null(field_find(s.method->fields, list[i].name + 9));
      for (size_t k = 0; k < s.sizes[i]; k++)
        for (int side = -1; side <= 1; side++)
          assert_true(fabsf(s.method->initial(&s.request.shape, s.request.options, i, k, 5.0 * side)) <= 10);
    }
    s.request.parameters[0] = NULL; /* a model that forgot them */
    s.request.length = 8;
    alibi_error error;
    status result = position_prepare(s.method, &s.request, &s.tables, &error);
    assert_int_equal(result, s.parameter_count > 0 ? ALIBI_INVALID : ALIBI_OK);
    if (s.parameter_count > 0) assert_non_null(strstr(error.message, list[0].name));
    subject_close(&s);
  }
}

/* The settings that nobody typed: small models among those of a study, and saved ones. */
static void initial_settings_fit_small_models(void **unused)
{
  (void)unused;
  static const struct {
    size_t heads, head_size;
  } shapes[] = {{1, HEAD_SIZE}, {1, 2}, {2, 2}, {8, 2}, {HEADS, 2}};
  for (size_t row = 0; row < position_row_count(); row++)
    for (size_t k = 0; k < sizeof shapes / sizeof shapes[0]; k++) {
      subject s;
      subject_open(&s, row, 64); /* with more parameters than the smaller shapes have */
      s.request.shape.heads = shapes[k].heads;
      s.request.shape.head_size = shapes[k].head_size;
      s.request.shape.width = shapes[k].heads * shapes[k].head_size;
      subject_prepare(&s, subject_at_most(&s, 70));
      subject_close(&s);
    }
}

/* A legal value that is not the initial one. */
static void change(const field *f, void *object)
{
  alibi_error error;
  if (f->kind == FIELD_TEXT) {
    assert_int_equal(field_set_text(f, object, f->name, "changed", &error), ALIBI_OK);
    return;
  }
  double value = f->initial < f->maximum ? f->initial + 0.37 * (f->maximum - f->initial) : 0.37 * f->maximum;
  if (f->kind == FIELD_INTEGER) value = f->initial + 1;
  if (f->kind == FIELD_BOOLEAN) value = !f->initial;
  if (f->kind == FIELD_CHOICE) value = f->initial == 0;
  if (f->kind == FIELD_CHOICE || f->kind == FIELD_BOOLEAN)
    assert_int_equal(field_set_text(f, object, f->name,
                                    f->kind == FIELD_BOOLEAN ? (value ? "true" : "false") : f->choices[(int)value],
                                    &error),
                     ALIBI_OK);
  else assert_int_equal(field_set_number(f, object, f->name, value, &error), ALIBI_OK);
}

static void check_round_trip(field_table table, size_t size, size_t most)
{
  subject_options initial, changed, text, json;
  alibi_error error;
  alibi_error_init(&error);
  assert_true(size <= most);
  field_init(table, initial.bytes);
  field_init(table, changed.bytes);
  field_init(table, text.bytes);
  field_init(table, json.bytes);
  for (size_t i = 0; i < table.count; i++) {
    const field *f = &table.fields[i];
    char written[ALIBI_POSITION_OPTIONS_SIZE];
    assert_true(f->offset < size && f->help && f->help[0]);
    assert_true(field_find(table, f->name) == f);
    change(f, changed.bytes);
    assert_false(field_equal(f, initial.bytes, changed.bytes));
    field_get_text(f, changed.bytes, written, sizeof written);
    assert_int_equal(field_set_text(f, text.bytes, f->name, written, &error), ALIBI_OK);
    assert_true(field_equal(f, text.bytes, changed.bytes));
  }
  json_node *object = node_new_object(), *again = NULL;
  node_set_fields(object, table, changed.bytes);
  char *written = node_to_text(object);
  assert_non_null(written);
  assert_int_equal(node_parse(written, strlen(written), "options", &again, &error), ALIBI_OK);
  assert_int_equal(node_get_fields(again, table, json.bytes, "options", NULL, &error), ALIBI_OK);
  for (size_t i = 0; i < table.count; i++) assert_true(field_equal(&table.fields[i], json.bytes, changed.bytes));
  free(written);
  node_free(object);
  node_free(again);
}

static void options_survive_text_and_json(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < position_method_count(); i++)
    check_round_trip(position_method_at(i)->fields, position_method_at(i)->options_size,
                     ALIBI_POSITION_OPTIONS_SIZE);
  for (size_t i = 0; i < position_extension_count(); i++)
    check_round_trip(position_extension_at(i)->fields, position_extension_at(i)->options_size,
                     ALIBI_EXTENSION_OPTIONS_SIZE);
}

static void refuses_unknown(field_table table)
{
  subject_options values;
  alibi_error error;
  alibi_error_init(&error);
  json_node *object = node_new_object();
  field_init(table, values.bytes);
  node_set_fields(object, table, values.bytes);
  node_set_number(object, "nonsense", 1);
  assert_int_not_equal(node_get_fields(object, table, values.bytes, "options", NULL, &error), ALIBI_OK);
  assert_non_null(strstr(error.message, "nonsense"));
  node_free(object);
  assert_null(field_find(table, "nonsense"));
}

static void unknown_settings_are_refused(void **unused)
{
  (void)unused;
  for (size_t i = 0; i < position_method_count(); i++) refuses_unknown(position_method_at(i)->fields);
  for (size_t i = 0; i < position_extension_count(); i++) refuses_unknown(position_extension_at(i)->fields);
}

static void break_field(const field *f, void *object, double value)
{
  void *place = (char *)object + f->offset;
  if (f->kind == FIELD_REAL) *(double *)place = value;
  if (f->kind == FIELD_INTEGER) *(int64_t *)place = (int64_t)value;
  if (f->kind == FIELD_CHOICE) *(int *)place = 1000;
}

static void options_out_of_range_are_refused(void **unused)
{
  (void)unused;
  for (size_t row = 0; row < position_row_count(); row++) {
    subject s;
    subject_open(&s, row, 64);
    s.request.length = 32;
    const position_extension *extension = s.request.extension;
    field_table table = extension ? extension->fields : s.method->fields;
    void *values = extension ? s.extension_options.bytes : s.options.bytes;
    for (size_t i = 0; i < table.count; i++) {
      const field *f = &table.fields[i];
      if (f->kind == FIELD_TEXT || f->kind == FIELD_BOOLEAN) continue;
      double wrong[] = {f->minimum - 1, f->maximum * 2, f->kind == FIELD_REAL ? NAN : f->minimum - 2};
      for (size_t k = 0; k < 3; k++) {
        alibi_error error;
        field_init(table, values);
        break_field(f, values, wrong[k]);
        assert_int_equal(position_prepare(s.method, &s.request, &s.tables, &error), ALIBI_INVALID);
        assert_non_null(strstr(error.message, extension ? extension->name : s.method->name));
        assert_non_null(strstr(error.message, f->name));
      }
    }
    subject_close(&s);
  }
}

static void rows_are_found_by_name(void **unused)
{
  (void)unused;
  char names[512];
  alibi_error error;
  position_method_names(names, sizeof names);
  assert_true(position_method_count() >= 6 && position_extension_count() >= 3);
  for (size_t i = 0; i < position_method_count(); i++) {
    const position_method *method = position_method_at(i), *found = NULL;
    assert_true(method->title && method->formula && method->source);
    assert_true(position_method_find(method->name) == method);
    assert_int_equal(position_method_require("--position", method->name, &found, &error), ALIBI_OK);
    assert_true(found == method);
    assert_non_null(strstr(names, method->name));
  }
  for (size_t row = position_method_count(); row < position_row_count(); row++) {
    position_row_pair pair;
    const position_extension *found = NULL;
    assert_true(position_row_at(row, &pair));
    assert_true(pair.extension->title && pair.extension->formula && pair.extension->source);
    assert_int_equal(
        position_extension_require("--extension", pair.method->name, pair.extension->name, &found, &error),
        ALIBI_OK);
    assert_true(found == pair.extension);
  }
  for (size_t i = 0; i < position_extension_count(); i++) { /* none extends nothing */
    size_t extended = 0;
    for (size_t m = 0; m < position_method_count(); m++)
      extended += position_extends(position_extension_at(i), position_method_at(m));
    assert_true(extended > 0);
  }
  assert_null(position_method_at(position_method_count()));
  assert_null(position_extension_at(position_extension_count()));
}

static void unknown_names_are_refused_with_the_known_ones(void **unused)
{
  (void)unused;
  const position_method *method;
  const position_extension *extension;
  alibi_error error;
  char names[512];
  position_method_names(names, sizeof names);
  assert_int_equal(position_method_require("--position", "alibis", &method, &error), ALIBI_INVALID);
  assert_null(method);
  assert_non_null(strstr(error.message, "--position: "));
  assert_non_null(strstr(error.message, names));
  assert_non_null(strstr(error.message, "'alibis'"));
  for (size_t row = position_method_count(); row < position_row_count(); row++) {
    position_row_pair pair;
    assert_true(position_row_at(row, &pair));
    position_extension_names(pair.method->name, names, sizeof names);
    assert_non_null(strstr(names, pair.extension->name));
    assert_int_equal(position_extension_require("--extension", pair.method->name, "dynamo", &extension, &error),
                     ALIBI_INVALID);
    assert_non_null(strstr(error.message, names));
  }
  assert_int_equal(position_extension_require("--extension", "none", "ntk", &extension, &error), ALIBI_INVALID);
  assert_non_null(strstr(error.message, "'none' has no extensions"));
  assert_null(position_method_find(""));
  assert_null(position_extension_find("none", "ntk"));
}

static void an_extension_of_another_method_is_refused(void **unused)
{
  (void)unused;
  for (size_t row = position_method_count(); row < position_row_count(); row++)
    for (size_t other = 0; other < position_method_count(); other++) {
      subject s, plain;
      alibi_error error;
      subject_open(&s, row, 64);
      subject_open(&plain, other, 64);
      plain.request.extension = s.request.extension;
      plain.request.extension_options = s.request.extension_options;
      plain.request.length = 64;
      status result = position_prepare(plain.method, &plain.request, &plain.tables, &error);
      assert_int_equal(result, position_extends(s.request.extension, plain.method) ? ALIBI_OK : ALIBI_INVALID);
      if (result != ALIBI_OK) assert_non_null(strstr(error.message, s.request.extension->name));
      subject_close(&s);
      subject_close(&plain);
    }
}

static void small_buffers_hold_what_fits(void **unused)
{
  (void)unused;
  char names[8] = "xxxxxxx";
  position_method_names(names, 0);
  assert_string_equal(names, "xxxxxxx");
  position_method_names(names, 1);
  assert_string_equal(names, "");
  position_method_names(names, sizeof names);
  assert_true(strlen(names) == 7);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limits_are_enforced),
      cmocka_unit_test(absurd_lengths_are_refused),
      cmocka_unit_test(initial_values_are_modest),
      cmocka_unit_test(initial_settings_fit_small_models),
      cmocka_unit_test(options_survive_text_and_json),
      cmocka_unit_test(unknown_settings_are_refused),
      cmocka_unit_test(options_out_of_range_are_refused),
      cmocka_unit_test(rows_are_found_by_name),
      cmocka_unit_test(unknown_names_are_refused_with_the_known_ones),
      cmocka_unit_test(an_extension_of_another_method_is_refused),
      cmocka_unit_test(small_buffers_hold_what_fits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
