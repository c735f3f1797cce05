/* Mean pooling.  One pass over the whole text; the sum over its tokens is in double, in their order, so the vector
 * does not depend on the number of threads. */
#include "alibi/embed.h"

#include <math.h>

#include "base/memory.h"
#include "base/settings.h"
#include "model/model.h"

void alibi_embed_options_init(alibi_embed_options *options)
{
  *options = (alibi_embed_options){.size = sizeof *options, .tolerance = 0x1p-24, .normalise = true};
}

static status take_options(const alibi_embed_options *given, alibi_embed_options *own, alibi_error *error)
{
  alibi_embed_options_init(own);
  status result = given ? settings_take(given, own, sizeof *own, "alibi_embed_options", error) : ALIBI_OK;
  if (result != ALIBI_OK || (own->tolerance >= 0 && own->tolerance < 1)) return result;
  return fail(error, ALIBI_INVALID, "tolerance: expected a number from 0 on, below 1, found %g", own->tolerance);
}

static status pool(const model_pass *pass, bool normalise, float *vector, alibi_error *error)
{
  size_t width = (size_t)pass->model->config.width;
  double square = 0;
  for (size_t c = 0; c < width; c++) {
    double sum = 0;
    for (size_t r = 0; r < pass->rows; r++) sum += (double)pass->hidden[r * width + c];
    vector[c] = (float)(sum / (double)pass->rows);
    square += (double)vector[c] * (double)vector[c];
  }
  if (!isfinite(square))
    return fail(error, ALIBI_BAD_INPUT, "a model's weights: expected hidden states that are numbers, found %g",
                square);
  double scale = normalise && square > 0 ? 1 / sqrt(square) : 1;
  for (size_t c = 0; c < width; c++) vector[c] = (float)(scale * (double)vector[c]);
  return ALIBI_OK;
}

alibi_status alibi_embed(alibi_model *model, const uint32_t *tokens, size_t count,
                         const alibi_embed_options *options, float *vector, alibi_error *error)
{
  alibi_embed_options own;
  model_pass *pass = NULL;
  status result;
  if (!model || (!tokens && count > 0) || !vector)
    RAISE(error, ALIBI_INVALID, "alibi_embed: expected a model, tokens and a vector, found NULL");
  TRY(take_options(options, &own, error));
  if (count == 0) RAISE(error, ALIBI_INVALID, "a text to embed: expected at least one token, found none");
  pass_shape shape = {.rows = count,
                      .segments = 1,
                      .length = count,
                      .head_rows = 1,
                      .stops_when_cancelled = true,
                      .tolerance = &own.tolerance};
  pass_segment segment = {.count = count};
  TRY(model_pass_new(model, &shape, &pass, error));
  TRY(model_forward(pass, tokens, &segment, 1, error));
  TRY(pool(pass, own.normalise, vector, error));
done:
  model_pass_free(pass);
  return result;
}
