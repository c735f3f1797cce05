/* alibi positions: the position methods and extensions of this build, from the registries themselves. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/json_output.h"
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
  unsigned char bytes[ALIBI_POSITION_OPTIONS_SIZE];
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
    snprintf(name, sizeof name, "%s%s%s%s", prefix ? "--" : "", prefix ? prefix : "", prefix ? "-" : "",
             table.fields[i].name);
    for (char *c = name; *c && prefix; c++)
      if (*c == '_') *c = '-';
    printf("  %-26s %s (default %s)\n", name, table.fields[i].help, value);
  }
}

/* A model of which each number tells what it is. */
static const position_shape probe = {.layers = 5, .heads = 8, .head_size = 16, .width = 128, .train_length = 1000};

/* "layers * heads", or the number where it depends on no shape. */
static void extent_text(size_t extent, char *text, size_t size)
{
  const struct {
    size_t extent;
    const char *name;
  } known[] = {{probe.layers, "layers"},
               {probe.heads, "heads"},
               {probe.layers * probe.heads, "layers * heads"},
               {probe.width, "width"},
               {probe.train_length, "train_length"}};
  snprintf(text, size, "%zu", extent);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i].extent == extent) snprintf(text, size, "%s", known[i].name);
}

static size_t parameters_of(const position_method *m, position_parameter *list)
{
  initial_options initial = {0};
  field_init(m->fields, initial.bytes);
  return m->parameters ? m->parameters(&probe, initial.bytes, list) : 0;
}

/* The names and shapes of what it learns, "none" for nothing. */
static void parameters_text(const position_method *m, char *text, size_t size)
{
  position_parameter list[POSITION_MAX_PARAMETERS];
  size_t count = parameters_of(m, list);
  snprintf(text, size, "%s", count ? "learned: " : "none");
  for (size_t i = 0; i < count; i++) {
    char rows[32], columns[32];
    extent_text(list[i].rows, rows, sizeof rows);
    extent_text(list[i].columns, columns, sizeof columns);
    snprintf(text + strlen(text), size - strlen(text), "%s%.63s [%s, %s]", i ? ", " : "", list[i].name, rows,
             columns);
  }
}

static json_node *parameters_node(const position_method *m)
{
  position_parameter list[POSITION_MAX_PARAMETERS];
  json_node *nodes = node_new_array();
  size_t count = parameters_of(m, list);
  for (size_t i = 0; i < count; i++) {
    char rows[32], columns[32];
    json_node *node = node_new_object();
    extent_text(list[i].rows, rows, sizeof rows);
    extent_text(list[i].columns, columns, sizeof columns);
    node_set_text(node, "name", list[i].name);
    node_set_text(node, "rows", rows);
    node_set_text(node, "columns", columns);
    node_append(nodes, node);
  }
  return nodes;
}

static void add_cost(char *text, size_t size, const char *cost)
{
  size_t used = strlen(text);
  snprintf(text + used, size - used, "%s%s", used ? "; " : "", cost);
}

/* Its plan for the smallest text; the tables are not there. */
static position_plan outline_of(const position_method *m)
{
  initial_options initial = {0};
  arena counted = {0};
  position_plan plan = {.length = 1, .sets = 1, .bias = BIAS_NONE};
  position_request request = {.shape = probe, .options = initial.bytes, .length = 1};
  field_init(m->fields, initial.bytes);
  m->layout(&request, &plan, &counted);
  return plan;
}

/* What the model does for its plan, beside what it does for none. */
static void cost_text(const position_method *m, char *text, size_t size)
{
  position_plan plan = outline_of(m);
  text[0] = '\0';
  if (m->embedding) add_cost(text, size, "one addition a channel of a token");
  if (plan.rotary) add_cost(text, size, "four multiply-adds a pair of channels of q and k");
  if (plan.bias == BIAS_SLOPE) add_cost(text, size, "one multiply-add a score");
  if (plan.bias == BIAS_DISTANCE)
    add_cost(text, size,
             m->factor ? "one multiply-add a score, tables over distances"
                       : "one addition a score, a table over distances");
  if (plan.bias == BIAS_ROWS) add_cost(text, size, "a function of every score");
  if (plan.gated) add_cost(text, size, "a gate a head of a token, one addition a score");
  if (plan.window) add_cost(text, size, "scores within the window only");
  if (!text[0]) add_cost(text, size, "nothing");
}

/* Has it, with its own settings, heads whose slope is 0? */
static bool has_flat_heads(const position_method *m)
{
  initial_options initial = {0};
  position_tables tables;
  position_request request = {.shape = probe, .options = initial.bytes, .length = 1};
  bool flat = false;
  field_init(m->fields, initial.bytes);
  if (m->parameters || position_prepare(m, &request, &tables, NULL) != ALIBI_OK) return false;
  for (size_t h = 0; tables.plan.bias == BIAS_SLOPE && h < probe.heads; h++) flat |= tables.plan.slopes[h] == 0;
  position_release(&tables);
  return flat;
}

static const char *skips_text(const position_method *m)
{
  if (outline_of(m).window) return "yes: keys outside the window";
  if (!m->decays) return "never: no bias puts a key out of sight";
  return has_flat_heads(m) ? "on heads with a slope: keys that are provably invisible"
                           : "yes: keys that are provably invisible";
}

/* SIZE_MAX for none. */
static size_t limit_of(const position_method *m)
{
  initial_options initial = {0};
  field_init(m->fields, initial.bytes);
  return position_method_limit(m, &probe, initial.bytes, NULL);
}

static void print_limit(const position_method *m)
{
  size_t limit = limit_of(m);
  if (limit == SIZE_MAX) printf("  positions   without end\n");
  else if (limit == probe.train_length) printf("  positions   end at the trained length\n");
  else if (!m->further) printf("  positions   %zu\n", limit);
  else printf("  positions   %zu (%s moves the end)\n", limit, m->further);
}

/* A number, "train_length" where it is that, or null for none. */
static void set_limit(json_node *node, const position_method *m)
{
  size_t limit = limit_of(m);
  if (limit == SIZE_MAX) node_set_null(node, "limit");
  else if (limit == probe.train_length) node_set_text(node, "limit", "train_length");
  else node_set_integer(node, "limit", (int64_t)limit);
}

static void print_method(const position_method *m)
{
  printf("%s: %s\n\n  formula     %s\n  source      %s\n  relative    %s\n", m->name, m->title, m->formula,
         m->source, m->relative ? "yes: scores depend on the distance only" : "no");
  char names[POSITION_MAX_PARAMETERS * 2 * FIELD_TEXT_SIZE];
  parameters_text(m, names, sizeof names);
  printf("  parameters  %s\n  skips       %s\n", names, skips_text(m));
  cost_text(m, names, sizeof names);
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
  char cost[256];
  node_set_text(node, "name", m->name);
  node_set_text(node, "title", m->title);
  node_set_text(node, "formula", m->formula);
  node_set_text(node, "source", m->source);
  node_set_boolean(node, "relative", m->relative);
  node_set_boolean(node, "decays", m->decays);
  node_set(node, "parameters", parameters_node(m));
  node_set_text(node, "skips", skips_text(m));
  cost_text(m, cost, sizeof cost);
  node_set_text(node, "cost", cost);
  set_limit(node, m);
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
  return print_node(list, error);
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
    .summary = "List the position methods, or describe one.",
    .operands = "[NAME]",
    .details = "Without NAME: all of them. With NAME: its formula, its source, what it learns and costs, its "
               "settings, and how it can be extended, each with its settings.",
    .options = positions_add_options,
    .run = positions_run,
};
