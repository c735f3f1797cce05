/* The reader of PyTorch's files under a fuzzer: zip and pickle together. */
#include "file/torch_file.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  torch_file *file = NULL;
  alibi_error error;
  alibi_error_init(&error);
  fuzz_give(data, size);
  status result = torch_file_open(FUZZ_PATH, &file, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  for (size_t i = 0; file && i < torch_file_count(file); i++) fuzz_check_tensor(torch_file_at(file, i));
  torch_file_close(file);
  return 0;
}
