/* Rows of weights in parts: found, read, turned to panels. */
#include <assert.h>
#include <string.h>

#include "op/parts.h"

static const unsigned char *row_of(const matrix_part *p, size_t row)
{
  const unsigned char *data = p->data;
  if (p->turned) return data + row * weight_block_bytes(p->type);
  if (!p->group) return data + row * p->row_bytes;
  return data + row / p->group * p->group_bytes + row % p->group * p->row_bytes;
}

static size_t smaller(size_t a, size_t b)
{
  return a < b ? a : b;
}

static void scale_row(const kernel_table *k, const matrix_part *p, size_t row, size_t n, float *to)
{
  if (p->row_scales) k->scale(n, p->row_scales[row], to);
}

void parts_read(const kernel_table *k, const matrix *w, size_t row, size_t from, size_t n, float *to)
{
  const matrix_part *p = w->parts;
  for (; row >= p->rows; p++) row -= p->rows;
  const unsigned char *data = row_of(p, row);
  if (p->turned) {
    for (size_t i = 0; i < n; i++) k->widen(p->type, 1, data + (from + i) * p->row_bytes, to + i);
  } else {
    k->widen(p->type, n, data + from / weight_block_elements(p->type) * weight_block_bytes(p->type), to);
  }
  scale_row(k, p, row, n, to);
}

void parts_open(parts_block *b, const kernel_table *k, const matrix_part *part, size_t first, size_t width)
{
  size_t tile = k->tile_columns, padded = (width + tile - 1) / tile * tile;
  assert(width <= PARTS_ROWS && PARTS_ROWS % tile == 0 && tile <= PARTS_TILE);
  b->k = k;
  b->part = part;
  b->first = first;
  b->width = width;
  for (size_t c = 0; c < padded + tile; c++) { /* the last row stands in for those that are not there */
    size_t row = first + (c < padded ? smaller(c, width - 1) : c - padded + width);
    b->row[c] = row_of(part, smaller(row, part->rows - 1));
  }
  for (size_t c = 0; part->row_scales && c < padded; c++)
    b->scale[c] = part->row_scales[first + smaller(c, width - 1)];
}

/* An inner index of a turned part is a run of its rows. */
static void pack_runs(const parts_block *b, size_t start, size_t width, size_t from, size_t n, float *panel)
{
  const matrix_part *p = b->part;
  size_t tile = b->k->tile_columns;
  const unsigned char *data = b->row[start];
  float run[PARTS_TILE] = {0};
  for (size_t i = 0; i < n; i++, panel += tile) {
    b->k->widen(p->type, width, data + (from + i) * p->row_bytes, run);
    for (size_t c = 0; p->row_scales && c < width; c++) run[c] *= b->scale[start + c];
    memcpy(panel, run, tile * sizeof *panel);
  }
}

void parts_pack(const parts_block *b, size_t start, size_t width, size_t from, size_t n, float *packed)
{
  size_t tile = b->k->tile_columns;
  for (size_t c = 0; c < width; c += tile) {
    size_t there = width - c < tile ? width - c : tile, at = start + c;
    if (b->part->turned) pack_runs(b, at, there, from, n, packed + c * n);
    else
      b->k->turn(b->part->type, b->row + at, from, n, b->part->row_scales ? b->scale + at : NULL, packed + c * n);
  }
}
