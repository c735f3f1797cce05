/* Runs of one script.  Which script a character is of is asked of the regular expressions, which know Unicode: one
 * pattern with a group for each script, and a small cache before it. */
#include "text/script_runs.h"

#include <stdio.h>
#include <string.h>

#include "text/regex.h"
#include "text/text_buffer.h"
#include "text/unicode_since.h"

static const char *const names[] = {"Han",
                                    "Hiragana",
                                    "Katakana",
                                    "Common",
                                    "Inherited",
                                    "Latin",
                                    "Greek",
                                    "Cyrillic",
                                    "Arabic",
                                    "Hebrew",
                                    "Hangul",
                                    "Thai",
                                    "Devanagari",
                                    "Adlam",
                                    "Ahom",
                                    "Anatolian_Hieroglyphs",
                                    "Armenian",
                                    "Avestan",
                                    "Balinese",
                                    "Bamum",
                                    "Bassa_Vah",
                                    "Batak",
                                    "Bengali",
                                    "Bhaiksuki",
                                    "Bopomofo",
                                    "Brahmi",
                                    "Braille",
                                    "Buginese",
                                    "Buhid",
                                    "Canadian_Aboriginal",
                                    "Carian",
                                    "Caucasian_Albanian",
                                    "Chakma",
                                    "Cham",
                                    "Cherokee",
                                    "Chorasmian",
                                    "Coptic",
                                    "Cuneiform",
                                    "Cypriot",
                                    "Cypro_Minoan",
                                    "Deseret",
                                    "Dives_Akuru",
                                    "Dogra",
                                    "Duployan",
                                    "Egyptian_Hieroglyphs",
                                    "Elbasan",
                                    "Elymaic",
                                    "Ethiopic",
                                    "Georgian",
                                    "Glagolitic",
                                    "Gothic",
                                    "Grantha",
                                    "Gujarati",
                                    "Gunjala_Gondi",
                                    "Gurmukhi",
                                    "Hanifi_Rohingya",
                                    "Hanunoo",
                                    "Hatran",
                                    "Imperial_Aramaic",
                                    "Inscriptional_Pahlavi",
                                    "Inscriptional_Parthian",
                                    "Javanese",
                                    "Kaithi",
                                    "Kannada",
                                    "Kawi",
                                    "Kayah_Li",
                                    "Kharoshthi",
                                    "Khitan_Small_Script",
                                    "Khmer",
                                    "Khojki",
                                    "Khudawadi",
                                    "Lao",
                                    "Lepcha",
                                    "Limbu",
                                    "Linear_A",
                                    "Linear_B",
                                    "Lisu",
                                    "Lycian",
                                    "Lydian",
                                    "Mahajani",
                                    "Makasar",
                                    "Malayalam",
                                    "Mandaic",
                                    "Manichaean",
                                    "Marchen",
                                    "Masaram_Gondi",
                                    "Medefaidrin",
                                    "Meetei_Mayek",
                                    "Mende_Kikakui",
                                    "Meroitic_Cursive",
                                    "Meroitic_Hieroglyphs",
                                    "Miao",
                                    "Modi",
                                    "Mongolian",
                                    "Mro",
                                    "Multani",
                                    "Myanmar",
                                    "Nabataean",
                                    "Nag_Mundari",
                                    "Nandinagari",
                                    "New_Tai_Lue",
                                    "Newa",
                                    "Nko",
                                    "Nushu",
                                    "Nyiakeng_Puachue_Hmong",
                                    "Ogham",
                                    "Ol_Chiki",
                                    "Old_Hungarian",
                                    "Old_Italic",
                                    "Old_North_Arabian",
                                    "Old_Permic",
                                    "Old_Persian",
                                    "Old_Sogdian",
                                    "Old_South_Arabian",
                                    "Old_Turkic",
                                    "Old_Uyghur",
                                    "Oriya",
                                    "Osage",
                                    "Osmanya",
                                    "Pahawh_Hmong",
                                    "Palmyrene",
                                    "Pau_Cin_Hau",
                                    "Phags_Pa",
                                    "Phoenician",
                                    "Psalter_Pahlavi",
                                    "Rejang",
                                    "Runic",
                                    "Samaritan",
                                    "Saurashtra",
                                    "Sharada",
                                    "Shavian",
                                    "Siddham",
                                    "SignWriting",
                                    "Sinhala",
                                    "Sogdian",
                                    "Sora_Sompeng",
                                    "Soyombo",
                                    "Sundanese",
                                    "Syloti_Nagri",
                                    "Syriac",
                                    "Tagalog",
                                    "Tagbanwa",
                                    "Tai_Le",
                                    "Tai_Tham",
                                    "Tai_Viet",
                                    "Takri",
                                    "Tamil",
                                    "Tangsa",
                                    "Tangut",
                                    "Telugu",
                                    "Thaana",
                                    "Tibetan",
                                    "Tifinagh",
                                    "Tirhuta",
                                    "Toto",
                                    "Ugaritic",
                                    "Vai",
                                    "Vithkuqi",
                                    "Wancho",
                                    "Warang_Citi",
                                    "Yezidi",
                                    "Yi",
                                    "Zanabazar_Square"};

