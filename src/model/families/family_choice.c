/* Whether a family has words for a model is not asked of a table but tried. */
#include "model/families/family_choice.h"

#include <stdio.h>
#include <string.h>

#include "model/families/family_publish.h"
#include "model/families/family_write.h"

static status try_family(const alibi_model *model, const model_family *family, bool gguf, const char *out,
                         tensor_writing *writing, alibi_error *error)
{
  return gguf ? family_write_gguf_check(model, family, out, writing, error)
              : family_publish_check(model, family, out, writing, error);
}

/* "mpt (alibi, gelu), llama (rope, rmsnorm, swiglu)" */
static status none_fits(bool gguf, alibi_error *error)
{
  char known[700];
  size_t used = 0;
  for (size_t i = 0; i < model_family_count() && used < sizeof known; i++) {
    const model_family *f = model_family_at(i);
    if (!f->published.trained || (gguf && !f->written.architecture)) continue;
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s (%s)", used ? ", " : "", f->name,
                             f->published.trained);
  }
  return fail(error, ALIBI_INVALID,
              "expected a model that a public family has words for, one of %s; found another", known);
}

static status choose(const alibi_model *model, bool gguf, const char *out, tensor_writing *writing,
                     const model_family **family, alibi_error *error)
{
  for (size_t i = 0; i < model_family_count(); i++) {
    alibi_error why = {0};
    *family = model_family_at(i);
    if (!(*family)->published.trained || (gguf && !(*family)->written.architecture)) continue;
    status result = try_family(model, *family, gguf, out, writing, &why);
    if (result == ALIBI_OK) return ALIBI_OK;
    if (result != ALIBI_INVALID) return fail(error, result, "%s", why.message);
  }
  return none_fits(gguf, error);
}

status family_choose(const alibi_model *model, bool gguf, const char *out, tensor_writing *writing,
                     const model_family **family, alibi_error *error)
{
  const char *name = alibi_model_family(model);
  for (size_t i = 0; i < model_family_count(); i++) {
    *family = model_family_at(i);
    if (strcmp((*family)->name, name) == 0) return ALIBI_OK;
  }
  return choose(model, gguf, out, writing, family, error);
}
