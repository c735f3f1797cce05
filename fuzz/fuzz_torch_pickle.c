/* The reader of pickles under a fuzzer, without the archive around them. */
#include "file/torch_pickle.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  torch_tensor_list list;
  alibi_error error;
  alibi_error_init(&error);
  status result = torch_pickle_read(FUZZ_PATH, data, size, &list, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  for (size_t i = 0; i < list.count; i++)
    if (strlen(list.items[i].name) > size || strlen(list.items[i].storage) > size) abort();
  torch_tensor_list_free(&list);
  return 0;
}