enum { SCRIPT_NONE = 0, SCRIPT_HAN = 1, SCRIPT_KATAKANA = 3 }; /* groups: places in names, from 1 */

struct script_runs {
  regex *pattern;
};

status script_runs_new(script_runs **made, alibi_error *error)
{
  status result = ALIBI_OK;
  text_buffer pattern = {0};
  char one[64];
  *made = NULL;
  script_runs *s = calloc(1, sizeof *s);
  if (!s) return fail(error, ALIBI_FAILED, "not enough memory for the scripts of Unicode");
  bool long_form = regex_compiles("\\p{sc:Han}"); /* older: \p{Han} is the script, not its extensions */
  TRY(buffer_add_text(&pattern, "(?:", error));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(one, sizeof one, long_form ? "\\p{sc:%s}" : "\\p{%s}", names[i]);
    if (i > 0) TRY(buffer_add_text(&pattern, "|", error));
    TRY(buffer_add_text(&pattern, regex_compiles(one) ? one : "(?!)", error)); /* younger than this PCRE2 */
    TRY(buffer_add_text(&pattern, "()", error));
  }
  TRY(buffer_add_text(&pattern, ")", error));
  TRY(regex_new(pattern.data, pattern.size, REGEX_ANCHORED, "the scripts of Unicode", &s->pattern, error));
  *made = s;
  s = NULL;
done:
  script_runs_free(s);
  buffer_free(&pattern);
  return result;
}

void script_runs_free(script_runs *s)
{
  if (!s) return;
  regex_free(s->pattern);
  free(s);
}

status script_walk_begin(script_walk *walk, const script_runs *s, const unsigned char *text, size_t size,
                         alibi_error *error)
{
  *walk = (script_walk){.scripts = s, .text = text, .size = size};
  return regex_begin(s->pattern, &walk->match, error);
}

void script_walk_end(script_walk *walk)
{
  regex_end(walk->match);
  walk->match = NULL;
}

static status script_of(script_walk *walk, uint32_t c, size_t length, size_t *script, alibi_error *error)
{
  bool found;
  size_t start, end, slot = c % SCRIPT_CACHE;
  if (c == ' ') return *script = SCRIPT_NONE, ALIBI_OK;
  if (c == 0x30fc) return *script = SCRIPT_HAN, ALIBI_OK;
  if (unicode_since(c) > 9) return *script = SCRIPT_NONE, ALIBI_OK; /* the library's table is that old */
  if (walk->cache[slot].character == c && c != 0) return *script = walk->cache[slot].script, ALIBI_OK;
  const unsigned char *text = walk->text + walk->at;
  if (c == 0x953 || c == 0x954) text = (const unsigned char *)"\u0904"; /* inherited since */
  status result = regex_find(walk->scripts->pattern, walk->match, text, length, 0, &found, &start, &end, error);
  if (result != ALIBI_OK) return result;
  *script = found ? regex_last_group(walk->match) : SCRIPT_NONE;
  if (*script > SCRIPT_HAN && *script <= SCRIPT_KATAKANA) *script = SCRIPT_HAN;
  walk->cache[slot].character = c;
  walk->cache[slot].script = *script;
  return ALIBI_OK;
}

status script_walk_next(script_walk *walk, size_t *start, size_t *end, alibi_error *error)
{
  size_t length, script, run = SCRIPT_NONE;
  *start = walk->at;
  for (; walk->at < walk->size; walk->at += length) {
    uint32_t c = utf8_character(walk->text + walk->at, &length);
    status result = script_of(walk, c, length, &script, error);
    if (result != ALIBI_OK) return result;
    if (script == SCRIPT_NONE) continue;
    if (run == SCRIPT_NONE) *start = walk->at;
    else if (script != run) break;
    run = script;
  }
  if (run == SCRIPT_NONE) *start = walk->at;
  *end = walk->at;
  return ALIBI_OK;
}
