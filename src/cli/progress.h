/* cli/progress.h - what is running, how far it is, how fast, how long still.
 *
 * On a terminal one line is redrawn, which joins the items that run side by side; elsewhere a plain line for each
 * item is written every ten seconds and at its end; with --quiet nothing.  For one thread: the one that waits. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdio.h>

typedef enum progress_mode { PROGRESS_SILENT, PROGRESS_LINES, PROGRESS_TERMINAL } progress_mode;

/* Once, before the first item.  interval: least seconds between two drawings, negative for the usual 0.1
 * (terminal) or 10 (lines). */
void progress_open(FILE *stream, progress_mode mode, double interval);

/* Starts an item and returns its number.  total: amount of work in `unit`s ("tokens"), 0 where unknown. */
int progress_begin(const char *what, double total, const char *unit);

/* done: amount finished so far; the first call says where a resumed item starts.  detail: "loss 3.21", or NULL. */
void progress_update(int item, double done, const char *detail);

/* Ends the item with a line of its own that stays: "trained alibi in 1:23 (loss 3.21)".  NULL: no such line. */
void progress_end(int item, const char *summary);

/* A line above the progress line, in every mode. */
void progress_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Takes the progress line off the screen, before something else is written there. */
void progress_clear(void);

/* "0:07", "12:34", "1:02:03". */
void progress_format_time(double seconds, char *text, size_t size);

#endif
