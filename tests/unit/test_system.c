/* Files mapped and replaced, directories, child processes: what is promised when something goes wrong. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "base/system.h"

#include <cmocka.h> /* after the house's headers: it makes a macro of fail */

#include "unit/scratch.h"

static alibi_error error;

static int setup(void **unused)
{
  alibi_error_init(&error);
  return scratch_setup(unused);
}

static void maps_a_file(void **unused)
{
  (void)unused;
  const char *path = scratch_path("text");
  mapped_file file;
  scratch_write(path, "some bytes", 10);
  assert_int_equal(mapped_file_open(path, &file, &error), ALIBI_OK);
  assert_int_equal(file.size, 10);
  assert_memory_equal(file.data, "some bytes", 10);
  mapped_file_close(&file);
  assert_null(file.data);
  scratch_write(path, "", 0);
  assert_int_equal(mapped_file_open(path, &file, &error), ALIBI_OK);
  assert_int_equal(file.size, 0);
  assert_non_null(file.data);
  mapped_file_close(&file);
  mapped_file_close(&file);
}

static void maps_no_directory_device_or_nothing(void **unused)
{
  (void)unused;
  mapped_file file;
  const char *path = scratch_path("absent");
  assert_int_equal(mapped_file_open(path, &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, path);
  scratch_says(error.message, "No such file");
  assert_int_equal(mapped_file_open(scratch_folder, &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "found a directory");
  assert_int_equal(mapped_file_open("/dev/zero", &file, &error), ALIBI_BAD_INPUT);
  scratch_says(error.message, "found a device");
  mapped_file_close(&file);
}

static void reads_a_pipe_to_its_end(void **unused)
{
  (void)unused;
  const char *path = scratch_path("pipe");
  char command[600];
  assert_int_equal(mkfifo(path, 0600), 0);
  snprintf(command, sizeof command, "head -c 3000001 /dev/zero | tr '\\000' x > %s", path);
  char *writer[] = {"sh", "-c", command, NULL};
  child_process child;
  child_result ended;
  mapped_file file;
  assert_int_equal(child_start(writer, -1, false, &child, &error), ALIBI_OK);
  assert_int_equal(mapped_file_open(path, &file, &error), ALIBI_OK);
  assert_int_equal(child_wait(&child, &ended, &error), ALIBI_OK);
  assert_int_equal(file.size, 3000001);
  for (size_t i = 0; i < file.size; i++)
    if (file.data[i] != 'x') fail_msg("byte %zu is %d", i, file.data[i]);
  mapped_file_close(&file);
}

static void replaces_only_when_complete(void **unused)
{
  (void)unused;
  const char *path = scratch_path("result");
  replace_file r;
  scratch_write(path, "old", 3);
  assert_int_equal(replace_begin(path, &r, &error), ALIBI_OK);
  fputs("new", r.stream);
  fflush(r.stream);
  scratch_expect(path, "old");
  replace_abandon(&r);
  replace_abandon(&r);
  scratch_expect(path, "old");
  assert_int_equal(scratch_entries(), 1);
  assert_int_equal(replace_begin(path, &r, &error), ALIBI_OK);
  fputs("new", r.stream);
  assert_int_equal(replace_commit(&r, &error), ALIBI_OK);
  scratch_expect(path, "new");
  assert_int_equal(scratch_entries(), 1);
  replace_abandon(&r);
}

static void new_file_has_the_usual_mode(void **unused)
{
  (void)unused;
  struct stat about;
  mode_t before = umask(027);
  assert_int_equal(file_write_atomic(scratch_path("new"), "x", 1, &error), ALIBI_OK);
  umask(before);
  assert_int_equal(stat(scratch_path("new"), &about), 0);
  assert_int_equal(about.st_mode & 0777, 0640);
}

/* A limit on the size of files stands for the full disk: write and flush fail in the same places. */
static void full_disk_keeps_the_old_file(void **unused)
{
  (void)unused;
  const char *path = scratch_path("result");
  static char big[100000];
  struct rlimit before, small;
  scratch_write(path, "old", 3);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 50000;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  status found = file_write_atomic(path, big, sizeof big, &error);
  alibi_error tail;
  alibi_error_init(&tail);
  replace_file r;
  assert_int_equal(replace_begin(scratch_path("other"), &r, &tail), ALIBI_OK);
  for (size_t i = 0; i < 50001; i++) putc('x', r.stream); /* the last bytes fail in the flush of commit only */
  status found_tail = replace_commit(&r, &tail);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  assert_int_equal(found, ALIBI_FAILED);
  scratch_says(error.message, path);
  assert_int_equal(found_tail, ALIBI_FAILED);
  scratch_expect(path, "old");
  assert_int_equal(scratch_entries(), 1);
}

static void device_is_written_in_place(void **unused)
{
  (void)unused;
  struct stat about;
  if (stat("/dev/full", &about) != 0) skip();
  assert_int_equal(file_write_atomic("/dev/full", "x", 1, &error), ALIBI_FAILED);
  scratch_says(error.message, "/dev/full: cannot write: No space left");
  assert_int_equal(file_write_atomic("/dev/null", "x", 1, &error), ALIBI_OK);
  assert_int_equal(stat("/dev/null", &about), 0);
  assert_true(S_ISCHR(about.st_mode));
}

static void link_stays_a_link(void **unused)
{
  (void)unused;
  struct stat about;
  scratch_write(scratch_path("real"), "old", 3);
  assert_int_equal(symlink("real", scratch_path("link")), 0);
  assert_int_equal(file_write_atomic(scratch_path("link"), "new", 3, &error), ALIBI_OK);
  scratch_expect(scratch_path("real"), "new");
  assert_int_equal(lstat(scratch_path("link"), &about), 0);
  assert_true(S_ISLNK(about.st_mode));
}

static void unwritable_places_are_named(void **unused)
{
  (void)unused;
  replace_file r;
  assert_int_equal(replace_begin(scratch_folder, &r, &error), ALIBI_FAILED);
  scratch_says(error.message, "found a directory");
  assert_null(r.stream);
  const char *path = scratch_path("absent/file");
  assert_int_equal(replace_begin(path, &r, &error), ALIBI_FAILED);
  scratch_says(error.message, path);
  replace_abandon(&r);
}

static void directories_with_parents(void **unused)
{
  (void)unused;
  assert_int_equal(directory_make(scratch_path("a/b//c/"), &error), ALIBI_OK);
  assert_true(path_is_directory(scratch_path("a/b/c")));
  assert_int_equal(directory_make(scratch_path("a/b"), &error), ALIBI_OK);
  scratch_write(scratch_path("a/file"), "", 0);
  assert_true(path_exists(scratch_path("a/file")));
  assert_false(path_is_directory(scratch_path("a/file")));
  assert_int_equal(directory_make(scratch_path("a/file"), &error), ALIBI_FAILED);
  scratch_says(error.message, "found a file");
  assert_int_equal(directory_make(scratch_path("a/file/below"), &error), ALIBI_FAILED);
  assert_int_equal(directory_make("", &error), ALIBI_FAILED);
  assert_int_equal(directory_make("/", &error), ALIBI_OK);
  assert_false(path_exists(scratch_path("absent")));
}

static void joins_paths(void **unused)
{
  (void)unused;
  static const char *const rows[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *path = path_join(rows[i][0], rows[i][1]);
    assert_string_equal(path, rows[i][2]);
    free(path);
  }
}

static void child_reports_and_ends(void **unused)
{
  (void)unused;
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < 100; i++) sum += i; /* a child must start also after threads were used */
  assert_int_equal(sum, 4950);
  for (int report_fd = 3; report_fd < 40; report_fd += 4) {
    char command[96], text[64] = "";
    snprintf(command, sizeof command, "echo hello; printf 'report\\n' > /proc/self/fd/%d; exit 7", report_fd);
    char *argv[] = {"sh", "-c", command, NULL};
    child_process child;
    child_result ended;
    assert_int_equal(child_start(argv, report_fd, true, &child, &error), ALIBI_OK);
    assert_true(fcntl(child.report, F_GETFD) & FD_CLOEXEC);
    size_t used = 0;
    for (long got; (got = descriptor_read(child.report, text + used, sizeof text - 1 - used)) > 0;)
      used += (size_t)got;
    assert_string_equal(text, "report\n");
    assert_int_equal(child_wait(&child, &ended, &error), ALIBI_OK);
    assert_int_equal(child.report, -1);
    assert_int_equal(ended.exit_code, 7);
    assert_true(ended.peak_memory > 100000);
    assert_true(ended.cpu_seconds >= 0);
  }
}

static void missing_program_is_named(void **unused)
{
  (void)unused;
  char *argv[] = {"/no/such/program", NULL};
  child_process child;
  child_result ended;
  assert_int_equal(child_start(argv, 3, true, &child, &error), ALIBI_FAILED);
  scratch_says(error.message, "/no/such/program: cannot start: No such file");
  assert_int_equal(child.report, -1);
  assert_int_equal(child_wait(&child, &ended, &error), ALIBI_INVALID);
}

static void unread_report_does_not_hang(void **unused)
{
  (void)unused;
  char *argv[] = {"sh", "-c", "head -c 1000000 /dev/zero >&3 && exit 5", NULL};
  child_process child;
  child_result ended;
  assert_int_equal(child_start(argv, 3, true, &child, &error), ALIBI_OK);
  assert_int_equal(child_wait(&child, &ended, &error), ALIBI_OK);
  assert_int_equal(ended.exit_code, 5);
}

/* Were the first child's pipe open in the second, its end would not be seen while the second runs. */
static void siblings_do_not_hold_the_pipe(void **unused)
{
  (void)unused;
  char *sleeper[] = {"sleep", "600", NULL};
  child_process first, second;
  child_result ended;
  char byte;
  assert_int_equal(child_start(sleeper, 3, true, &first, &error), ALIBI_OK);
  assert_int_equal(child_start(sleeper, 3, true, &second, &error), ALIBI_OK);
  child_interrupt(&first);
  assert_int_equal(descriptor_read(first.report, &byte, 1), 0);
  assert_int_equal(child_wait(&first, &ended, &error), ALIBI_OK);
  assert_int_equal(ended.exit_code, 128 + SIGINT);
  bool ready;
  descriptors_wait(&second.report, 1, 0, &ready);
  assert_false(ready);
  child_interrupt(&second);
  assert_int_equal(child_wait(&second, &ended, &error), ALIBI_OK);
  assert_int_equal(ended.exit_code, 128 + SIGINT);
  child_interrupt(&second);
}

static void interrupt_reaches_a_child_of_an_ignorer(void **unused)
{
  (void)unused;
  char *sleeper[] = {"sleep", "600", NULL};
  child_process child;
  child_result ended;
  void (*before)(int) = signal(SIGINT, SIG_IGN);
  assert_int_equal(child_start(sleeper, -1, true, &child, &error), ALIBI_OK);
  signal(SIGINT, before);
  child_interrupt(&child);
  assert_int_equal(child_wait(&child, &ended, &error), ALIBI_OK);
  assert_int_equal(ended.exit_code, 128 + SIGINT);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
  (void)number;
  signals++;
}

static void signals_lose_no_child(void **unused)
{
  (void)unused;
  struct sigaction action = {.sa_handler = count_signal}, before;
  struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
  char *argv[] = {"sh", "-c", "sleep 0.3; exit 9", NULL};
  child_process child;
  child_result ended;
  sigaction(SIGALRM, &action, &before);
  assert_int_equal(child_start(argv, -1, true, &child, &error), ALIBI_OK);
  setitimer(ITIMER_REAL, &often, NULL);
  status found = child_wait(&child, &ended, &error);
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &before, NULL);
  assert_int_equal(found, ALIBI_OK);
  assert_int_equal(ended.exit_code, 9);
  assert_true(signals > 0);
}

