/* Extensions as text.  Everything wrong is a sentence that names the option, the extension and the setting; what
 * the fields' ranges cannot say is left to the extension's own check, when a plan is made. */
#include "position/extension_text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 160, ITEM_SIZE = ALIBI_EXTENSION_OPTIONS_SIZE };

static void field_names(field_table table, char *text, size_t size)
{
  text[0] = '\0';
  for (size_t i = 0; i < table.count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", i ? ", " : "", table.fields[i].name);
  }
}

/* One "key=value", which is cut up. */
static status read_setting(const char *option, extension_choice *choice, char *item, alibi_error *error)
{
  const position_extension *extension = choice->extension;
  char names[256], what[2 * NAME_SIZE];
  char *value = strchr(item, '=');
  if (extension->fields.count == 0)
    return fail(error, ALIBI_INVALID, "%s: '%s' has no settings, found '%s'", option, extension->name, item);
  if (!value)
    return fail(error, ALIBI_INVALID, "%s: %s: expected settings as name=value between commas, found '%s'", option,
                extension->name, item);
  *value++ = '\0';
  const field *f = field_find(extension->fields, item);
  if (!f) {
    field_names(extension->fields, names, sizeof names);
    return fail(error, ALIBI_INVALID, "%s: %s: expected settings from %s, found '%s'", option, extension->name,
                names, item);
  }
  snprintf(what, sizeof what, "%.64s: %s: %s", option, extension->name, f->name);
  return field_set_text(f, choice->options.bytes, what, value, error);
}

/* Is the key of this item one of those before it? */
static bool stands_before(const char *first, const char *item)
{
  size_t key = strcspn(item, "=");
  for (const char *at = first; at < item; at += strcspn(at, ",") + 1)
    if (strcspn(at, "=") == key && strncmp(at, item, key) == 0) return true;
  return false;
}

void extension_text_name(const char *text, char *name, size_t size)
{
  snprintf(name, size, "%.*s", (int)strcspn(text, ":"), text);
}

status extension_text_read(const char *option, const char *method, const char *text, extension_choice *choice,
                           alibi_error *error)
{
  char name[NAME_SIZE], item[ITEM_SIZE];
  extension_text_name(text, name, sizeof name);
  memset(choice, 0, sizeof *choice);
  status result = position_extension_require(option, method, name, &choice->extension, error);
  if (result != ALIBI_OK) return result;
  field_init(choice->extension->fields, choice->options.bytes);
  const char *first = strchr(text, ':');
  for (const char *at = first ? first + 1 : NULL; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    size_t length = strcspn(at, ",");
    if (length >= sizeof item)
      return fail(error, ALIBI_INVALID, "%s: %s: expected settings of at most %zu bytes, found '%.20s...'", option,
                  name, sizeof item - 1, at);
    snprintf(item, sizeof item, "%.*s", (int)length, at);
    if (stands_before(first + 1, at))
      return fail(error, ALIBI_INVALID, "%s: %s: '%.*s' stands there twice", option, name, (int)strcspn(item, "="),
                  item);
    result = read_setting(option, choice, item, error);
    if (result != ALIBI_OK) return result;
  }
  return ALIBI_OK;
}

void extension_text_write(const extension_choice *choice, char *text, size_t size)
{
  const position_extension *extension = choice->extension;
  extension_choice initial = {0};
  char separator = ':';
  if (size) text[0] = '\0';
  if (!extension || !size) return;
  snprintf(text, size, "%s", extension->name);
  field_init(extension->fields, initial.options.bytes);
  for (size_t i = 0; i < extension->fields.count; i++) {
    const field *f = &extension->fields.fields[i];
    char value[ITEM_SIZE];
    if (field_equal(f, choice->options.bytes, initial.options.bytes)) continue;
    field_get_text(f, choice->options.bytes, value, sizeof value);
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%c%s=%s", separator, f->name, value);
    separator = ',';
  }
}

bool extension_choice_equal(const extension_choice *a, const extension_choice *b)
{
  if (a->extension != b->extension) return false;
  for (size_t i = 0; a->extension && i < a->extension->fields.count; i++)
    if (!field_equal(&a->extension->fields.fields[i], a->options.bytes, b->options.bytes)) return false;
  return true;
}

static bool is_setting(const char *word)
{
  size_t length = strcspn(word, ", "), key = strcspn(word, "=:");
  return key < length && word[key] == '=';
}

bool extension_text_next(const char **list, char *text, size_t size, size_t *length)
{
  const char *at = *list;
  *length = 0;
  text[0] = '\0';
  while ((at = at + strspn(at, ", ")), *at && (*length == 0 || is_setting(at))) {
    size_t word = strcspn(at, ", "), used = strlen(text);
    if (*length) (*length)++;
    snprintf(text + used, size - used, "%s%.*s", *length ? "," : "", (int)word, at);
    *length += word;
    at += word;
  }
  *list = at;
  return *length > 0;
}
