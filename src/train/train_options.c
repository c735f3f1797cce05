/* The settings of a training, and what follows from them for each step. */
#include "train/train_options.h"

#include <math.h>
#include <string.h>

#include "base/number.h"

enum { STEPS_MOST = 1000000000 };

#define AT(member) offsetof(alibi_train_options, member)

static const char *const schedule_names[] = {"cosine",       "constant", "linear", "warmup-stable-decay",
                                             "inverse-sqrt", NULL};
static const char *const order_names[] = {"epochs", "random", "one-batch", "documents", NULL};
static const char *const documents_names[] = {"joined", "apart", NULL};

static const field fields[] = {
    {"steps", FIELD_INTEGER, AT(steps), 1, 1e9, 1000, NULL, NULL, "steps of training"},
    {"batch_tokens", FIELD_INTEGER, AT(batch_tokens), 1, 1 << 24, 1024, NULL, NULL, "tokens a step"},
    {"micro_tokens", FIELD_INTEGER, AT(micro_tokens), 0, 1 << 24, 0, NULL, NULL,
     "tokens in memory at once, at least one sequence; 0: the whole batch"},
    {"learning_rate", FIELD_REAL, AT(learning_rate), 0, 10, 6e-3, NULL, NULL, "peak learning rate"},
    {"schedule", FIELD_CHOICE, AT(schedule), 0, 0, ALIBI_SCHEDULE_COSINE, schedule_names, NULL,
     "of the learning rate after the warm-up"},
    {"warmup_steps", FIELD_INTEGER, AT(warmup_steps), -1, 1e9, -1, NULL, NULL,
     "steps of linear warm-up; -1: a tenth of the steps, at most 100"},
    {"decay_steps", FIELD_INTEGER, AT(decay_steps), -1, 1e9, -1, NULL, NULL,
     "steps of the decay of warmup-stable-decay; -1: a fifth of the steps"},
    {"final_rate", FIELD_REAL, AT(final_rate), 0, 1, 0.1, NULL, NULL, "share of the peak rate at the end"},
    {"weight_decay", FIELD_REAL, AT(weight_decay), 0, 10, 0.1, NULL, NULL, "decay of matrices, decoupled"},
    {"beta1", FIELD_REAL, AT(beta1), 0, 0.999999, 0.9, NULL, NULL, "decay of the first moment"},
    {"beta2", FIELD_REAL, AT(beta2), 0, 0.999999, 0.95, NULL, NULL, "decay of the second moment"},
    {"epsilon", FIELD_REAL, AT(epsilon), 1e-20, 1, 1e-8, NULL, NULL, "of Adam"},
    {"clip", FIELD_REAL, AT(clip), 0, 1e9, 1, NULL, NULL, "largest gradient norm; 0: none"},
    {"spike_limit", FIELD_REAL, AT(spike_limit), 0, 1e6, 0, NULL, NULL,
     "skip a step so many standard deviations above the running mean of the loss or the gradient norm; 0: none"},
    {"dropout", FIELD_REAL, AT(dropout), 0, 0.9, 0, NULL, NULL,
     "rate, after the embedding and on what is added to the residual stream"},
    {"z_loss", FIELD_REAL, AT(z_loss), 0, 1, 0, NULL, NULL, "factor of the squared log of the softmax's sum"},
    {"order", FIELD_CHOICE, AT(order), 0, 0, ALIBI_ORDER_EPOCHS, order_names, NULL,
     "of the sequences: all of the text in a random order, then anew; random places; always the first batch; the "
     "beginnings of documents"},
    {"documents", FIELD_CHOICE, AT(documents), 0, 0, ALIBI_DOCUMENTS_JOINED, documents_names, NULL,
     "in one sequence: read as one text, or not seen by each other"},
    {"length_schedule", FIELD_TEXT, AT(length_schedule), 0, 0, 0, NULL, "",
     "LENGTH:STEPS,...: shorter sequences first, then those of train_length"},
    {"recompute", FIELD_BOOLEAN, AT(recompute), 0, 1, 0, NULL, NULL,
     "keep one activation a block and compute the others again: less memory, more time"},
    {"seed", FIELD_INTEGER, AT(seed), 0, 9007199254740992.0, 1, NULL, NULL, "of weights and batches"},
};

field_table train_option_fields(void)
{
  return (field_table)FIELD_TABLE(fields);
}

void alibi_train_options_init(alibi_train_options *options)
{
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
  field_init(train_option_fields(), options);
}

