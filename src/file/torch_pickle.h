/* file/torch_pickle.h - what torch.save says of its tensors: a reader of the subset of pickle (protocols 2 to 5)
 * that torch writes for a dictionary of tensors.  Nothing is executed and nothing outside the lists below is
 * known:
 *
 *   torch._utils._rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter; collections.OrderedDict;
 *   torch.FloatStorage, HalfStorage, BFloat16Storage, DoubleStorage, LongStorage, IntStorage, ShortStorage,
 *   CharStorage, ByteStorage, BoolStorage, ComplexFloatStorage, UntypedStorage; torch's names of types
 *
 * Any other name is refused with that name.  Memory and time are linear in the size of the pickle; nothing recurs.
 */
#ifndef FILE_TORCH_PICKLE_H
#define FILE_TORCH_PICKLE_H

#include <stdint.h>

#include "base/error.h"
#include "file/tensor.h"

enum { TORCH_PICKLE_MOST = 16 << 20 };

/* A tensor as the pickle claims it; nothing is checked against storages here. */
typedef struct torch_tensor {
  const char *name, *storage; /* NUL-terminated; of the list */
  tensor_type type;
  int dimensions;
  size_t shape[TENSOR_MAX_DIMENSIONS], stride[TENSOR_MAX_DIMENSIONS]; /* in elements */
  size_t offset;        /* in the storage, in elements of the tensor */
  size_t storage_bytes; /* SIZE_MAX where that does not fit */
} torch_tensor;

typedef struct torch_tensor_list {
  torch_tensor *items; /* in the order of the dictionary */
  size_t count;
  char *texts;
} torch_tensor_list;

/* data: the archive's data.pkl.  ALIBI_BAD_INPUT, with `path` in the sentence, where it is damaged or says more
 * than above; list is then empty.  Free in any case. */
status torch_pickle_read(const char *path, const unsigned char *data, size_t size, torch_tensor_list *list,
                         alibi_error *error);
void torch_tensor_list_free(torch_tensor_list *list);

#endif
