/* The safetensors reader under a fuzzer. */
#include "file/safetensors.h"
#include "fuzz_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  safetensors_file *file = NULL;
  alibi_error error;
  alibi_error_init(&error);
  fuzz_give(data, size);
  status result = safetensors_open(FUZZ_PATH, &file, &error);
  if (result != ALIBI_OK) fuzz_check_error(result, &error);
  for (size_t i = 0; file && i < safetensors_count(file); i++) fuzz_check_tensor(safetensors_at(file, i));
  safetensors_close(file);
  return 0;
}
