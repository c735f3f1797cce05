/* Making a plan from a request, and keeping it in study.json. */
#include "study/study_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alibi/evaluate.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"
#include "model/config.h"
#include "report/results.h"
#include "train/option_sentence.h"
#include "train/trainer.h"

enum { LONGEST = 1 << 24 }; /* tokens of a sequence */

_Static_assert((int)RESULT_EXTEND_SIZE >= (int)EXTENSION_TEXT_SIZE,
               "a curve names any extension with its settings");

#define AT(member) offsetof(study_settings, member)

static const field fields[] = {
    {"bytes", FIELD_BOOLEAN, AT(bytes), 0, 1, 0, NULL, NULL, "tokens are bytes instead of BPE"},
    {"vocabulary", FIELD_INTEGER, AT(vocabulary), 256, 1000000, 1024, NULL, NULL,
     "tokens of the BPE trained on the text"},
    {"held_out", FIELD_REAL, AT(held_out), 0.001, 0.9, 0.05, NULL, NULL,
     "share of each text held out for testing, at its end"},
    {"minutes", FIELD_REAL, AT(minutes), 0, 1e6, 0, NULL, NULL,
     "plan the steps so that the study takes so long; 0: --steps"},
    {"max_targets", FIELD_INTEGER, AT(max_targets), 16, 1e12, 8192, NULL, NULL,
     "scored tokens a cell at most, nonoverlapping and sliding, or as many as the longest test length"},
    {"fixed_targets", FIELD_INTEGER, AT(fixed_targets), 16, 1e12, 4096, NULL, NULL,
     "scored tokens a cell at most, fixed-target: a window scores few, so these cost most"},
    {"rival_length", FIELD_INTEGER, AT(rival_length), 0, 1 << 24, 0, NULL, NULL,
     "also train a rival at this longer length; 0: none"},
    {"jobs", FIELD_INTEGER, AT(jobs), 0, 1024, 0, NULL, NULL,
     "methods trained side by side; 0: one per processor"},
};

field_table study_fields(void)
{
  return (field_table)FIELD_TABLE(fields);
}

status study_path(const char *directory, const char *a, const char *b, char **path, alibi_error *error)
{
  char *first = path_join(directory, a);
  *path = first && b ? path_join(first, b) : first;
  if (b) free(first);
  return *path ? ALIBI_OK : fail(error, ALIBI_FAILED, "not enough memory for the path of %s", a);
}

/* The next item of a list as a word of its own; false at the end, and where *result says what is wrong with it. */
static bool next_word(const char *option, const char **list, char word[LIST_ITEM_SIZE], status *result,
                      alibi_error *error)
{
  const char *item;
  size_t size;
  if (*result != ALIBI_OK || !list_next(list, &item, &size)) return false;
  *result = list_item(option, item, size, word, error);
  return *result == ALIBI_OK;
}

static status add_name(study_name *names, size_t *count, const char *name, const char *option,
                       alibi_error *error)
{
  for (size_t i = 0; i < *count; i++)
    if (strcmp(names[i], name) == 0)
      return fail(error, ALIBI_INVALID, "%s: '%s' stands there twice", option, name);
  if (*count == STUDY_MAX_NAMES)
    return fail(error, ALIBI_INVALID, "%s: expected at most %d names", option, STUDY_MAX_NAMES);
  snprintf(names[(*count)++], sizeof *names, "%s", name);
  return ALIBI_OK;
}

/* Keeps the list ascending and without doubles. */
static status add_length(int64_t *lengths, size_t *count, int64_t value, const char *option, alibi_error *error)
{
  size_t place = *count;
  while (place > 0 && lengths[place - 1] > value) place--;
  if (place > 0 && lengths[place - 1] == value) return ALIBI_OK;
  if (*count == STUDY_MAX_LENGTHS)
    return fail(error, ALIBI_INVALID, "%s: expected at most %d lengths", option, STUDY_MAX_LENGTHS);
  memmove(lengths + place + 1, lengths + place, (*count - place) * sizeof *lengths);
  lengths[place] = value;
  ++*count;
  return ALIBI_OK;
}

