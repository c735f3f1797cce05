/* alibi/convert.h - a model from one format or type of numbers to another.
 *
 * What is not changed is copied to the bit: a model that is written in the types it is stored in computes the same
 * bits in every format. */
#ifndef ALIBI_CONVERT_H
#define ALIBI_CONVERT_H

#include "alibi/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum alibi_format {
  ALIBI_FORMAT_ALIBI = 0,   /* a directory of alibi_model_save, fp32: it can be trained on */
  ALIBI_FORMAT_SAFETENSORS, /* a directory for transformers: of one the same names and configuration, else in the
                               words of the model's family */
  ALIBI_FORMAT_GGUF         /* one file with its configuration and tokenizer */
} alibi_format;

/* Told now and then, on the calling thread: bytes of the new model's tensors that are written, and of all. */
typedef void alibi_convert_progress(void *user, int64_t done, int64_t total);

typedef struct alibi_convert_options {
  size_t size;      /* sizeof(alibi_convert_options), set by alibi_convert_options_init */
  int format;       /* alibi_format */
  const char *type; /* of matrices: "F32", "F16", "BF16"; for GGUF also "Q8_0", "Q4_0", "Q4_K"; NULL: as they are
                       stored. Rows that are no whole number of a type's blocks become Q8_0, or F16 */
  int64_t shard_bytes;              /* safetensors: of data in a file at most; one tensor may be larger */
  const char *const *ignore_config; /* as in alibi_open_options */
  alibi_convert_progress *progress; /* or NULL */
  void *user;
  int without_tokenizer; /* 1: it is left out, where the new format cannot hold it or it is not known here */
} alibi_convert_options;

ALIBI_API void alibi_convert_options_init(alibi_convert_options *options);

/* path: whatever alibi_model_open takes.  A model of our own format becomes one of the first public family that
 * says all of it.  out: a directory, or for GGUF a file; neither may exist.  ALIBI_INVALID where a format has no
 * words for this model, or a type no place for one of its numbers; ALIBI_BAD_INPUT where a number that is to
 * change its type is NaN or infinite.  Those that keep it are copied, and the context's log warns of them.
 * Nothing is held but a row: a model may be larger than memory.  Whatever fails, a cancel of the context too,
 * leaves nothing behind. */
ALIBI_API alibi_status alibi_model_convert(alibi_context *context, const char *path, const char *out,
                                           const alibi_convert_options *options, alibi_error *error);

#ifdef __cplusplus
}
#endif
#endif
