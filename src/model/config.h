/* model/config.h - the configuration of a model: its table of fields, checks, JSON. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include "alibi/model.h"
#include "base/field.h"
#include "file/json.h"
#include "kernel/kernel.h"
#include "position/extension_text.h"
#include "position/position.h"

/* All fields but the size and the position options (those have the method's own table). */
field_table model_config_fields(void);

const position_method *model_config_method(const alibi_model_config *config);
/* original_length, or train_length where that is 0; the trained length of the shape. */
int64_t model_config_original_length(const alibi_model_config *config);
position_shape model_config_position_shape(const alibi_model_config *config);
activation_kind model_config_activation(const alibi_model_config *config);
/* Has a linear layer a bias, whose own field is given: config->qkv_bias. */
bool model_config_bias(const alibi_model_config *config, int own);
/* What q.k is multiplied by. */
float model_config_score_scale(const alibi_model_config *config);
/* The model's own extension; its extension is NULL where it has none. */
extension_choice model_config_extension(const alibi_model_config *config);

/* Sets the method and its settings to their initial values, without an extension. */
status model_config_set_method(alibi_model_config *config, const char *name, alibi_error *error);

/* A copy of what a caller handed over (base/settings.h), not yet checked. */
status model_config_take(const alibi_model_config *given, alibi_model_config *config, alibi_error *error);

/* Checks, and replaces zero sizes by what they stand for. */
status model_config_resolve(alibi_model_config *config, alibi_error *error);

/* The model's own extension, from text: "yarn:factor=4", "none". */
status model_config_set_extension(alibi_model_config *config, const char *option, const char *text,
                                  alibi_error *error);

/* An extension by its text ("yarn:factor=4"), as this model would be run with it: refused beside one of the
 * model's own.  Its trained length is the model's latest.  option: how the user knows it. */
status model_config_read_extension(const alibi_model_config *config, const char *option, const char *text,
                                   extension_choice *choice, alibi_error *error);

/* config.json: every field, and "position": {"method": name, settings...}. */
json_node *model_config_node(const alibi_model_config *config);
status model_config_read(const json_node *node, const char *what, alibi_model_config *config, alibi_error *error);

#endif
