/* The order of sequences.  A source gets every sequence at which its share, counted up, passes a whole number:
 * after any number of sequences each has been read within one of its due, and how often it was read before follows
 * from a product. Within a source an epoch is a random permutation of its windows, made by a small cipher, so that
 * it needs no memory. */
#include "train/batches.h"

#include "base/random.h"

enum { STREAM_SAMPLES = 0x73616d70, STREAM_CUTS = 0x63757473, STREAM_ORDER = 0x6f726472, ROUNDS = 4 };

static const uint64_t WHOLE = (uint64_t)1 << 32;

static status check_source(const token_source *source, const alibi_train_options *options, size_t length,
                           alibi_error *error)
{
  if (source->count < length + 1)
    return fail(error, ALIBI_INVALID,
                "%s: expected at least %zu tokens (the training length and one more), found %zu", source->name,
                length + 1, source->count);
  if (token_source_has_documents(source)) return ALIBI_OK;
  const char *why = options->documents == ALIBI_DOCUMENTS_APART ? "they are to be kept apart"
                    : options->order == ALIBI_ORDER_DOCUMENTS   ? "sequences are to begin there"
                                                                : NULL;
  if (why)
    return fail(error, ALIBI_INVALID,
                "%s: expected to know where documents begin, since %s, found no such list", source->name, why);
  return ALIBI_OK;
}

status batches_init(batches *b, const token_source *sources, const double *shares, size_t count,
                    const alibi_train_options *options, size_t length, alibi_error *error)
{
  double left = 0;
  *b = (batches){.sources = sources,
                 .source_count = count,
                 .seed = (uint64_t)options->seed,
                 .order = (alibi_order)options->order,
                 .documents = (alibi_documents)options->documents};
  if (count == 0 || count > BATCHES_SOURCES)
    return fail(error, ALIBI_INVALID, "expected 1 to %d sources of tokens, found %zu", BATCHES_SOURCES, count);
  for (size_t i = 0; i < count; i++) {
    status result = check_source(&sources[i], options, length, error);
    if (result != ALIBI_OK) return result;
    b->shares[i] = shares ? shares[i] : (double)sources[i].count;
    if (!(b->shares[i] > 0 && b->shares[i] <= 1e18))
      return fail(error, ALIBI_INVALID, "%s: expected a share above 0, found %g", sources[i].name, b->shares[i]);
    left += b->shares[i];
  }
  double total = left;
  for (size_t i = 0; i < count; i++) {
    double quota = i + 1 < count ? b->shares[i] / left : 1;
    b->quotas[i] = quota < 1 ? (uint64_t)(quota * (double)WHOLE) : WHOLE;
    left -= b->shares[i];
    b->shares[i] /= total;
  }
  return ALIBI_OK;
}

/* Of the first n things, those that a quota takes: n quota / 2^32, rounded. */
static uint64_t taken(uint64_t n, uint64_t quota)
{
  return (n >> 32) * quota + (((n & (WHOLE - 1)) * quota + WHOLE / 2) >> 32);
}

/* Whose turn it is, and how many turns it had. */
static size_t choose_source(const batches *b, uint64_t *sequence)
{
  size_t i = 0;
  for (; i + 1 < b->source_count; i++) {
    uint64_t before = taken(*sequence, b->quotas[i]);
    if (taken(*sequence + 1, b->quotas[i]) > before) {
      *sequence = before;
      break;
    }
    *sequence -= before;
  }
  return i;
}

/* Streams of random numbers for every phase and source. */
static uint64_t stream_of(uint64_t kind, size_t phase, size_t source)
{
  return kind | (uint64_t)phase << 40 | (uint64_t)source << 48;
}

/* Place of `index` in a random order of 0 .. count-1: a Feistel network (Luby and Rackoff 1988) on the smallest
 * even number of bits that holds them, applied until it falls among them. */
static uint64_t permute(uint64_t seed, uint64_t stream, uint64_t epoch, uint64_t index, uint64_t count)
{
  int half = 1;
  while (half < 31 && ((uint64_t)1 << 2 * half) < count) half++;
  uint64_t mask = ((uint64_t)1 << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
      uint64_t mixed = left ^ (random_bits(seed, stream, epoch << 34 | (right * ROUNDS + round)) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

static size_t window_count(size_t tokens, size_t length)
{
  size_t windows = (tokens - length) / length;
  return windows > 0 ? windows : 1;
}

/* Documents that begin so early that a sequence and the token after it follow. */
static size_t whole_documents(const token_source *source, size_t length)
{
  size_t low = 0, high = source->document_count; /* document `low` is one, `high` is none */
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (source->count - token_source_document(source, middle) > length) low = middle;
    else high = middle;
  }
  return high;
}

/* Where the sequence begins. */
static size_t place(const batches *b, size_t phase, size_t source, size_t length, uint64_t sequence)
{
  size_t count = b->sources[source].count;
  if (b->order == ALIBI_ORDER_RANDOM)
    return random_below(b->seed, stream_of(STREAM_SAMPLES, phase, source), sequence, count - length);
  if (b->order == ALIBI_ORDER_DOCUMENTS) {
    size_t documents = whole_documents(&b->sources[source], length);
    return token_source_document(&b->sources[source],
                                 (size_t)permute(b->seed, stream_of(STREAM_ORDER, phase, source),
                                                 sequence / documents, sequence % documents, documents));
  }
  size_t windows = window_count(count, length);
  uint64_t epoch = sequence / windows;
  size_t cut = random_below(b->seed, stream_of(STREAM_CUTS, phase, source), epoch, count - windows * length);
  uint64_t window = permute(b->seed, stream_of(STREAM_ORDER, phase, source), epoch, sequence % windows, windows);
  return cut + (size_t)window * length;
}

/* Documents that begin within the sequence begin their own segments, and nothing foretells them. */
static size_t set_apart(const token_source *source, size_t first, size_t length, uint32_t *targets,
                        pass_segment *segments)
{
  size_t count = 0, from = first;
  while (from < first + length) {
    size_t next = token_source_next_document(source, from), end = next < first + length ? next : first + length;
    segments[count++] = (pass_segment){.count = end - from};
    if (next <= first + length) targets[next - 1 - first] = OP_NO_TARGET;
    from = end;
  }
  return count;
}

void batches_read_run(const batches *b, size_t phase, size_t length, uint64_t sequence, size_t first, size_t count,
                      uint32_t *tokens, uint32_t *targets)
{
  size_t index = choose_source(b, &sequence);
  size_t from = place(b, phase, index, length, sequence) + first;
  token_source_read(&b->sources[index], from, count, tokens);
  token_source_read(&b->sources[index], from + 1, count, targets);
}

size_t batches_read(const batches *b, size_t phase, size_t length, uint64_t sequence, uint32_t *tokens,
                    uint32_t *targets, pass_segment *segments)
{
  size_t index = choose_source(b, &sequence);
  const token_source *source = &b->sources[index];
  size_t first = place(b, phase, index, length, sequence);
  token_source_read(source, first, length, tokens);
  token_source_read(source, first + 1, length, targets);
  if (b->documents == ALIBI_DOCUMENTS_APART) return set_apart(source, first, length, targets, segments);
  segments[0] = (pass_segment){.count = length};
  return 1;
}