static void waits_for_descriptors(void **unused)
{
  (void)unused;
  enum { COUNT = 40 };
  int descriptors[COUNT], full[2], ended[2], silent[2];
  bool ready[COUNT];
  assert_int_equal(pipe(full) | pipe(ended) | pipe(silent), 0);
  assert_int_equal(write(full[1], "x", 1), 1);
  close(ended[1]);
  for (int i = 0; i < COUNT; i++) descriptors[i] = -1, ready[i] = true;
  descriptors[1] = silent[0];
  descriptors_wait(descriptors, 3, 0.001, ready);
  for (int i = 0; i < 3; i++) assert_false(ready[i]);
  descriptors[2] = full[0];
  descriptors[COUNT - 1] = ended[0];
  descriptors_wait(descriptors, 3, 60, ready);
  assert_true(!ready[0] && !ready[1] && ready[2]);
  descriptors_wait(descriptors, COUNT, 60, ready);
  for (int i = 0; i < COUNT; i++) assert_int_equal(ready[i], i == 2 || i == COUNT - 1);
  char byte;
  assert_int_equal(descriptor_read(ended[0], &byte, 1), 0);
  assert_int_equal(descriptor_read(full[0], &byte, 1), 1);
  assert_int_equal(descriptor_read(-1, &byte, 1), -1);
  close(full[0]), close(full[1]), close(ended[0]), close(silent[0]), close(silent[1]);
}

