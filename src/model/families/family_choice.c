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

static bool is_candidate(const model_family *family, bool gguf)
{
  return family->published.trained && (!gguf || family->written.architecture);
}

/* Is it like a model with that position method? */
static bool is_near(const model_family *family, const alibi_model *model)
{
  size_t size = strcspn(family->published.trained, ",");
  const char *position = model->config.position;
  return strlen(position) == size && strncmp(family->published.trained, position, size) == 0;
}

typedef struct sentence {
  char text[760];
  size_t used;
} sentence;

static void say(sentence *s, const char *format, const char *first, const char *second)
{
  int more = snprintf(s->text + s->used, sizeof s->text - s->used, format, first, second);
  if (more > 0) s->used += (size_t)more;
  if (s->used >= sizeof s->text) s->used = sizeof s->text - 1;
}

/* What those with its position method lack, or else which there are: "mpt (alibi, gelu), llama (rope, ...)". */
static status none_fits(const alibi_model *model, bool gguf, const char *path, const sentence *near,
                        alibi_error *error)
{
  sentence known = {.used = 0};
  if (near->used > 0)
    return fail(error, ALIBI_INVALID,
                "%s: expected a model that a public family has words for, found one that none has%s", path,
                near->text);
  for (size_t i = 0; i < model_family_count(); i++) {
    const model_family *f = model_family_at(i);
    if (is_candidate(f, gguf)) say(&known, known.used ? ", %s (%s)" : "%s (%s)", f->name, f->published.trained);
  }
  return fail(error, ALIBI_INVALID,
              "%s: expected a model that a public family has words for, one of %s; found the position method '%s'",
              path, known.text, model->config.position);
}

static status choose(const alibi_model *model, bool gguf, const char *out, tensor_writing *writing,
                     const model_family **family, alibi_error *error)
{
  sentence near = {.used = 0};
  for (size_t i = 0; i < model_family_count(); i++) {
    alibi_error why = {0};
    *family = model_family_at(i);
    if (!is_candidate(*family, gguf)) continue;
    status result = try_family(model, *family, gguf, out, writing, &why);
    if (result == ALIBI_OK) return ALIBI_OK;
    if (result != ALIBI_INVALID) return fail(error, result, "%s", why.message);
    if (is_near(*family, model)) say(&near, "%s%.220s", "; ", why.message);
  }
  return none_fits(model, gguf, writing->from, &near, error);
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
