/* Programs know settings as fields of structs, and so the checks call them; a command line has other names for the same. */
#include "train/option_sentence.h"

#include <stdio.h>

#include "model/config.h"
#include "train/trainer.h"

status option_sentence(status result, const char *method, alibi_error *error)
{
  if (result != ALIBI_INVALID) return result;
  const position_method *row = position_method_find(method);
  char prefix[ALIBI_NAME_SIZE + 1];
  snprintf(prefix, sizeof prefix, "%.63s-", method);
  if (row) field_say_option(row->fields, prefix, error);
  field_say_option(model_config_fields(), "", error);
  field_say_option(train_option_fields(), "", error);
  return result;
}
