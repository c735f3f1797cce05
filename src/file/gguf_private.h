/* file/gguf_private.h - what the files of the GGUF format share. */
#ifndef FILE_GGUF_PRIVATE_H
#define FILE_GGUF_PRIVATE_H

#include "base/system.h"
#include "file/gguf.h"

struct gguf_file {
  mapped_file map;
  char *path;
  int version;
  size_t alignment;
  gguf_key *key;
  size_t key_count, key_capacity;
  const gguf_key **key_by_name;
  file_tensor *tensor;
  size_t count;
  const file_tensor **by_name;
  char *names; /* of keys and tensors, each NUL-terminated */
};

enum {
  GGUF_KEY_LEAST = 8 + 1 + 4 + 1, /* bytes of the smallest ones */
  GGUF_TENSOR_LEAST = 8 + 1 + 4 + 4 + 8,
  GGUF_ALIGNMENT_LEAST = 8, /* what the format asks for */
  GGUF_ALIGNMENT_MOST = 2 << 20
};

bool gguf_is_alignment(uint64_t bytes);

/* Bytes of a value or element; 0: texts and arrays, which say so themselves, and numbers that are no type. */
size_t gguf_type_bytes(uint32_t type);

/* UTF-8 without a NUL?  A name also holds no control character, so that it can stand in a sentence. */
bool gguf_is_utf8(const void *text, size_t size);
bool gguf_is_name(const void *text, size_t size);

#endif
