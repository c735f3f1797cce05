/* The unigram model over a normalized text.  The library finds the best path through all of it, with sums kept in
 * float; the same sums decide here, but word by word where no piece crosses the place between two, so that memory
 * is that of a word. */
#include "text/sentencepiece.h"

static status cut_word(const sentencepiece *s, unigram_lattice *lattice, const unsigned char *text, size_t size,
                       double *sum, bool *after_unknown, token_list *out, alibi_error *error)
{
  status result = ALIBI_OK;
  TRY(unigram_cut(&s->lattice, lattice, text, size, sum, error));
  for (size_t start = 0, end; start < size; start = end) {
    end = lattice->nodes[start].next;
    TRY(sentencepiece_emit(s, lattice->nodes[end].id, text + start, end - start, after_unknown, out, error));
  }
done:
  return result;
}

status sentencepiece_cut_unigram(const sentencepiece *s, const unsigned char *text, size_t size, token_list *out,
                                 alibi_error *error)
{
  status result = ALIBI_OK;
  unigram_lattice lattice = {0};
  double sum = 0;
  bool after_unknown = false;
  size_t first = 0;
  for (size_t at = 0, length; at < size; at += length) {
    if (at > first && sentencepiece_boundary(s, text, size, at)) {
      TRY(cut_word(s, &lattice, text + first, at - first, &sum, &after_unknown, out, error));
      first = at;
    }
    length = utf8_length(text[at]);
    if (length > size - at) length = size - at;
  }
  if (first < size) TRY(cut_word(s, &lattice, text + first, size - first, &sum, &after_unknown, out, error));
done:
  free(lattice.nodes);
  return result;
}
