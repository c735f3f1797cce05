/* The configuration of a model that goes on from another one's weights. */
#include "train/fine_tune.h"

#include <string.h>

enum { VALUE_SIZE = 128 };

static status refuse(const field *f, const char *prefix, const char *separator, const void *from,
                     const void *found, alibi_error *error)
{
  char own[VALUE_SIZE], other[VALUE_SIZE];
  field_get_text(f, from, own, sizeof own);
  field_get_text(f, found, other, sizeof other);
  return fail(error, ALIBI_INVALID, "fine-tuning: %s%s%s: expected that of the trained model, %s, found %s",
              prefix, separator, f->name, own, other);
}

/* The first length follows from what the model was. */
static bool is_length(const field *f)
{
  return strcmp(f->name, "train_length") == 0 || strcmp(f->name, "original_length") == 0;
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
    if (!fine_tune_changes(method, f) && !field_equal(f, own, other))
      return refuse(f, method->name, " ", own, other, error);
  }
  return ALIBI_OK;
}

/* The extension's own settings in a configuration, NULL where it has none of the kind; a factor is one that may
 * follow the declared length. */
typedef struct extension_settings {
  const position_extension *extension;
  double *factor;
  int64_t *original_length;
} extension_settings;

static extension_settings settings_of(alibi_model_config *config)
{
  extension_settings found = {.extension = position_extension_find(config->position, config->extension)};
  if (!found.extension) return found;
  const field *factor = field_find(found.extension->fields, "factor");
  const field *original = field_find(found.extension->fields, "original_length");
  unsigned char *bytes = config->extension_options.bytes;
  if (factor && factor->kind == FIELD_REAL && factor->initial == 0)
    found.factor = (double *)(bytes + factor->offset);
  if (original) found.original_length = (int64_t *)(bytes + original->offset);
  return found;
}

/* The length that an extension of this model refers to. */
static int64_t reference_length(const alibi_model_config *from)
{
  alibi_model_config own = *from;
  extension_settings settings = settings_of(&own);
  if (!settings.extension) return from->train_length;
  bool set = settings.original_length && *settings.original_length > 0;
  return set ? *settings.original_length : model_config_original_length(from);
}

static status settle_extension(const alibi_model_config *from, alibi_model_config *config, alibi_error *error)
{
  extension_settings settings = settings_of(config);
  int64_t length = reference_length(from), first = model_config_original_length(config);
  if (!settings.extension) return ALIBI_OK;
  if (!settings.original_length && length > first)
    return fail(error, ALIBI_INVALID,
                "fine-tuning: extension: expected one that can refer to the %lld tokens that the model was "
                "trained at without "
                "it, found '%s', which refers to the first %lld",
                (long long)length, settings.extension->name, (long long)first);
  if (settings.original_length && *settings.original_length == 0 && length != first)
    *settings.original_length = length;
  if (settings.original_length && *settings.original_length > 0) length = *settings.original_length;
  if (settings.factor && *settings.factor == 0 && config->train_length > length)
    *settings.factor = (double)config->train_length / (double)length;
  return ALIBI_OK;
}

status fine_tune_config(const alibi_model_config *from, alibi_model_config *config, alibi_error *error)
{
  alibi_model_config own = *from;
  status result;
  TRY(model_config_resolve(&own, error));
  int64_t original = model_config_original_length(&own);
  config->original_length = config->train_length == original ? 0 : original;
  TRY(model_config_resolve(config, error));
  TRY(check_same(&own, config, error));
  TRY(settle_extension(&own, config, error));
  TRY(model_config_resolve(config, error));
done:
  return result;
}

status fine_tune_check_kept(const alibi_model_config *from, const alibi_model_config *config, alibi_error *error)
{
  alibi_model_config own = *from;
  extension_settings settings = settings_of(&own);
  if (!settings.factor || *settings.factor == 0 || config->train_length <= from->train_length) return ALIBI_OK;
  double reach = *settings.factor * (double)reference_length(from);
  if ((double)config->train_length <= reach) return ALIBI_OK;
  return fail(error, ALIBI_INVALID,
              "--train-length: the model's extension, '%s' with a factor of %g, reaches %.10g tokens, not %lld: "
              "expected --extend "
              "beside it, '%s' for a new factor or 'none', found neither",
              settings.extension->name, *settings.factor, reach, (long long)config->train_length,
              settings.extension->name);
}
