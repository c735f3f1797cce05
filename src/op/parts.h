/* op/parts.h - reading a weight whose rows lie in parts, in types of their own. */
#ifndef OP_PARTS_H
#define OP_PARTS_H

#include "op/op.h"

/* Numbers of a row from .. from+n-1 are read on multiples of the type's block. */
void parts_read(const kernel_table *k, const matrix *w, size_t row, size_t from, size_t n, float *to);

/* Rows of one part that become panels, PARTS_ROWS at most: where each lies, padded to whole panels; then those
 * of one panel more, which come next. */
enum { PARTS_ROWS = 256, PARTS_TILE = 32 };
typedef struct parts_block {
  const kernel_table *k;
  const matrix_part *part;
  size_t first, width; /* in the part */
  const void *row[PARTS_ROWS + PARTS_TILE];
  float scale[PARTS_ROWS];
} parts_block;

/* Is a part of `rounded` weights met by rounded rows of x? */
static inline bool parts_rounds(const matrix_part *part)
{
  return weight_block_elements(part->type) > 1 && !part->row_scales;
}

void parts_open(parts_block *b, const kernel_table *k, const matrix_part *part, size_t first, size_t width);
/* Numbers from .. from+n-1 of columns start .. start+width-1 to panels, as kernel pack does; start on multiples
 * of a panel. */
void parts_pack(const parts_block *b, size_t start, size_t width, size_t from, size_t n, float *packed);

#endif
