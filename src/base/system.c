/* The operating system: clocks, memory, files, directories, child processes.  The one idea: whatever can be half
 * done (a file half written, a child half started, a wait cut short by a signal) is finished or undone here, so
 * that the other rooms see only "done" or one sentence. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* pipe2, sched_getaffinity, mremap */
#endif
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static double clock_seconds(clockid_t clock)
{
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double system_seconds(void)
{
  return clock_seconds(CLOCK_MONOTONIC);
}

double system_cpu_seconds(void)
{
  return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

size_t system_peak_memory(void)
{
  /* Not getrusage first: Linux carries ru_maxrss over exec, so a child would report its parent's peak. */
  FILE *file = fopen("/proc/self/status", "re");
  unsigned long long kilobytes = 0;
  char line[256];
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1) break;
  if (file) fclose(file);
  if (kilobytes > 0) return (size_t)kilobytes * 1024;
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* A container's share of processor time (cgroup v2), in whole processors; INT_MAX where there is no limit. */
static int processor_quota(void)
{
  FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (!file) return INT_MAX;
  long long quota, period;
  int found = fscanf(file, "%lld %lld", &quota, &period); /* "max 100000" matches nothing */
  fclose(file);
  if (found != 2 || quota <= 0 || period <= 0) return INT_MAX;
  long long processors = (quota + period - 1) / period;
  return processors < INT_MAX ? (int)processors : INT_MAX;
}

int system_processors(void)
{
  cpu_set_t set;
  long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  int quota = processor_quota();
  if (count > quota) count = quota;
  return count < 1 ? 1 : count > INT_MAX ? INT_MAX : (int)count;
}

int system_first_processor(void)
{
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return -1;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &set)) return i;
  return -1;
}

void system_yield(void)
{
  sched_yield();
}

void system_prefer_large_pages(void *memory, size_t bytes)
{
  madvise(memory, bytes, MADV_HUGEPAGE);
}

void system_forget(const void *data, size_t bytes)
{
#ifdef MADV_PAGEOUT /* not MADV_DONTNEED, which would clear memory that is no mapped file */
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = ((uintptr_t)data + page - 1) / page * page;
  uintptr_t last = ((uintptr_t)data + bytes) / page * page;
  if (last > first) madvise((void *)first, last - first, MADV_PAGEOUT);
#else
  (void)data;
  (void)bytes;
#endif
}

/* A pipe has no size and cannot be mapped: read into anonymous pages, which munmap releases all the same. */
static status read_pipe(int descriptor, const char *path, mapped_file *file, alibi_error *error)
{
  status result = ALIBI_OK;
  size_t capacity = (size_t)1 << 20, used = 0;
  char *data = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return fail_errno(error, ALIBI_FAILED, "%s: cannot hold its content", path);
  for (;;) {
    if (used == capacity) {
      char *grown = mremap(data, capacity, capacity * 2, MREMAP_MAYMOVE);
      if (grown == MAP_FAILED) {
        result = fail_errno(error, ALIBI_FAILED, "%s: cannot hold its content", path);
        goto done;
      }
      data = grown;
      capacity *= 2;
    }
    ssize_t got = read(descriptor, data + used, capacity - used);
    if (got == 0) break;
    if (got < 0) {
      result = fail_errno(error, ALIBI_BAD_INPUT, "%s: cannot read", path);
      goto done;
    }
    used += (size_t)got;
  }
  if (used > 0) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), kept = (used + page - 1) / page * page;
    if (kept < capacity) munmap(data + kept, capacity - kept);
    mprotect(data, kept, PROT_READ);
    *file = (mapped_file){(const unsigned char *)data, used};
    return ALIBI_OK;
  }
done:
  munmap(data, capacity);
  return result;
}