/* Ascending. */
static status read_lengths(const char *list, const char *option, int64_t *lengths, size_t *count,
                           alibi_error *error)
{
  int64_t listed[STUDY_MAX_LENGTHS];
  size_t listed_count;
  status result = list_lengths(option, list, LONGEST, listed, STUDY_MAX_LENGTHS, &listed_count, error);
  *count = 0;
  for (size_t i = 0; result == ALIBI_OK && i < listed_count; i++)
    result = add_length(lengths, count, listed[i], option, error);
  return result;
}

/* The training length of a rival has an option of its own. */
static status rival_sentence(status result, alibi_error *error)
{
  static const char before[] = "--train-length", after[] = "--rival-length"; /* as long as each other */
  char *at = result == ALIBI_INVALID && error ? strstr(error->message, before) : NULL;
  if (at) memcpy(at, after, sizeof after - 1);
  return result;
}

static status add_entry(study_plan *plan, const study_request *request, const char *method, int64_t length,
                        const char *role, bool plain_label, alibi_error *error)
{
  if (plan->entry_count == STUDY_MAX_ENTRIES)
    return fail(error, ALIBI_INVALID, "--methods: expected at most %d methods and lengths together",
                STUDY_MAX_ENTRIES);
  study_entry *e = &plan->entries[plan->entry_count];
  *e = (study_entry){.model = request->model};
  const position_method *row;
  status result =
      position_method_require(strcmp(role, "rival") == 0 ? "--rival" : "--methods", method, &row, error);
  if (result == ALIBI_OK) result = model_config_set_method(&e->model, method, error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; request->options && i < position_method_count(); i++)
    if (strcmp(position_method_at(i)->name, method) == 0)
      memcpy(e->model.position_options.bytes, request->options[i], position_method_at(i)->options_size);
  e->model.vocabulary = plan->settings.bytes ? 256 : plan->settings.vocabulary;
  e->model.train_length = length;
  result = option_sentence(model_config_resolve(&e->model, error), method, error);
  if (strcmp(role, "rival") == 0) result = rival_sentence(result, error);
  if (result != ALIBI_OK) return result;
  if (plain_label) snprintf(e->label, sizeof e->label, "%.63s", method);
  else snprintf(e->label, sizeof e->label, "%.63s-%lld", method, (long long)length);
  snprintf(e->role, sizeof e->role, "%s", role);
  for (size_t i = 0; i < plan->entry_count; i++)
    if (strcmp(plan->entries[i].label, e->label) == 0)
      return fail(error, ALIBI_INVALID, "--methods: '%s' stands there twice", e->label);
  plan->entry_count++;
  return ALIBI_OK;
}

static const struct method_set {
  const char *name, *methods;
} sets[] = {
    {"classic", "none,learned,sinusoidal,rope,t5,alibi"},
    {"modern", "rope,p-rope,rope-window,fire,fox,kerple-log,scale-invariant,nape,alibi"},
    {"rope-family", "rope,p-rope,xpos,rope-window,scale-invariant"},
    {"alibi-family", "alibi,alibi-learned,alibi-log,nape,bam,kerple-log,kerple-power,sandwich,fox"},
};
enum { SETS = sizeof sets / sizeof sets[0] };

bool study_uses(const char *methods, const char *method)
{
  char word[LIST_ITEM_SIZE];
  status result = ALIBI_OK; /* what is wrong with the list is told when it is read */
  while (next_word("", &methods, word, &result, NULL)) {
    if (strcmp(word, "all") == 0 || strcmp(word, method) == 0) return true;
    for (size_t i = 0; i < SETS; i++)
      if (strcmp(word, sets[i].name) == 0 && study_uses(sets[i].methods, method)) return true;
  }
  return false;
}

static bool entry_exists(const study_plan *plan, const char *method, int64_t length)
{
  for (size_t i = 0; i < plan->entry_count; i++)
    if (strcmp(plan->entries[i].model.position, method) == 0 && plan->entries[i].model.train_length == length)
      return true;
  return false;
}

/* Sets may overlap: what is there already stays as it is. */
static status add_set(study_plan *plan, const study_request *request, const char *methods, int64_t length,
                      bool plain_label, alibi_error *error)
{
  char name[LIST_ITEM_SIZE];
  status result = ALIBI_OK;
  while (next_word("--methods", &methods, name, &result, error))
    if (!entry_exists(plan, name, length))
      result = add_entry(plan, request, name, length, "method", plain_label, error);
  return result;
}

