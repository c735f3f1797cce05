/* The configuration of a model that goes on from another one's weights. */
#include "train/fine_tune.h"

#include <string.h>

enum { VALUE_SIZE = 128 };

static status refuse(const field *f, const char *prefix, const char *separator, const void *from, const void *found,
                     alibi_error *error)
{
  char own[VALUE_SIZE], other[VALUE_SIZE];
  field_get_text(f, from, own, sizeof own);
  field_get_text(f, found, other, sizeof other);
  return fail(error, ALIBI_INVALID, "fine-tuning: %s%s%s: expected that of the trained model, %s, found %s", prefix, separator,
              f->name, own, other);
}

static bool is_length(const field *f)
{
  return strcmp(f->name, "train_length") == 0;
}

/* The methods that turn queries and keys have frequencies, which a changed base shifts as extensions do. */
bool fine_tune_changes(const position_method *method, const field *setting)
{
  return method->angle && strcmp(setting->name, "base") == 0;
}

static status check_same(const alibi_model_config *from, const alibi_model_config *config, alibi_error *error)
{
  field_table all = model_config_fields();
  for (size_t i = 0; i < all.count; i++) {
    const field *f = &all.fields[i];
    if (!is_length(f) && !field_equal(f, from, config)) return refuse(f, "", "", from, config, error);
  }
  const position_method *method = model_config_method(from);
  for (size_t i = 0; i < method->fields.count; i++) {
    const field *f = &method->fields.fields[i];
    const void *own = from->position_options.bytes, *other = config->position_options.bytes;
    if (!fine_tune_changes(method, f) && !field_equal(f, own, other)) return refuse(f, method->name, " ", own, other, error);
  }
  return ALIBI_OK;
}

/* Frequencies that followed the declared length would be others at every length than those that were trained. */
static void fix_factor(alibi_model_config *config)
{
  const extension_choice own = model_config_extension(config);
  const field *factor = own.extension ? field_find(own.extension->fields, "factor") : NULL;
  const field *first = own.extension ? field_find(own.extension->fields, "original_length") : NULL;
  int64_t original = first ? (int64_t)field_get_number(first, config->extension_options.bytes) : 0;
  if (original == 0) original = model_config_original_length(config);
  if (!factor || factor->kind != FIELD_REAL || config->train_length <= original) return;
  double *value = (double *)(config->extension_options.bytes + factor->offset);
  if (*value == 0) *value = (double)config->train_length / (double)original;
}

status fine_tune_config(const alibi_model_config *from, alibi_model_config *config, alibi_error *error)
{
  alibi_model_config own = *from;
  status result;
  TRY(model_config_resolve(&own, error));
  TRY(model_config_resolve(config, error));
  TRY(check_same(&own, config, error));
  int64_t original = model_config_original_length(&own);
  config->original_length = config->train_length == original ? 0 : original;
  fix_factor(config);
  TRY(model_config_resolve(config, error));
done:
  return result;
}
