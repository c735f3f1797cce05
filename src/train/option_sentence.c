/* Programs know settings as fields of structs, and so the checks call them; a command line has other names for the
 * same. */
#include "train/option_sentence.h"

#include <stdio.h>
#include <string.h>

#include "model/config.h"
#include "train/trainer.h"

/* Without what only a file says. */
static field_table typed_fields(field *room, size_t size)
{
  field_table all = model_config_fields(), typed = {room, 0};
  for (size_t i = 0; i < all.count && typed.count < size; i++)
    if (strcmp(all.fields[i].name, "original_length") != 0) room[typed.count++] = all.fields[i];
  return typed;
}

status option_sentence(status result, const char *method, alibi_error *error)
{
  if (result != ALIBI_INVALID) return result;
  const position_method *row = position_method_find(method);
  char prefix[ALIBI_NAME_SIZE + 1];
  field room[64];
  snprintf(prefix, sizeof prefix, "%.63s-", method);
  if (row) field_say_option(row->fields, prefix, error);
  field_say_option(typed_fields(room, sizeof room / sizeof room[0]), "", error);
  field_say_option(train_option_fields(), "", error);
  return result;
}
