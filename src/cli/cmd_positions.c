/* alibi positions: the position methods and extensions of this build, from the registries themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "file/json.h"
#include "position/position.h"

typedef struct positions_options {
  bool json;
} positions_options;

static const field positions_fields[] = {
    {.name = "json",
     .kind = FIELD_BOOLEAN,
     .offset = offsetof(positions_options, json),
     .maximum = 1,
     .help = "print JSON"},
};

static positions_options options;

static void positions_add_options(command_line *line)
{
  command_add_group(line, "Options", (field_table)FIELD_TABLE(positions_fields), &options, "");
}

static void print_settings(field_table table, const char *prefix)
{
  union {
    unsigned char bytes[POSITION_OPTIONS_SIZE];
    double align;
  } initial = {{0}};
  field_init(table, initial.bytes);
  for (size_t i = 0; i < table.count; i++) {
    char value[FIELD_TEXT_SIZE + 32], name[128];
    field_get_text(&table.fields[i], initial.bytes, value, sizeof value);
    snprintf(name, sizeof name, "--%s-%s", prefix, table.fields[i].name);
    for (char *c = name; *c; c++)
      if (*c == '_') *c = '-';
    printf("  %-26s %s (default %s)\n", name, table.fields[i].help, value);
  }
}

static void print_method(const position_method *m)
{
  printf("%s: %s\n\n  formula     %s\n  source      %s\n  relative    %s\n", m->name, m->title, m->formula,
         m->source, m->relative ? "yes: scores depend on the distance only" : "no");
  printf("  parameters  %s\n", m->parameters ? "yes, learned" : "none");
  printf("  skips       %s\n", m->decays ? "yes: keys that are provably invisible" : "never: its bias does not fall");
  if (m->fields.count) printf("\n");
  print_settings(m->fields, m->name);
  for (size_t i = 0; i < position_extension_count(); i++) {
    const position_extension *x = position_extension_at(i);
    if (!position_extends(x, m)) continue;
    printf("\n--extend %s: %s\n\n  formula     %s\n  source      %s\n", x->name, x->title, x->formula, x->source);
  }
}

static json_node *method_node(const position_method *m)
{
  json_node *node = node_new_object(), *extensions = node_new_array();
  node_set_text(node, "name", m->name);
  node_set_text(node, "title", m->title);
  node_set_text(node, "formula", m->formula);
  node_set_text(node, "source", m->source);
  node_set_boolean(node, "relative", m->relative);
  node_set_boolean(node, "decays", m->decays);
  node_set_boolean(node, "parameters", m->parameters != NULL);
  for (size_t i = 0; i < position_extension_count(); i++)
    if (position_extends(position_extension_at(i), m))
      node_append_text(extensions, position_extension_at(i)->name);
  node_set(node, "extensions", extensions);
  return node;
}

static status print_json(const position_method *only, alibi_error *error)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < position_method_count(); i++)
    if (!only || position_method_at(i) == only) node_append(list, method_node(position_method_at(i)));
  char *text = node_to_text(list);
  bool written = text != NULL;
  if (text) printf("%s\n", text);
  free(text);
  node_free(list);
  return written ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the JSON text");
}

static status positions_run(command_line *line, alibi_error *error)
{
  const position_method *only = NULL;
  if (line->operand_count > 1)
    return fail(error, ALIBI_INVALID, "positions: expected at most one NAME, found %zu", line->operand_count);
  if (line->operand_count == 1) {
    status result = position_method_require("positions", line->operands[0], &only, error);
    if (result != ALIBI_OK) return result;
  }
  if (options.json) return print_json(only, error);
  if (only) {
    print_method(only);
    return ALIBI_OK;
  }
  for (size_t i = 0; i < position_method_count(); i++)
    printf("%-12s %s\n", position_method_at(i)->name, position_method_at(i)->title);
  printf("\nTo go beyond the trained length (--extend):\n\n");
  for (size_t i = 0; i < position_extension_count(); i++)
    printf("%-12s %s (of %s)\n", position_extension_at(i)->name, position_extension_at(i)->title,
           position_extension_at(i)->family);
  return ALIBI_OK;
}

const command command_positions = {
    .name = "positions",
    .summary = "list the position methods, or describe one",
    .operands = "[NAME]",
    .details =
        "Without NAME: all of them. With NAME: its formula, its source, its settings, and how it can be extended.",
    .options = positions_add_options,
    .run = positions_run,
};