/* A word of --methods: all of them, a set, or a method. */
static status add_word(study_plan *plan, const study_request *request, const char *word, int64_t length,
                       bool plain_label, alibi_error *error)
{
  status result = ALIBI_OK;
  for (size_t i = 0; i < SETS; i++)
    if (strcmp(word, sets[i].name) == 0)
      return add_set(plan, request, sets[i].methods, length, plain_label, error);
  if (strcmp(word, "all") != 0) return add_entry(plan, request, word, length, "method", plain_label, error);
  for (size_t i = 0; result == ALIBI_OK && i < position_method_count(); i++)
    result = add_set(plan, request, position_method_at(i)->name, length, plain_label, error);
  return result;
}

static status make_entries(const study_request *request, study_plan *plan, alibi_error *error)
{
  int64_t lengths[STUDY_MAX_LENGTHS + 1];
  size_t count;
  char name[LIST_ITEM_SIZE];
  const char *list = request->methods ? request->methods : "none,learned,sinusoidal,rope,t5,alibi";
  status result;
  TRY(list_check("--methods", list, error));
  TRY(read_lengths(request->train_lengths ? request->train_lengths : "64", "--train-length", lengths, &count,
                   error));
  for (size_t l = 0; l < count; l++) {
    const char *rest = list;
    while (next_word("--methods", &rest, name, &result, error))
      TRY(add_word(plan, request, name, lengths[l], l == 0, error));
    if (result != ALIBI_OK) goto done;
  }
  if (request->settings.rival_length > 0) {
    if (request->settings.rival_length <= lengths[0])
      RAISE(error, ALIBI_INVALID, "--rival-length: expected more than the training length of %lld, found %lld",
            (long long)lengths[0], (long long)request->settings.rival_length);
    TRY(add_entry(plan, request, request->rival ? request->rival : "sinusoidal", request->settings.rival_length,
                  "rival", false, error));
  }
done:
  return result;
}

/* The lengths that were asked for, and every training length: what is worse is worse than there. */
static status make_lengths(const study_request *request, study_plan *plan, alibi_error *error)
{
  static const char option[] = "--test-lengths";
  int64_t shortest = plan->entries[0].model.train_length;
  status result = ALIBI_OK;
  if (request->test_lengths)
    TRY(read_lengths(request->test_lengths, option, plan->lengths, &plan->length_count, error));
  else
    for (int64_t factor = 1; factor <= 16; factor *= 2)
      TRY(add_length(plan->lengths, &plan->length_count, shortest * factor, option, error));
  for (size_t i = 0; i < plan->entry_count; i++)
    TRY(add_length(plan->lengths, &plan->length_count, plan->entries[i].model.train_length, option, error));
done:
  return result;
}

/* *extends: some entry's method has this extension, with these settings: those of one family may have others of
 * the same name.  A failure: none has, though one has an extension of the name. */
static status check_extension(const study_plan *plan, const char *text, bool *extends, alibi_error *error)
{
  char name[ALIBI_NAME_SIZE];
  extension_choice choice;
  status result = ALIBI_OK;
  extension_text_name(text, name, sizeof name);
  *extends = false;
  for (size_t i = 0; i < plan->entry_count && !*extends; i++) {
    const alibi_model_config *model = &plan->entries[i].model;
    if (!position_extension_find(model->position, name)) continue;
    status here = model_config_read_extension(model, "--extend", text, &choice, result == ALIBI_OK ? error : NULL);
    *extends = here == ALIBI_OK;
    if (result == ALIBI_OK) result = here;
  }
  return *extends ? ALIBI_OK : result;
}

static bool extension_exists(const char *text)
{
  char name[ALIBI_NAME_SIZE];
  extension_text_name(text, name, sizeof name);
  for (size_t i = 0; i < position_extension_count(); i++)
    if (strcmp(position_extension_at(i)->name, name) == 0) return true;
  return false;
}

/* Once each: methods may have extensions of one name. */
static void known_extensions(char *text, size_t size)
{
  text[0] = '\0';
  for (size_t i = 0; i < position_extension_count(); i++) {
    const char *name = position_extension_at(i)->name;
    size_t k = 0, used = strlen(text);
    while (k < i && strcmp(position_extension_at(k)->name, name) != 0) k++;
    if (k == i) snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
  }
}