static void knows_the_process(void **unused)
{
  (void)unused;
  char path[4096], tiny[4];
  system_program_path(path, sizeof path);
  scratch_says(path, "test_system");
  assert_true(path_exists(path));
  system_program_path(tiny, sizeof tiny);
  assert_true(strlen(tiny) < sizeof tiny);
  assert_true(system_processors() >= 1);
  double start = system_seconds();
  assert_true(system_seconds() >= start);
  assert_true(system_cpu_seconds() > 0);
  size_t before = system_peak_memory(), size = (size_t)64 << 20;
  assert_true(before > 100000);
  char *block = malloc(size);
  assert_non_null(block);
  memset(block, 1, size);
  assert_int_equal(block[size / 2], 1);
  free(block);
  assert_true(system_peak_memory() >= size);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(maps_a_file, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(maps_no_directory_device_or_nothing, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(reads_a_pipe_to_its_end, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(replaces_only_when_complete, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(new_file_has_the_usual_mode, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(full_disk_keeps_the_old_file, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(device_is_written_in_place, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(link_stays_a_link, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(unwritable_places_are_named, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(directories_with_parents, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(joins_paths, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(child_reports_and_ends, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(missing_program_is_named, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(unread_report_does_not_hang, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(siblings_do_not_hold_the_pipe, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(interrupt_reaches_a_child_of_an_ignorer, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(signals_lose_no_child, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(waits_for_descriptors, setup, scratch_teardown),
      cmocka_unit_test_setup_teardown(knows_the_process, setup, scratch_teardown),
  };
  return cmocka_run_group_tests_name("system", tests, NULL, NULL);
}
