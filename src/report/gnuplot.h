/* report/gnuplot.h - pictures drawn by gnuplot, run as a program.  A script stays beside its picture, so that a
 * user can restyle it and run `gnuplot script` there. */
#ifndef REPORT_GNUPLOT_H
#define REPORT_GNUPLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "report/drawing.h"

typedef enum gnuplot_outcome { GNUPLOT_DRAWN, GNUPLOT_FAILED, GNUPLOT_MISSING } gnuplot_outcome;

/* Draws directory/name by a script, which is given four arguments: the directory, to work in; the name; a suffix
 * for the name of the file that it writes; 1 for the PNG terminal without cairo, else 0.  Where nothing was drawn
 * an old picture of the name is removed, for it would show other numbers, and `said` holds gnuplot's first line.
 */
gnuplot_outcome gnuplot_draw(const char *script, const char *directory, const char *name, bool plain, char *said,
                             size_t size);

/* A report's picture: writes data and script to directory/STEM.dat and STEM.gp and draws STEM.svg and STEM.png
 * from them; the drafts stay the caller's to free.  *made: there is an SVG; false, with ALIBI_OK: no gnuplot. */
status gnuplot_pictures(draft *data, draft *script, const char *directory, const char *stem, bool *made,
                        alibi_error *error);

#endif