static status add_all_extensions(study_plan *plan, alibi_error *error)
{
  status result = ALIBI_OK;
  bool extends;
  for (size_t i = 0; i < position_extension_count(); i++) {
    const char *name = position_extension_at(i)->name;
    TRY(check_extension(plan, name, &extends, error));
    for (size_t k = 0; k < plan->extension_count; k++) /* methods may have extensions of one name */
      if (strcmp(plan->extensions[k], name) == 0) extends = false;
    if (extends) TRY(add_name(plan->extensions, &plan->extension_count, name, "--extend", error));
  }
done:
  return result;
}

static status make_extensions(const study_request *request, study_plan *plan, alibi_error *error)
{
  const char *list = request->extend ? request->extend : "ntk,yarn";
  study_name name;
  bool extends;
  size_t length;
  status result = ALIBI_OK;
  if (strcmp(list, "none") == 0) return ALIBI_OK;
  if (strcmp(list, "all") == 0) return add_all_extensions(plan, error);
  TRY(list_check("--extend", list, error));
  while (extension_text_next(&list, name, sizeof name, &length)) {
    if (length >= sizeof name)
      RAISE(error, ALIBI_INVALID,
            "--extend: expected at most %zu bytes of one extension with its settings, found '%.64s...'",
            sizeof name - 1, name);
    if (!extension_exists(name)) {
      char known[512];
      known_extensions(known, sizeof known);
      RAISE(error, ALIBI_INVALID, "--extend: expected none, all or some of %s, found '%s'", known, name);
    }
    TRY(check_extension(plan, name, &extends, error));
    if (!extends) {
      if (!request->extend) continue;
      RAISE(error, ALIBI_INVALID, "--extend: '%s' extends none of the methods of this study", name);
    }
    TRY(add_name(plan->extensions, &plan->extension_count, name, "--extend", error));
  }
done:
  return result;
}

static status add_beyond(const char *name, study_plan *plan, alibi_error *error)
{
  bool extends;
  status result;
  TRY(check_extension(plan, name, &extends, error));
  if (!extends)
    RAISE(error, ALIBI_INVALID, "--beyond %s: expected a method with absolute positions in this study, found none",
          name);
  TRY(add_name(plan->extensions, &plan->extension_count, name, "--extend and --beyond", error));
done:
  return result;
}

int study_protocol(const char *name)
{
  for (int protocol = 0; protocol < ALIBI_PROTOCOL_COUNT; protocol++)
    if (strcmp(alibi_protocol_name(protocol), name) == 0) return protocol;
  return -1;
}

static status make_protocols(const study_request *request, study_plan *plan, alibi_error *error)
{
  const char *list = request->protocols ? request->protocols : "fixed-target,sliding,nonoverlapping";
  char name[LIST_ITEM_SIZE];
  status result = list_check("--protocols", list, error);
  while (next_word("--protocols", &list, name, &result, error)) {
    if (study_protocol(name) < 0)
      return fail(error, ALIBI_INVALID,
                  "--protocols: expected some of fixed-target, sliding, nonoverlapping, found '%s'", name);
    result = add_name(plan->protocols, &plan->protocol_count, name, "--protocols", error);
  }
  return result;
}

status study_plan_make(const study_request *request, study_plan *plan, alibi_error *error)
{
  status result;
  *plan = (study_plan){.settings = request->settings, .train = request->train};
  TRY(field_check(study_fields(), &plan->settings, "study", error));
  TRY(field_check(train_option_fields(), &plan->train, "training options", error));
  if (plan->settings.minutes > 0 && request->steps_given)
    RAISE(error, ALIBI_INVALID, "--minutes plans the steps: give --steps or --minutes, not both");
  TRY(make_entries(request, plan, error));
  TRY(make_lengths(request, plan, error));
  TRY(make_extensions(request, plan, error));
  if (request->beyond) TRY(add_beyond(request->beyond, plan, error));
  TRY(make_protocols(request, plan, error));
  for (size_t i = 0; i < plan->entry_count; i++)
    TRY(option_sentence(train_check_batch(&plan->train, plan->entries[i].model.train_length, error), "", error));
  study_plan_place(plan, request->threads);
  plan->command = strdup(request->command ? request->command : "alibi study");
  if (!plan->command) RAISE(error, ALIBI_FAILED, "not enough memory for the plan");
done:
  if (result != ALIBI_OK) study_plan_free(plan);
  return result;
}