int64_t train_warmup(const alibi_train_options *o)
{
  const int64_t USUAL = 100;
  if (o->warmup_steps >= 0) return o->warmup_steps;
  return o->steps / 10 < USUAL ? o->steps / 10 : USUAL;
}

int64_t train_decay(const alibi_train_options *o)
{
  return o->decay_steps >= 0 ? o->decay_steps : o->steps / 5;
}

/* `done` of `steps` steps between 1 and the final share: 0 in the first, 1 in the last. */
static double progress(int64_t done, int64_t steps)
{
  double share = steps > 1 ? (double)done / (double)(steps - 1) : 1;
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

double train_rate(const alibi_train_options *o, int64_t step)
{
  const double PI = 3.14159265358979323846;
  int64_t warmup = train_warmup(o), decay = train_decay(o);
  double final = o->final_rate, share = 1;
  if (step < warmup) return o->learning_rate * (double)(step + 1) / (double)warmup;
  switch ((alibi_schedule)o->schedule) {
  case ALIBI_SCHEDULE_COSINE:
    share = final + (1 - final) * 0.5 * (1 + cos(PI * progress(step - warmup, o->steps - warmup)));
    break;
  case ALIBI_SCHEDULE_CONSTANT: break;
  case ALIBI_SCHEDULE_LINEAR: share = 1 - (1 - final) * progress(step - warmup, o->steps - warmup); break;
  case ALIBI_SCHEDULE_WSD:
    if (step >= o->steps - decay) share = 1 - (1 - final) * progress(step - (o->steps - decay) + 1, decay + 1);
    break;
  case ALIBI_SCHEDULE_INVERSE_SQRT: share = sqrt((double)(warmup > 0 ? warmup : 1) / (double)(step + 1)); break;
  }
  return o->learning_rate * share;
}

/* ---- lengths ---- */

static status refuse_schedule(const alibi_train_options *o, const char *found, size_t size, alibi_error *error)
{
  return fail(error, ALIBI_INVALID,
              "length_schedule: expected at most %d items LENGTH:STEPS between commas, such as 128:1000, found "
              "'%.*s' in '%.64s'",
              TRAIN_PHASES - 1, (int)size, found, o->length_schedule);
}

static status read_phase(const alibi_train_options *o, const char *item, size_t size, int64_t train_length,
                         int64_t *length, int64_t *steps, alibi_error *error)
{
  char text[ALIBI_NAME_SIZE], *colon; /* a part of what is no longer */
  memcpy(text, item, size);
  text[size] = '\0';
  colon = strchr(text, ':');
  if (colon) *colon++ = '\0';
  if (!colon || !integer_read(text, length) || !integer_read(colon, steps) || *length < 1 || *steps < 1 ||
      *steps > STEPS_MOST)
    return refuse_schedule(o, item, size, error);
  if (*length > train_length)
    return fail(error, ALIBI_INVALID,
                "length_schedule: expected lengths up to the training length of %lld tokens, which follows them, "
                "found %lld",
                (long long)train_length, (long long)*length);
  return ALIBI_OK;
}

status train_phases(const alibi_train_options *o, int64_t train_length, train_phase *phases, size_t *count,
                    alibi_error *error)
{
  const char *rest = o->length_schedule[0] ? o->length_schedule : NULL, *item;
  int64_t first = 0;
  size_t size;
  *count = 0;
  while (rest) {
    int64_t length, steps;
    list_next(&rest, &item, &size);
    if (*count == TRAIN_PHASES - 1) return refuse_schedule(o, item, size, error);
    status result = read_phase(o, item, size, train_length, &length, &steps, error);
    if (result != ALIBI_OK) return result;
    phases[(*count)++] = (train_phase){first, first + steps, (size_t)length};
    first += steps;
  }
  phases[(*count)++] = (train_phase){first, INT64_MAX, (size_t)train_length};
  return ALIBI_OK;
}

/* Whole sequences only: a step of other than batch_tokens tokens would not be what was asked for. */
status train_check_batch(const alibi_train_options *o, int64_t train_length, alibi_error *error)
{
  train_phase phases[TRAIN_PHASES];
  size_t count;
  status result = train_phases(o, train_length, phases, &count, error);
  if (result != ALIBI_OK) return result;
  for (size_t i = 0; i < count; i++) {
    bool last = i + 1 == count;
    if ((size_t)o->batch_tokens % phases[i].length == 0) continue;
    return fail(error, ALIBI_INVALID, "batch_tokens: expected a multiple of the %s of %zu tokens, found %lld",
                last ? "training length" : "length in length_schedule,", phases[i].length,
                (long long)o->batch_tokens);
  }
  return ALIBI_OK;
}
