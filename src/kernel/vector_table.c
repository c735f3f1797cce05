/* The table of the instruction set being compiled. */
#include "kernel/matmul.h"
#include "kernel/tables.h"

const kernel_table KERNEL(kernel_table) = KERNEL_TABLE(LANES, TILE_ROWS, TILE_COLUMNS);