void study_plan_place(study_plan *plan, int threads)
{
  int processors = threads ? threads : system_processors();
  int64_t jobs = plan->settings.jobs ? plan->settings.jobs : processors;
  plan->jobs = jobs < (int64_t)plan->entry_count ? jobs : (int64_t)plan->entry_count;
  plan->threads = processors / plan->jobs > 0 ? processors / plan->jobs : 1;
}

void study_plan_free(study_plan *plan)
{
  free(plan->text);
  free(plan->command);
  plan->text = plan->command = NULL;
}

const study_entry *study_plan_find(const study_plan *plan, const char *label)
{
  for (size_t i = 0; i < plan->entry_count; i++)
    if (strcmp(plan->entries[i].label, label) == 0) return &plan->entries[i];
  return NULL;
}

int64_t study_plan_longest(const study_plan *plan)
{
  return plan->lengths[plan->length_count - 1];
}

/* study.json */

static json_node *names_node(const study_name *names, size_t count)
{
  json_node *list = node_new_array();
  for (size_t i = 0; i < count; i++) node_append_text(list, names[i]);
  return list;
}

static json_node *entry_node(const study_entry *e)
{
  json_node *node = node_new_object();
  node_set_text(node, "label", e->label);
  node_set_text(node, "role", e->role);
  node_set_number(node, "train_tokens_per_second", e->train_tokens_per_second);
  node_set(node, "model", model_config_node(&e->model));
  return node;
}

status study_plan_write(const study_plan *plan, const char *directory, alibi_error *error)
{
  char *path = NULL;
  json_node *root = node_new_object(), *settings = node_new_object(), *train = node_new_object();
  json_node *entries = node_new_array(), *lengths = node_new_array(), *speeds = node_new_array();
  status result;
  node_set_integer(root, "schema", 1);
  node_set_text(root, "command", plan->command);
  node_set_text(root, "text", plan->text);
  node_set_integer(root, "train_tokens", plan->train_tokens);
  node_set_integer(root, "valid_tokens", plan->valid_tokens);
  node_set_boolean(root, "measured", plan->measured);
  node_set_fields(settings, study_fields(), &plan->settings);
  node_set(root, "settings", settings);
  node_set_fields(train, train_option_fields(), &plan->train);
  node_set(root, "train", train);
  for (size_t i = 0; i < plan->length_count; i++) node_append_integer(lengths, plan->lengths[i]);
  node_set(root, "lengths", lengths);
  for (size_t i = 0; i < plan->length_count; i++) node_append_number(speeds, plan->evaluate_seconds[i]);
  node_set(root, "evaluate_seconds", speeds);
  node_set(root, "extensions", names_node(plan->extensions, plan->extension_count));
  node_set(root, "protocols", names_node(plan->protocols, plan->protocol_count));
  for (size_t i = 0; i < plan->entry_count; i++) node_append(entries, entry_node(&plan->entries[i]));
  node_set(root, "entries", entries);
  TRY(study_path(directory, "study.json", NULL, &path, error));
  TRY(node_write_file(root, path, error));
done:
  free(path);
  node_free(root);
  return result;
}

static status read_names(const json_node *list, study_name *names, size_t *count, const char *path,
                         alibi_error *error)
{
  for (size_t i = 0; i < node_count(list); i++) {
    const char *name = node_text(node_at(list, i), "");
    alibi_error why;
    if (!*name || strlen(name) >= sizeof *names || add_name(names, count, name, path, &why) != ALIBI_OK)
      return fail(error, ALIBI_BAD_INPUT, "%s: expected a list of a few different names, found '%.32s'", path,
                  name);
  }
  return ALIBI_OK;
}

