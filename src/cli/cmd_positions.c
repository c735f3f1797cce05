/* alibi positions: the position methods and extensions of this build, from the registries themselves. */
#include <stddef.h>
#include <stdint.h>
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

typedef union initial_options {
  max_align_t align;
  unsigned char bytes[POSITION_OPTIONS_SIZE];
} initial_options;

static void initial_text(field_table table, const initial_options *initial, size_t i, char *text, size_t size)
{
  field_get_text(&table.fields[i], initial->bytes, text, size);
  if (!text[0]) snprintf(text, size, "none");
}

/* As options --PREFIX-NAME, or, without a prefix, as they stand after --extend. */
static void print_settings(field_table table, const char *prefix)
{
  initial_options initial = {0};
  field_init(table, initial.bytes);
  for (size_t i = 0; i < table.count; i++) {
    char value[FIELD_TEXT_SIZE + 32], name[128];
    initial_text(table, &initial, i, value, sizeof value);
    snprintf(name, sizeof name, "%s%s%s%s", prefix ? "--" : "", prefix ? prefix : "", prefix ? "-" : "", table.fields[i].name);
    for (char *c = name; *c && prefix; c++)
      if (*c == '_') *c = '-';
    printf("  %-26s %s (default %s)\n", name, table.fields[i].help, value);
  }
}

static const position_shape small = {.layers = 1, .heads = 1, .head_size = 2, .width = 2, .train_length = 64};

/* The names of what it learns, "none" for nothing. */
static void parameter_names(const position_method *m, char *text, size_t size)
{
  position_parameter list[POSITION_MAX_PARAMETERS];
  initial_options initial = {0};
  field_init(m->fields, initial.bytes);
  size_t count = m->parameters ? m->parameters(&small, initial.bytes, list) : 0;
  snprintf(text, size, "%s", count ? "learned: " : "none");
  for (size_t i = 0; i < count; i++)
    snprintf(text + strlen(text), size - strlen(text), "%s%.63s", i ? ", " : "", list[i].name);
}

static void add_cost(char *text, size_t size, const char *cost)
{
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? "; " : "", cost);
}

/* What the model does for its plan, beside what it does for none; the tables are not filled. */
static void cost_of(const position_method *m, char *text, size_t size)
{
  initial_options initial = {0};
  arena counted = {0};
  position_plan plan = {.length = 1, .sets = 1, .embedding_scale = 1, .score_scale = 1, .bias = BIAS_NONE};
  position_request request = {.shape = small, .options = initial.bytes, .length = 1};
  field_init(m->fields, initial.bytes);
  m->layout(&request, &plan, &counted);
  text[0] = '\0';
  if (m->embedding) add_cost(text, size, "one addition a channel of a token");
  if (plan.rotary) add_cost(text, size, "four multiply-adds a pair of channels of q and k");
  if (plan.bias == BIAS_SLOPE) add_cost(text, size, "one multiply-add a score");
  if (plan.bias == BIAS_DISTANCE)
    add_cost(text, size, m->factor ? "one multiply-add a score, tables over distances" : "one addition a score, a table over distances");
  if (plan.bias == BIAS_ROWS) add_cost(text, size, "a function of every score");
  if (plan.gated) add_cost(text, size, "a gate a head of a token, one addition a score");
  if (plan.window) add_cost(text, size, "scores within the window only");
  if (!text[0]) add_cost(text, size, "nothing");
}

/* Of the trained length, the method's own, or none. */
static void print_limit(const position_method *m)
{
  initial_options initial = {0};
  field_init(m->fields, initial.bytes);
  size_t limit = position_method_limit(m, &small, initial.bytes, NULL);
  if (limit == SIZE_MAX) printf("  positions   without end\n");
  else if (limit == small.train_length) printf("  positions   end at the trained length\n");
  else printf("  positions   %zu\n", limit);
}

static void print_method(const position_method *m)
{
  printf("%s: %s\n\n  formula     %s\n  source      %s\n  relative    %s\n", m->name, m->title, m->formula,
         m->source, m->relative ? "yes: scores depend on the distance only" : "no");
  char names[POSITION_MAX_PARAMETERS * FIELD_TEXT_SIZE];
  parameter_names(m, names, sizeof names);
  printf("  parameters  %s\n", names);
  printf("  skips       %s\n", m->decays ? "yes: keys that are provably invisible" : "never: no bias puts a key out of sight");
  cost_of(m, names, sizeof names);
  printf("  costs       %s\n", names);
  print_limit(m);
  position_extension_names(m->name, names, sizeof names);
  printf("  family      %s\n  extensions  %s\n", position_method_family(m), names[0] ? names : "none");
  if (m->fields.count) printf("\n");
  print_settings(m->fields, m->name);
  for (size_t i = 0; i < position_extension_count(); i++) {
    const position_extension *x = position_extension_at(i);
    if (!position_extends(x, m)) continue;
    printf("\n--extend %s%s: %s\n\n  formula     %s\n  source      %s\n", x->name,
           x->fields.count ? "[:name=value,...]" : "", x->title, x->formula, x->source);
    if (x->fields.count) printf("\n");
    print_settings(x->fields, NULL);
  }
}

static json_node *settings_node(field_table table)
{
  json_node *list = node_new_array();
  initial_options initial = {0};
  field_init(table, initial.bytes);
  for (size_t i = 0; i < table.count; i++) {
    char value[FIELD_TEXT_SIZE + 32];
    json_node *node = node_new_object();
    field_get_text(&table.fields[i], initial.bytes, value, sizeof value);
    node_set_text(node, "name", table.fields[i].name);
    node_set_text(node, "default", value);
    node_set_text(node, "help", table.fields[i].help);
    node_append(list, node);
  }
  return list;
}

static json_node *extension_node(const position_extension *x)
{
  json_node *node = node_new_object();
  node_set_text(node, "name", x->name);
  node_set_text(node, "title", x->title);
  node_set_text(node, "formula", x->formula);
  node_set_text(node, "source", x->source);
  node_set(node, "settings", settings_node(x->fields));
  return node;
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
  node_set_text(node, "family", position_method_family(m));
  node_set(node, "settings", settings_node(m->fields));
  for (size_t i = 0; i < position_extension_count(); i++)
    if (position_extends(position_extension_at(i), m))
      node_append(extensions, extension_node(position_extension_at(i)));
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
    printf("%-16s %s\n", position_method_at(i)->name, position_method_at(i)->title);
  printf("\nTo go beyond the trained length (--extend):\n\n");
  for (size_t i = 0; i < position_extension_count(); i++)
    printf("%-16s of %s: %s\n", position_extension_at(i)->name, position_extension_at(i)->family,
           position_extension_at(i)->title);
  return ALIBI_OK;
}

const command command_positions = {
    .name = "positions",
    .summary = "list the position methods, or describe one",
    .operands = "[NAME]",
    .details =
        "Without NAME: all of them. With NAME: its formula, its source, its settings, and how it can be extended, "
        "each with its settings.",
    .options = positions_add_options,
    .run = positions_run,
};
