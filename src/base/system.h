/* base/system.h - the operating system, as far as the house needs it: clocks, files mapped and replaced,
 * directories, child processes.  No other room calls the system directly (beyond stdio). */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Seconds: monotonic wall clock; processor time of this process (all threads); peak resident bytes. */
double system_seconds(void);
double system_cpu_seconds(void);
size_t system_peak_memory(void);
int system_processors(void); /* those this process may run on */
int system_first_processor(void); /* of those; -1: unknown */
void system_yield(void);     /* lets another thread run */
/* Asks for large pages behind memory that is aligned to SYSTEM_LARGE_PAGE; no harm where there are none. */
enum { SYSTEM_LARGE_PAGE = 2 << 20 };
void system_prefer_large_pages(void *memory, size_t bytes);
/* Says that these bytes will not be needed soon: whole pages of a mapped file may leave memory, and come back when
 * they are read.  Never changes what is there. */
void system_forget(const void *data, size_t bytes);
/* Bytes that can still be had without driving the machine, or this process's control group, out of memory;
 * SIZE_MAX where the system does not say. */
size_t system_available_memory(void);

/* A whole file, read-only.  data is never NULL for an open file; size 0 is legal.  A pipe is read to its end.
 * The file must not shrink while it is mapped. */
typedef struct mapped_file {
  const unsigned char *data;
  size_t size;
} mapped_file;

/* A directory, a missing file or an unreadable one is a sentence that names `path` (ALIBI_BAD_INPUT). */
status mapped_file_open(const char *path, mapped_file *file, alibi_error *error);
void mapped_file_close(mapped_file *file);

/* Writing beside and renaming: the old file stays whole until the new one is complete and on disk.  A link is
 * followed; a device or pipe (/dev/stdout) is written in place.
 *   replace_begin -> write to r->stream -> replace_commit (checks every write, flushes, renames)
 *   or replace_abandon (removes the temporary).  After either, r is empty; abandon of an empty one is fine. */
typedef struct replace_file {
  FILE *stream;
  char *path, *temporary;
  bool passing; /* set between begin and commit: read once and removed, so it need not reach the disk */
} replace_file;

status replace_begin(const char *path, replace_file *r, alibi_error *error);
status replace_commit(replace_file *r, alibi_error *error);
void replace_abandon(replace_file *r);

/* Convenience: the whole content in one call. */
status file_write_atomic(const char *path, const void *data, size_t size, alibi_error *error);

status directory_make(const char *path, alibi_error *error); /* with parents; existing is fine */
/* Renames a file or directory, replacing a file that is there; the name is on disk where the file system can do
 * that. */
status file_move(const char *from, const char *to, alibi_error *error);
/* Makes what was renamed to `path`, or made there, last through a power cut.  false, with errno, where that
 * failed; a file system that knows no such thing loses nothing. */
bool path_sync_name(const char *path);

/* Takes the lock of `path` (a file, made where it is missing) for this process; it is given back by file_unlock or
 * with the process's end; who has it may remove the file.  Where another process has it: ALIBI_FAILED, "<what>:
 * another process is at work there". */
status file_lock(const char *path, const char *what, int *lock, alibi_error *error);
void file_unlock(int lock);

bool path_exists(const char *path);
bool path_is_taken(const char *path); /* by anything, a link to nothing too */
bool path_is_directory(const char *path);
/* Is or will `path`, which need not exist, be that directory or within it? */
bool path_is_within(const char *path, const char *directory);
bool path_size(const char *path, uint64_t *size); /* of a plain file; false where it is none */
/* "a/b" from "a" and "b"; malloc'd, NULL when memory is out. */
char *path_join(const char *directory, const char *name);

/* A child running `argv` (NULL-terminated, argv[0] a path or found in PATH).  What it writes to its
 * descriptor `report_fd` (>= 3) can be read from child.report by the parent; -1: no pipe.
 * Its stdout goes to /dev/null where quiet; its stderr stays ours. */
typedef struct child_process {
  int64_t id;
  int report; /* descriptor to read, or -1 */
} child_process;

typedef struct child_result {
  int exit_code;       /* 128 + signal where a signal ended it */
  size_t peak_memory;  /* resident bytes, but at least what this process held when it started the child (Linux
                          carries the peak over exec); a child's own system_peak_memory is exact */
  double cpu_seconds;
} child_result;

status child_start(char *const argv[], int report_fd, bool quiet, child_process *child, alibi_error *error);
/* Waits for the end, also through signals; drains and closes report. */
status child_wait(child_process *child, child_result *ended, alibi_error *error);
void child_interrupt(const child_process *child); /* SIGINT */
/* Waits until one of the `count` descriptors (negative ones are skipped) is readable or `seconds` passed;
 * sets ready[i].  Interrupted by a signal: returns with none ready. */
void descriptors_wait(const int *descriptors, size_t count, double seconds, bool *ready);
/* Reads what is there: bytes read, 0 at the end, -1 when interrupted or failed. */
long descriptor_read(int descriptor, void *buffer, size_t size);

/* Asks the system to end this process (SIGTERM) when its parent ends. */
void system_end_with_parent(void);

/* Moves on in a file that is written, by zeros that need not be stored; false, with errno, where that failed. */
bool stream_skip(FILE *stream, uint64_t bytes);

/* For handlers of signals, where printf may not be called. */
void descriptor_say(int descriptor, const char *text);

/* A stream that writes to an open descriptor, NULL where it is not open. */
FILE *descriptor_stream(int descriptor);

/* Name of the processor, such as "AMD EPYC"; "" when unknown. */
void system_processor_name(char *name, size_t size);

/* Starts this program anew with `name` set to `value` in its environment, where it is not set yet; returns only
 * when that is not needed or not possible. */
void system_restart_with(const char *name, const char *value, char *const argv[]);

/* Path of the running program (for re-running oneself); "" when unknown. */
void system_program_path(char *path, size_t size);

#endif