/* What no study wrote is refused: names that do not exist, lengths that do not ascend. */
static status check_read(const study_plan *plan, const char *path, alibi_error *error)
{
  if (plan->length_count == 0 || plan->entry_count == 0 || plan->protocol_count == 0)
    return fail(error, ALIBI_BAD_INPUT, "%s: expected lengths, entries and protocols", path);
  for (size_t i = 0; i < plan->length_count; i++)
    if (plan->lengths[i] <= (i ? plan->lengths[i - 1] : 0))
      return fail(error, ALIBI_BAD_INPUT, "%s: lengths: expected ascending positive numbers, found %lld", path,
                  (long long)plan->lengths[i]);
  for (size_t i = 0; i < plan->protocol_count; i++)
    if (study_protocol(plan->protocols[i]) < 0)
      return fail(error, ALIBI_BAD_INPUT, "%s: protocols: expected known ones, found '%s'", path,
                  plan->protocols[i]);
  for (size_t i = 0; i < plan->extension_count; i++)
    if (!extension_exists(plan->extensions[i]))
      return fail(error, ALIBI_BAD_INPUT, "%s: extensions: expected known ones, found '%s'", path,
                  plan->extensions[i]);
  for (size_t i = 0; i < plan->extension_count; i++) {
    alibi_error why = {0};
    bool extends;
    if (check_extension(plan, plan->extensions[i], &extends, &why) != ALIBI_OK)
      return fail(error, ALIBI_BAD_INPUT, "%s: extensions: %s", path, why.message);
  }
  return ALIBI_OK;
}

static status read_entry(const json_node *node, const char *path, study_entry *e, alibi_error *error)
{
  const char *label = node_text(node_get(node, "label"), NULL), *role = node_text(node_get(node, "role"), NULL);
  if (!label || !role || strchr(label, '/'))
    return fail(error, ALIBI_BAD_INPUT, "%s: entries: expected a label and a role", path);
  snprintf(e->label, sizeof e->label, "%s", label);
  snprintf(e->role, sizeof e->role, "%s", role);
  e->train_tokens_per_second = node_number(node_get(node, "train_tokens_per_second"), 0);
  return model_config_read(node_get(node, "model"), path, &e->model, error);
}

status study_plan_read(const char *directory, study_plan *plan, alibi_error *error)
{
  static const char *const none[] = {NULL};
  char *path = NULL;
  json_node *root = NULL;
  status result;
  *plan = (study_plan){0};
  alibi_train_options_init(&plan->train);
  TRY(study_path(directory, "study.json", NULL, &path, error));
  TRY(node_read_file(path, &root, error));
  if (node_integer(node_get(root, "schema"), 0) != 1) RAISE(error, ALIBI_BAD_INPUT, "%s: expected schema 1", path);
  TRY(node_get_fields(node_get(root, "settings"), study_fields(), &plan->settings, path, none, error));
  TRY(node_get_fields(node_get(root, "train"), train_option_fields(), &plan->train, path, none, error));
  plan->train_tokens = node_integer(node_get(root, "train_tokens"), 0);
  plan->valid_tokens = node_integer(node_get(root, "valid_tokens"), 0);
  plan->measured = node_boolean(node_get(root, "measured"), false);
  const json_node *lengths = node_get(root, "lengths"), *entries = node_get(root, "entries");
  if (node_count(lengths) > STUDY_MAX_LENGTHS || node_count(entries) > STUDY_MAX_ENTRIES)
    RAISE(error, ALIBI_BAD_INPUT, "%s: expected at most %d lengths and %d entries", path, STUDY_MAX_LENGTHS,
          STUDY_MAX_ENTRIES);
  plan->length_count = node_count(lengths);
  plan->entry_count = node_count(entries);
  for (size_t i = 0; i < plan->length_count; i++) {
    plan->lengths[i] = node_integer(node_at(lengths, i), 0);
    plan->evaluate_seconds[i] = node_number(node_at(node_get(root, "evaluate_seconds"), i), 0);
  }
  for (size_t i = 0; i < plan->entry_count; i++)
    TRY(read_entry(node_at(entries, i), path, &plan->entries[i], error));
  TRY(read_names(node_get(root, "extensions"), plan->extensions, &plan->extension_count, path, error));
  TRY(read_names(node_get(root, "protocols"), plan->protocols, &plan->protocol_count, path, error));
  TRY(check_read(plan, path, error));
  plan->text = strdup(node_text(node_get(root, "text"), ""));
  plan->command = strdup(node_text(node_get(root, "command"), ""));
  if (!plan->text || !plan->command) RAISE(error, ALIBI_FAILED, "not enough memory for the plan");
done:
  node_free(root);
  free(path);
  if (result != ALIBI_OK) study_plan_free(plan);
  return result;
}