status mapped_file_open(const char *path, mapped_file *file, alibi_error *error)
{
  static const unsigned char nothing[1];
  status result = ALIBI_OK;
  *file = (mapped_file){nothing, 0};
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return fail_errno(error, ALIBI_BAD_INPUT, "%s: cannot open", path);
  struct stat about;
  if (fstat(descriptor, &about) != 0) {
    result = fail_errno(error, ALIBI_BAD_INPUT, "%s: cannot read", path);
  } else if (S_ISDIR(about.st_mode)) {
    result = fail(error, ALIBI_BAD_INPUT, "%s: expected a file, found a directory", path);
  } else if (S_ISFIFO(about.st_mode)) {
    result = read_pipe(descriptor, path, file, error);
  } else if (!S_ISREG(about.st_mode)) {
    result = fail(error, ALIBI_BAD_INPUT, "%s: expected a file, found a device", path);
  } else if ((uintmax_t)about.st_size > PTRDIFF_MAX) {
    result = fail(error, ALIBI_BAD_INPUT, "%s: too large to map", path);
  } else if (about.st_size > 0) {
    void *data = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) result = fail_errno(error, ALIBI_BAD_INPUT, "%s: cannot map", path);
    else *file = (mapped_file){data, (size_t)about.st_size};
  }
  close(descriptor);
  return result;
}

void mapped_file_close(mapped_file *file)
{
  if (file->size > 0) munmap((void *)(uintptr_t)file->data, file->size);
  *file = (mapped_file){0};
}

static void replace_empty(replace_file *r)
{
  free(r->path);
  free(r->temporary);
  *r = (replace_file){0};
}

