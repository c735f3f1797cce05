/* report/html_parts.h - what a report's pages share: their frame, cells of tables, notes, links, the losses. */
#ifndef REPORT_HTML_PARTS_H
#define REPORT_HTML_PARTS_H

#include "report/drawing.h"

enum { HTML_NOTES = 64 };

/* What could not be done, numbered over a whole page: a method's first sentence stands for its others, which
 * differ in the length only. */
typedef struct html_notes {
  const method_result *method[HTML_NOTES];
  const char *sentence[HTML_NOTES];
  size_t count;
} html_notes;

void html_begin(draft *d, const char *title);
void html_end(draft *d, const study_results *results);
/* open, the escaped text, close; nothing where the text is empty. */
void html_element(draft *d, const char *open, const char *text, const char *close);
void html_seconds(draft *d, double seconds);
void html_number(draft *d, double value); /* opens a cell */
/* A piece of line in a method's colour. */
void html_key(draft *d, const char *colour, bool dashed, bool heavy);
/* The heading of all tables, with the scale of their colours. */
void html_numbers(draft *d);
/* The heading of a protocol and what it means; the beginning of a wide table with a column a length. */
void html_protocol(draft *d, const char *protocol);
void html_lengths(draft *d, const study_results *results, const char *first, const int64_t *lengths, size_t count);
/* One perplexity of a table, with its ratio to that of the training length. */
void html_cell(draft *d, const study_results *results, const series *line, int64_t length, html_notes *n);
void html_note_list(draft *d, const html_notes *n);
/* gnuplot's picture directory/name, an SVG, as part of the page.  false: there is none, or it holds what no
 * picture of ours does. */
bool html_drawn(draft *d, const char *directory, const char *name, const char *label);
/* The curves of the protocols, from directory/curves.svg or drawn here (html_picture.c). */
void html_picture(draft *d, const study_results *results, const char *directory, const char *const *protocols,
                  size_t count);
/* How many methods of the same name stand before it: a rival that is also a method is drawn dashed. */
int html_earlier_namesakes(const study_results *results, size_t index);
/* Training losses of all methods, or of one. */
void html_losses(draft *d, const study_results *results, const method_result *only);

/* "method-alibi.html", "method-sinusoidal-256.html"; a link to it. */
void html_page_name(const study_results *results, const method_result *m, char *name, size_t size);
void html_link(draft *d, const study_results *results, const method_result *m, const char *label);

/* Rows of a table: name and value. */
void html_settings(draft *d, const result_setting *settings, size_t count);

/* A method's own page (html_method.c). */
status html_write_method(const study_results *results, const method_result *m, const char *directory,
                         alibi_error *error);

#endif
