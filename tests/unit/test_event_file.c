/* Files of events: the bytes are those that TensorBoard's own writer makes, names are free, limits are said. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "file/event_file.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch_case.h"

/* Written by tensorboard 2.21 (tensorboard.summary.writer.record_writer.RecordWriter, protobuf 7.36):
 *   Event(wall_time=1700000000.25, file_version="brain.Event:2")
 *   Event(wall_time=1700000000.25, step=301, session_log.status=START)
 *   Event(wall_time=1700000001.5, step=301, summary of loss 3.25 and evaluation/512 -0.0078125) */
static const unsigned char expected[] = {
    0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xa3, 0x7f, 0x4b, 0x22, 0x09, 0x00, 0x00, 0x10, 0x40, 0xfc,
    0x54, 0xd9, 0x41, 0x1a, 0x0d, 0x62, 0x72, 0x61, 0x69, 0x6e, 0x2e, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x3a, 0x32,
    0x33, 0x8d, 0x2f, 0xe9, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x95, 0xfb, 0xfe, 0x18, 0x09, 0x00,
    0x00, 0x10, 0x40, 0xfc, 0x54, 0xd9, 0x41, 0x10, 0xad, 0x02, 0x3a, 0x02, 0x08, 0x01, 0xcb, 0x79, 0xb9, 0x3b,
    0x32, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x24, 0x19, 0x56, 0xec, 0x09, 0x00, 0x00, 0x60, 0x40, 0xfc,
    0x54, 0xd9, 0x41, 0x10, 0xad, 0x02, 0x2a, 0x24, 0x0a, 0x0b, 0x0a, 0x04, 0x6c, 0x6f, 0x73, 0x73, 0x15, 0x00,
    0x00, 0x50, 0x40, 0x0a, 0x15, 0x0a, 0x0e, 0x65, 0x76, 0x61, 0x6c, 0x75, 0x61, 0x74, 0x69, 0x6f, 0x6e, 0x2f,
    0x35, 0x31, 0x32, 0x15, 0x00, 0x00, 0x00, 0xbc, 0x1a, 0xa0, 0x5a, 0xff,
};

static void the_bytes_are_those_of_tensorboard(void **unused)
{
  (void)unused;
  event_file file;
  const event_scalar list[] = {{"loss", 3.25}, {"nothing", NAN}, {"evaluation/512", -0.0078125}};
  ok(event_file_begin(scratch_path("a/b"), 301, 1700000000.25, &file, &error));
  ok(event_file_add(&file, 301, 1700000001.5, list, 3, &error));
  ok(event_file_add(&file, 302, 1700000002.5, list + 1, 1, &error)); /* no number: no event */
  event_file_end(&file);
  unsigned char found[sizeof expected + 1];
  FILE *stream = fopen(scratch_path("a/b/events.out.tfevents.1700000000.alibi.000"), "rb");
  assert_non_null(stream);
  assert_int_equal(fread(found, 1, sizeof found, stream), sizeof expected);
  assert_memory_equal(found, expected, sizeof expected);
  fclose(stream);
}

static void files_of_one_second_have_their_own_names(void **unused)
{
  (void)unused;
  event_file one, two;
  ok(event_file_begin(scratch_folder, 1, 1e9, &one, &error));
  ok(event_file_begin(scratch_folder, 1, 1e9, &two, &error));
  assert_string_equal(strrchr(one.path, '/') + 1, "events.out.tfevents.1000000000.alibi.000");
  assert_string_equal(strrchr(two.path, '/') + 1, "events.out.tfevents.1000000000.alibi.001");
  event_file_end(&one);
  event_file_end(&two);
  event_file_end(&two);
}

static void limits_are_said(void **unused)
{
  (void)unused;
  event_file file;
  event_scalar list[65];
  char tag[129];
  memset(tag, 'x', sizeof tag);
  tag[128] = '\0';
  for (int i = 0; i < 65; i++) list[i] = (event_scalar){tag + 1, 1};
  ok(event_file_begin(scratch_folder, 1, 0, &file, &error));
  ok(event_file_add(&file, INT64_MAX, 0, list, 64, &error));
  assert_int_equal(event_file_add(&file, 1, 0, list, 65, &error), ALIBI_INVALID);
  scratch_says(error.message, "at most 64, found 65");
  list[1].tag = tag;
  assert_int_equal(event_file_add(&file, 1, 0, list, 2, &error), ALIBI_INVALID);
  scratch_says(error.message, "at most 127 bytes, found 128");
  event_file_end(&file);
  scratch_write(scratch_path("file"), "x", 1);
  assert_int_equal(event_file_begin(scratch_path("file"), 1, 0, &file, &error), ALIBI_FAILED);
  assert_null(file.path);
}

static void a_full_disk_is_said(void **unused)
{
  (void)unused;
  event_file file;
  const event_scalar loss = {"loss", 1};
  ok(event_file_begin(scratch_folder, 1, 0, &file, &error));
  FILE *full = fopen("/dev/full", "wb");
  if (!full) skip();
  fclose(file.stream);
  file.stream = full;
  assert_int_equal(event_file_add(&file, 1, 0, &loss, 1, &error), ALIBI_FAILED);
  scratch_says(error.message, "alibi.000: cannot write");
  event_file_end(&file);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_bytes_are_those_of_tensorboard, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(files_of_one_second_have_their_own_names, scratch_case_setup,
                                      scratch_teardown),
      cmocka_unit_test_setup_teardown(limits_are_said, scratch_case_setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(a_full_disk_is_said, scratch_case_setup, scratch_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
