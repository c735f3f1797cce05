/* fuzz_target.h - a parser under a fuzzer.  Each fuzz/fuzz_<what>.c has the one function that libFuzzer calls;
 * without libFuzzer, fuzz_corpus.c calls it (fuzz/CMakeLists.txt).
 *
 * Readers take a path: fuzz_give makes bytes the content of FUZZ_PATH.  The linker turns mapped_file_open, and the
 * questions whether a path is there, to fuzz_input.c, where the content is a block of exactly its size, so that a
 * sanitizer sees a read behind it. */
#ifndef FUZZ_TARGET_H
#define FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/system.h"
#include "file/tensor.h"

#define FUZZ_PATH "input"
#define FUZZ_FOLDER "input-folder" /* a directory, of files given by their paths */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Until the next call; the bytes are borrowed. */
void fuzz_give(const uint8_t *data, size_t size);
/* Several files: none, then one after the other; their paths are borrowed too. */
void fuzz_give_none(void);
void fuzz_give_file(const char *path, const uint8_t *data, size_t size);

/* Ends the program, for the fuzzer to see, where a tensor that was handed out cannot be read, or an error says not
 * what it must: status ALIBI_BAD_INPUT, or ALIBI_FAILED where memory was out, and a sentence. */
void fuzz_check_tensor(const file_tensor *tensor);
void fuzz_check_error(status result, const alibi_error *error);

status __wrap_mapped_file_open(const char *path, mapped_file *file, alibi_error *error);
void __wrap_mapped_file_close(mapped_file *file);
bool __real_path_exists(const char *path);
bool __wrap_path_exists(const char *path);
bool __real_path_size(const char *path, uint64_t *size);
bool __wrap_path_size(const char *path, uint64_t *size);
bool __real_path_is_directory(const char *path);
bool __wrap_path_is_directory(const char *path);

#endif
