/* --extend names an extension, --beyond one of those of absolute positions: two names for one thing, since a
 * position that does not exist is a question of policy and not of frequencies. */
#include "cli/extend_option.h"

#include <string.h>

void extend_option_add(command_line *line, extend_option *option)
{
  *option = (extend_option){.beyond = "error"};
  command_add_text(
      line, "extend", "NAME", &option->extend,
      "change a trained model's positions, such as ntk or yarn:factor=4,beta_fast=16 for rope; alibi positions "
      "lists them");
  command_add_text(
      line, "beyond", "POLICY", &option->beyond,
      "absolute positions beyond the trained ones: error, clamp (to the last) or wrap (from the first on)");
}

status extend_option_beyond(const char *beyond, const char **name, alibi_error *error)
{
  *name = NULL;
  if (strcmp(beyond, "error") == 0) return ALIBI_OK;
  if (strcmp(beyond, "clamp") != 0 && strcmp(beyond, "wrap") != 0)
    return fail(error, ALIBI_INVALID, "--beyond: expected error, clamp or wrap, found '%s'", beyond);
  *name = beyond;
  return ALIBI_OK;
}

status extend_option_read(const extend_option *option, const alibi_model_config *config, const char **text,
                          alibi_error *error)
{
  extension_choice choice;
  const char *beyond;
  status result;
  TRY(extend_option_beyond(option->beyond, &beyond, error));
  *text = beyond ? beyond : option->extend;
  if (beyond && option->extend)
    RAISE(error, ALIBI_INVALID, "--extend and --beyond %s: expected one of them", beyond);
  if (beyond && !position_extension_find(config->position, beyond))
    RAISE(error, ALIBI_INVALID, "--beyond %s: expected a model with absolute positions, found the method '%s'",
          beyond, config->position);
  if (*text) TRY(model_config_read_extension(config, beyond ? "--beyond" : "--extend", *text, &choice, error));
done:
  return result;
}
