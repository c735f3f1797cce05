/* text/oniguruma_names.h - classes of characters by Oniguruma's names, as bodies of PCRE2's classes. */
#ifndef TEXT_ONIGURUMA_NAMES_H
#define TEXT_ONIGURUMA_NAMES_H

/* Bodies of classes.  \s is White_Space; \w is that of UTS 18, and outside classes also the raised digits and
 * fractions of Latin-1, which Oniguruma's table of the first 256 characters calls parts of words. */
#define SPACE                                                                                                     \
  "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define CIRCLED "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
#define WORD "\\p{L}\\p{Nl}\\p{M}\\p{Nd}\\p{Pc}" CIRCLED
#define WORD_OUTSIDE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX "0-9A-Fa-f"
#define GRAPH "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"

enum { CLASS_BODY = 192 }; /* room for each of these, and for a property's */

/* name: lower case, no blanks, no _ and -.  NULL where it is none of the fixed ones (then: a script or a property
 * of one character, which PCRE2 may know). */
const char *oniguruma_class(const char *name);

_Static_assert(sizeof WORD_OUTSIDE <= CLASS_BODY, "room for every body");

#endif
