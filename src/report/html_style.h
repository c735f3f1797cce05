/* report/html_style.h - the style sheet of report.html. */
#ifndef REPORT_HTML_STYLE_H
#define REPORT_HTML_STYLE_H

extern const char html_style[];

#endif