/* Created with 0666 and the umask, which mkstemp would not do, and never over a file that is there. */
static int create_beside(const char *path, char **name)
{
  static atomic_uint next;
  size_t size = strlen(path) + 48;
  *name = malloc(size);
  if (!*name) return -1;
  for (int attempt = 0; attempt < 1000; attempt++) {
    snprintf(*name, size, "%s.%ld-%u.part", path, (long)getpid(), atomic_fetch_add(&next, 1));
    int descriptor = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

status replace_begin(const char *path, replace_file *r, alibi_error *error)
{
  *r = (replace_file){0};
  struct stat about;
  bool exists = stat(path, &about) == 0;
  if (exists && S_ISDIR(about.st_mode))
    return fail(error, ALIBI_FAILED, "%s: cannot write: expected a file, found a directory", path);
  /* Through a link, so that the link stays a link.  Where the file is new, the path as it is. */
  r->path = exists ? realpath(path, NULL) : NULL;
  if (!r->path) r->path = strdup(path);
  int descriptor = -1;
  if (r->path && exists && !S_ISREG(about.st_mode))
    descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY); /* a device or pipe must not be renamed over */
  else if (r->path) descriptor = create_beside(r->path, &r->temporary);
  if (descriptor >= 0) r->stream = fdopen(descriptor, "wb");
  if (r->stream) return ALIBI_OK;
  status result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", path);
  if (descriptor >= 0) close(descriptor);
  if (descriptor >= 0 && r->temporary) unlink(r->temporary);
  replace_empty(r);
  return result;
}

bool path_sync_name(const char *path)
{
  char *directory = strdup(path);
  if (!directory) return false;
  char *slash = strrchr(directory, '/');
  if (slash) slash[slash == directory ? 1 : 0] = '\0';
  int descriptor = open(slash ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL || errno == EROFS);
  int number = errno;
  if (descriptor >= 0) close(descriptor);
  free(directory);
  errno = number;
  return synced;
}

status replace_commit(replace_file *r, alibi_error *error)
{
  status result = ALIBI_OK;
  bool failed_before = ferror(r->stream) != 0;
  errno = 0;
  bool lasts = r->temporary && !r->passing;
  bool written = fflush(r->stream) == 0 && (!lasts || fsync(fileno(r->stream)) == 0);
  /* The reason of the write that failed is gone; one byte more meets it again. */
  if (failed_before && written && write(fileno(r->stream), "", 1) < 0) written = false;
  int number = errno;
  if (fclose(r->stream) != 0 && written) {
    written = false;
    number = errno;
  }
  r->stream = NULL;
  if (!written) {
    errno = number;
    result = fail_errno(error, ALIBI_FAILED, "%s: cannot write", r->path);
  } else if (failed_before) {
    result = fail(error, ALIBI_FAILED, "%s: cannot write: an earlier write failed", r->path);
  } else if (r->temporary && rename(r->temporary, r->path) != 0) {
    result = fail_errno(error, ALIBI_FAILED, "%s: cannot replace", r->path);
  } else if (lasts) {
    path_sync_name(r->path); /* the content is on disk; a name that is not may be the old one's still */
  }
  if (result != ALIBI_OK && r->temporary) unlink(r->temporary);
  replace_empty(r);
  return result;
}

void replace_abandon(replace_file *r)
{
  if (r->stream) fclose(r->stream);
  if (r->temporary) unlink(r->temporary);
  replace_empty(r);
}

status file_write_atomic(const char *path, const void *data, size_t size, alibi_error *error)
{
  replace_file r;
  status result = replace_begin(path, &r, error);
  if (result != ALIBI_OK) return result;
  if (size > 0) fwrite(data, 1, size, r.stream); /* replace_commit asks the stream */
  return replace_commit(&r, error);
}

status directory_make(const char *path, alibi_error *error)
{
  status result = ALIBI_OK;
  char *part = strdup(path);
  if (!part) return fail(error, ALIBI_FAILED, "%s: cannot create the directory: out of memory", path);
  for (char *end = part;; end++) {
    if ((*end != '/' && *end != '\0') || end == part) {
      if (*end != '\0') continue;
      result = fail(error, ALIBI_FAILED, "expected the name of a directory, found an empty one");
      break;
    }
    char kept = *end;
    *end = '\0';
    int number = mkdir(part, 0777) == 0 ? 0 : errno;
    if (number && !path_is_directory(part)) {
      bool other = path_exists(part);
      errno = number;
      result = other ? fail(error, ALIBI_FAILED, "%s: expected a directory, found a file", part)
                     : fail_errno(error, ALIBI_FAILED, "%s: cannot create the directory", part);
      break;
    }
    *end = kept;
    if (kept == '\0') break;
  }
  free(part);
  return result;
}

bool path_exists(const char *path)
{
  struct stat about;
  return stat(path, &about) == 0;
}

bool path_is_taken(const char *path)
{
  struct stat about;
  return lstat(path, &about) == 0;
}

bool path_is_directory(const char *path)
{
  struct stat about;
  return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The nearest of its parents that exists; malloc'd. */
static char *real_parent(const char *path)
{
  char *part = strlen(path) > 0 ? strdup(path) : NULL, *found = NULL;
  while (part && !(found = realpath(part, NULL)) && strcmp(part, ".") != 0) {
    char *slash = strrchr(part, '/');
    if (slash) slash[slash == part ? 1 : 0] = '\0';
    else strcpy(part, ".");
  }
  free(part);
  return found;
}

bool path_is_within(const char *path, const char *directory)
{
  char *outer = realpath(directory, NULL), *inner = real_parent(path);
  size_t size = outer ? strlen(outer) : 0;
  if (size == 1) size = 0; /* the root, which ends in the slash itself */
  bool within = outer && inner && strncmp(inner, outer, size) == 0 && (inner[size] == '/' || inner[size] == '\0');
  free(inner);
  free(outer);
  return within;
}

bool path_size(const char *path, uint64_t *size)
{
  struct stat about;
  if (stat(path, &about) != 0 || !S_ISREG(about.st_mode)) return false;
  *size = (uint64_t)about.st_size;
  return true;
}

char *path_join(const char *directory, const char *name)
{
  size_t length = strlen(directory);
  const char *between = length == 0 || directory[length - 1] == '/' ? "" : "/";
  size_t size = length + strlen(name) + 2;
  char *path = malloc(size);
  if (path) snprintf(path, size, "%s%s%s", directory, between, name);
  return path;
}

/* Both ends close on exec, so that no sibling holds them open; the write end lies above report_fd, so that
 * putting it in place in the child is a real dup2, which clears the flag. */
static bool make_pipe(int report_fd, int ends[2])
{
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, report_fd + 1);
  int number = errno;
  close(ends[1]);
  ends[1] = moved;
  if (moved >= 0) return true;
  close(ends[0]);
  ends[0] = -1;
  errno = number;
  return false;
}

status child_start(char *const argv[], int report_fd, bool quiet, child_process *child, alibi_error *error)
{
  *child = (child_process){0, -1};
  int ends[2] = {-1, -1};
  if (report_fd >= 0 && !make_pipe(report_fd, ends))
    return fail_errno(error, ALIBI_FAILED, "%s: cannot start: no pipe", argv[0]);

  /* posix_spawn, not fork: after OpenMP has run, a forked copy holds locks of threads that it does not have. */
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, reset;
  sigemptyset(&none);
  sigemptyset(&reset);
  sigaddset(&reset, SIGINT); /* a background shell starts us with SIGINT ignored; child_interrupt must reach it */
  sigaddset(&reset, SIGPIPE);
  pid_t id = 0;
  int number = posix_spawn_file_actions_init(&actions);
  if (number == 0) {
    number = posix_spawnattr_init(&attributes);
    if (number == 0) {
      if (report_fd >= 0) number = posix_spawn_file_actions_adddup2(&actions, ends[1], report_fd);
      if (number == 0 && quiet)
        number = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
      posix_spawnattr_setsigmask(&attributes, &none);
      posix_spawnattr_setsigdefault(&attributes, &reset);
      posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
      if (number == 0) number = posix_spawnp(&id, argv[0], &actions, &attributes, argv, environ);
      posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
  }
  if (ends[1] >= 0) close(ends[1]);
  if (number != 0) {
    if (ends[0] >= 0) close(ends[0]);
    errno = number;
    return fail_errno(error, ALIBI_FAILED, "%s: cannot start", argv[0]);
  }
  *child = (child_process){id, ends[0]};
  return ALIBI_OK;
}

status child_wait(child_process *child, child_result *ended, alibi_error *error)
{
  *ended = (child_result){0};
  if (child->report >= 0) {
    /* What nobody read is drained: closing early would end a child that still writes, waiting would hang it. */
    char rest[4096];
    ssize_t got;
    do got = read(child->report, rest, sizeof rest);
    while (got > 0 || (got < 0 && errno == EINTR));
    close(child->report);
    child->report = -1;
  }
  if (child->id <= 0) return fail(error, ALIBI_INVALID, "expected a running child process, found none");
  pid_t id = (pid_t)child->id;
  child->id = 0;
  int how;
  struct rusage usage;
  pid_t got;
  do got = wait4(id, &how, 0, &usage);
  while (got < 0 && errno == EINTR);
  if (got < 0) return fail_errno(error, ALIBI_FAILED, "cannot wait for child process %ld", (long)id);
  ended->exit_code = WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
  ended->peak_memory = (size_t)usage.ru_maxrss * 1024;
  ended->cpu_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                       1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  return ALIBI_OK;
}

void child_interrupt(const child_process *child)
{
  if (child->id > 0) kill((pid_t)child->id, SIGINT);
}

void descriptors_wait(const int *descriptors, size_t count, double seconds, bool *ready)
{
  struct pollfd few[32];
  struct pollfd *set = count <= sizeof few / sizeof few[0] ? few : calloc(count, sizeof *set);
  for (size_t i = 0; i < count; i++) {
    ready[i] = false;
    if (set) set[i] = (struct pollfd){.fd = descriptors[i], .events = POLLIN};
  }
  double milliseconds = seconds * 1000 + 0.999; /* rounded up: a rest below one must not become a busy loop */
  int timeout = !(milliseconds > 0) ? 0 : milliseconds < INT_MAX ? (int)milliseconds : INT_MAX;
  if (poll(set, set ? (nfds_t)count : 0, timeout) > 0)
    for (size_t i = 0; set && i < count; i++) ready[i] = set[i].fd >= 0 && set[i].revents != 0;
  if (set != few) free(set);
}

long descriptor_read(int descriptor, void *buffer, size_t size)
{
  return (long)read(descriptor, buffer, size);
}

void system_program_path(char *path, size_t size)
{
  if (size == 0) return;
  ssize_t length = readlink("/proc/self/exe", path, size - 1);
  if (length < 0 || (size_t)length >= size - 1) length = 0;
  path[length] = '\0';
  /* Replaced on disk while it runs: the link still leads to the program that runs. */
  if (length > 0 && access(path, X_OK) != 0) snprintf(path, size, "%s", "/proc/self/exe");
}

FILE *descriptor_stream(int descriptor)
{
  return fcntl(descriptor, F_GETFL) < 0 ? NULL : fdopen(descriptor, "w");
}

void system_processor_name(char *name, size_t size)
{
  static const char key[] = "model name";
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(name, size, "%s", "");
  while (file && fgets(line, sizeof line, file)) {
    const char *value = strncmp(line, key, sizeof key - 1) == 0 ? strchr(line, ':') : NULL;
    if (!value) continue;
    value += 1 + strspn(value + 1, " ");
    snprintf(name, size, "%.*s", (int)strcspn(value, "\n"), value);
    break;
  }
  if (file) fclose(file);
}

/* "name: 123 kB" of a file such as /proc/meminfo; or, without a name, the file's only number.  -1: not there. */
static double read_number(const char *path, const char *name)
{
  char line[256];
  double value = -1;
  size_t length = name ? strlen(name) : 0;
  FILE *file = fopen(path, "r");
  while (file && value < 0 && fgets(line, sizeof line, file)) {
    if (name && (strncmp(line, name, length) != 0 || !strchr(": ", line[length]))) continue;
    char *end, *start = line + length + (name != NULL);
    value = strtod(start, &end);
    if (end == start) value = -1;
  }
  if (file) fclose(file);
  return value;
}

size_t system_available_memory(void)
{
  double available = 1024 * read_number("/proc/meminfo", "MemAvailable");
  double limit = read_number("/sys/fs/cgroup/memory.max", NULL);
  if (limit > 0) {
    /* Pages of files that nobody maps are given back when needed. */
    double used = read_number("/sys/fs/cgroup/memory.current", NULL) -
                  read_number("/sys/fs/cgroup/memory.stat", "inactive_file");
    if (available < 0 || limit - used < available) available = limit - used;
  }
  return available < 0 ? SIZE_MAX : (size_t)available;
}

status file_move(const char *from, const char *to, alibi_error *error)
{
  if (rename(from, to) != 0) return fail_errno(error, ALIBI_FAILED, "%s: cannot move it to %s", from, to);
  path_sync_name(to);
  return ALIBI_OK;
}

status file_lock(const char *path, const char *what, int *lock, alibi_error *error)
{
  enum { TURNS = 10 };
  status result = ALIBI_OK;
  *lock = -1;
  for (int turn = 1; *lock < 0 && result == ALIBI_OK; turn++) {
    struct stat ours, there;
    int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) return fail_errno(error, ALIBI_FAILED, "%s: cannot write", path);
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0)
      result = errno == EWOULDBLOCK ? fail(error, ALIBI_FAILED, "%s: another process is at work there", what)
                                    : fail_errno(error, ALIBI_FAILED, "%s: cannot be locked", path);
    /* Who had it before may have removed the file after it was opened here: another process makes a new one.  A
     * file system that numbers its files anew each time must not hold us for ever. */
    else if (turn == TURNS || (fstat(descriptor, &ours) == 0 && stat(path, &there) == 0 &&
                               ours.st_ino == there.st_ino && ours.st_dev == there.st_dev))
      *lock = descriptor;
    if (*lock < 0) close(descriptor);
  }
  return result;
}

void file_unlock(int lock)
{
  if (lock >= 0) close(lock);
}

void descriptor_say(int descriptor, const char *text)
{
  ssize_t written = write(descriptor, text, strlen(text));
  (void)written;
}

void system_end_with_parent(void)
{
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
}

void system_restart_with(const char *name, const char *value, char *const argv[])
{
  char path[4096];
  if (getenv(name) || setenv(name, value, 1) != 0) return;
  system_program_path(path, sizeof path);
  if (path[0]) execv(path, argv);
}

bool stream_skip(FILE *stream, uint64_t bytes)
{
  off_t most = (off_t)INT64_MAX;
  if (bytes > (uint64_t)most) {
    errno = EFBIG;
    return false;
  }
  return fseeko(stream, (off_t)bytes, SEEK_CUR) == 0;
}
