/* text/oniguruma.h - the patterns of tokenizer.json are in Oniguruma's language (Ruby's syntax, over Unicode);
 * PCRE2 speaks another.  Where the two differ, the pattern is written anew: a class inside a class (a union) and
 * && (an intersection), ^ and $ at every line, (?m) that lets the dot match newlines, \h a hexadecimal digit, \s
 * \w \d \b by Unicode, {,n}, {n,m}+ and {n}? (a repetition repeated), long names of categories. Refused by name:
 * absence (?~...), conditions (?(...)...), callouts (?{...}) and (*...), \y \Y, \C- \M-, bytes \x80..\xff, options
 * other than i, m and x. */
#ifndef TEXT_ONIGURUMA_H
#define TEXT_ONIGURUMA_H

#include "text/regex.h"

/* Compiles a pattern in Oniguruma's language. */
status oniguruma_new(const char *pattern, const char *what, regex **made, alibi_error *error);

#endif
