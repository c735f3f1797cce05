/* Which tables there are, which of them this processor runs, and the making of a context, which picks one. */
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/memory.h"
#include "base/settings.h"
#include "base/system.h"
#include "kernel/kernel.h"

typedef struct isa_row {
  const kernel_table *table;
  bool (*supported)(void);
} isa_row;

#include "isa_registry.inc" /* rows[], best last, from kernel/CMakeLists.txt */

enum { ISA_COUNT = sizeof rows / sizeof rows[0] };

/* Some 40 microseconds of one thread.  Decoding with 128 to 1024 channels, a second thread gained or changed
 * nothing from 1e6 on; at 3e5 it made models of 128 channels up to three times slower on a busy machine. */
enum { WORTH_A_TEAM = 2000000 };

size_t kernel_table_count(void)
{
  return ISA_COUNT;
}

const kernel_table *kernel_table_at(size_t index)
{
  return index < ISA_COUNT && rows[index].supported() ? rows[index].table : NULL;
}

const kernel_table *kernel_table_find(const char *name)
{
  for (size_t i = 0; i < ISA_COUNT; i++)
    if (strcmp(rows[i].table->name, name) == 0) return rows[i].table;
  return NULL;
}

const kernel_table *kernel_table_best(void)
{
  size_t best = ISA_COUNT - 1;
  while (!rows[best].supported()) best--;
  return rows[best].table;
}

static status pick_kernels(const char *name, const kernel_table **table, alibi_error *error)
{
  char known[256] = "";
  if (!name || !*name) {
    *table = kernel_table_best();
    return ALIBI_OK;
  }
  for (size_t i = 0; i < ISA_COUNT; i++) {
    if (strcmp(rows[i].table->name, name) == 0) {
      if (!rows[i].supported())
        return fail(error, ALIBI_INVALID, "instruction set '%s': this processor does not have it", name);
      *table = rows[i].table;
      return ALIBI_OK;
    }
    strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
    strncat(known, rows[i].table->name, sizeof known - strlen(known) - 1);
  }
  return fail(error, ALIBI_INVALID, "instruction set: expected one of %s, found '%s'", known, name);
}

void alibi_context_options_init(alibi_context_options *options)
{
  *options = (alibi_context_options){.size = sizeof *options, .tolerance = 0x1p-24};
}

status alibi_context_new(const alibi_context_options *options, alibi_context **context, alibi_error *error)
{
  alibi_context_options defaults;
  alibi_context_options_init(&defaults);
  if (!context)
    return fail(error, ALIBI_INVALID, "alibi_context_new: expected a pointer for the context, found NULL");
  *context = NULL;
  if (options) {
    status taken = settings_take(options, &defaults, sizeof defaults, "alibi_context_options", error);
    if (taken != ALIBI_OK) return taken;
  }
  if (defaults.threads < 0 || defaults.threads > 1024)
    return fail(error, ALIBI_INVALID, "threads: expected 0 to 1024, found %d", defaults.threads);
  if (!(defaults.tolerance >= 0 && defaults.tolerance < 1))
    return fail(error, ALIBI_INVALID, "tolerance: expected 0 or more and below 1, found %g", defaults.tolerance);
  const kernel_table *table = NULL;
  status result = pick_kernels(defaults.isa ? defaults.isa : getenv("ALIBI_ISA"), &table, error);
  if (result != ALIBI_OK) return result;
  result = memory_new(context, 1, sizeof **context, "a context", error);
  if (result != ALIBI_OK) return result;
  (*context)->threads = defaults.threads ? defaults.threads : system_processors();
  (*context)->worth_a_team = WORTH_A_TEAM;
  (*context)->kernel = table;
  (*context)->tolerance = defaults.tolerance;
  (*context)->log = defaults.log;
  (*context)->log_user = defaults.log_user;
  return ALIBI_OK;
}

void alibi_context_free(alibi_context *context)
{
  memory_free(context);
}

const char *alibi_context_isa(const alibi_context *context)
{
  return context->kernel->name;
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *alibi_version(void)
{
  return TEXT(ALIBI_VERSION_MAJOR) "." TEXT(ALIBI_VERSION_MINOR) "." TEXT(ALIBI_VERSION_PATCH);
}
