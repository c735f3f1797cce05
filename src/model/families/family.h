/* model/families/family.h - the seam of model families: what a public model's files say, in the words of ours.
 *
 * A family is one file and one `const model_family`: it reads the configuration (config.json, or the keys of a
 * GGUF file) into an alibi_model_config, for the block is data, and says in a table of rules in which tensors of
 * the file each of our parameters lies.  Everything else is here: which keys were asked for, where tensors are
 * looked for, shapes and types, what is left over. */
#ifndef MODEL_FAMILIES_FAMILY_H
#define MODEL_FAMILIES_FAMILY_H

#include "file/json.h"
#include "file/tensor_file.h"
#include "model/families/family_keys.h"
#include "model/families/family_notes.h"
#include "model/model.h"

/* How the rows of our parameter lie in theirs.  (A vector is a matrix of one column.) */
typedef enum tensor_layout {
  LAYOUT_ROWS = 0, /* as they are; of several tensors one after the other */
  LAYOUT_GROUPS, /* queries, keys and values in one tensor: of every key-value head its queries, its key, its value
                  */
  LAYOUT_TURNED, /* stored [in, out] (transformers' Conv1D); a vector as it is */
  LAYOUT_SWAPPED,    /* the second half of the rows first */
  LAYOUT_NORMALISED, /* every row divided by its length */
  LAYOUT_FIRST_ROW   /* our vector is the first row of a table */
} tensor_layout;

enum { TENSOR_RULE_PARTS = 3 };

/* ours: the name of a parameter, or what comes before its last word; '*' is the number of a block.  theirs: the
 * tensors that hold it, one after the other; with a prefix of the family, or at the top where a name begins with
 * '/'.  Where ours has no last word, that of theirs follows: weight and gain are "weight", bias and shift "bias".
 * Of several rules for a parameter the first counts all of whose tensors are in the file; else the first. */
typedef struct tensor_rule {
  const char *ours, *theirs[TENSOR_RULE_PARTS];
  tensor_layout layout;
} tensor_rule;

struct family_opening;

/* How a family's GGUF files are written (families/family_write.h).  architecture NULL: they are not. */
struct gguf_key_writer;
typedef struct gguf_form {
  const char *architecture;
  bool split;      /* queries, keys and values are tensors of their own */
  bool rotary;     /* keys of rotary positions */
  bool neighbours; /* which turn neighbouring channels, so that rows of queries and keys are exchanged */
  bool divisors;   /* of frequencies in a tensor: what Llama 3's scaling becomes */
  bool rms_key;    /* epsilon has the name of RMSNorm's, whatever the norm is */
  void (*put)(const struct gguf_key_writer *w, const alibi_model_config *config); /* keys of its own; NULL: none */
  /* What other readers cannot do without, though ours can: "a model with ..."; NULL: nothing. */
  const char *(*lacks)(const alibi_model_config *config);
} gguf_form;

/* How a family's directories for transformers are written (families/family_publish.h).  architecture NULL: they
 * are not. */
typedef struct published_form {
  const char *architecture; /* the class that runs it: "MptForCausalLM" */
  const char *trained;      /* what it is like, where that class is transformers' own and a model that was trained
                               here may become one: "alibi, gelu"; NULL: it may not */
  void (*put)(json_node *object, const alibi_model_config *config); /* its keys, but for those that all have */
  /* Of which of two rules for a parameter its files are; NULL: the first. */
  bool (*fits)(const void *form, const tensor_rule *rule, const alibi_model_config *config);
  const char *(*lacks)(const alibi_model_config *config); /* as in gguf_form, of that class */
} published_form;

/* Lists end with NULL, rules with one whose ours is NULL.  What is not there may be NULL. */
typedef struct model_family {
  const char *name;            /* "bloom" */
  const char *const *types;    /* values of model_type in config.json */
  const char *const *gguf;     /* values of general.architecture */
  const char *const *prefixes; /* of tensor names, "" among them; the first with which `embedding` is there */
  const char *embedding;       /* the tensor that is looked for: "wte.weight" */
  /* From config.json, and from GGUF keys (without their architecture's name before them).  What is wrong is told
   * to o->keys (keys_fail), so nothing is returned. */
  void (*configure)(struct family_opening *o, alibi_model_config *config);
  void (*configure_gguf)(struct family_opening *o, alibi_model_config *config);
  const tensor_rule
      *rules; /* of safetensors and PyTorch files; of GGUF those of family_gguf.c, after gguf_rules */
  const tensor_rule *gguf_rules;
  const char *const *ignored; /* tensors that change no number, with '*' for any text, and without a prefix */
  gguf_form written;
  published_form published;
} model_family;

/* What a model is opened with, and what is known so far. */
typedef struct family_opening {
  const model_family *family;
  const char *path; /* of the configuration, for sentences */
  const tensor_file *file;
  bool gguf;
  const char *prefix; /* of tensor names */
  bool reference;     /* numerics: the family's own rounding where it has one */
  bool rounds;        /* and it has */
  family_keys *keys;
  family_notes *notes;
  tensor_layout head;            /* of the output weight: LAYOUT_ROWS, or LAYOUT_NORMALISED */
  bool scale_by_layer;           /* scores of block l are divided by l + 1 */
  const file_tensor *divisors;   /* of rotary frequencies, which became settings; or NULL */
  const file_tensor *spare_head; /* an output weight beside a model that uses the embedding; or NULL */
} family_opening;

size_t model_family_count(void);
const model_family *model_family_at(size_t index);
const model_family *model_family_of_type(const char *type);         /* NULL: none */
const model_family *model_family_of_gguf(const char *architecture); /* NULL: none */
void model_family_types(bool gguf, char *text, size_t size);        /* "bloom, mpt, ..." for messages */

/* ---- for families ---- */

/* A tensor by a rule's name (see above), of block 0 where it has a '*'; NULL where there is none. */
const file_tensor *family_tensor(const family_opening *o, const char *name);

/* A field of the configuration by its name, or a setting of the method ("alibi_max_bias"). */
void family_set(family_opening *o, alibi_model_config *config, const char *name, const char *value);
void family_set_number(family_opening *o, alibi_model_config *config, const char *name, double value);

/* vocabulary: the rows of the embedding, which are at least as many as the key says (where it is there). */
void family_set_vocabulary(family_opening *o, alibi_model_config *config, const char *key);
/* tied, from tie_word_embeddings; where the key is absent `otherwise`, as the reference has it.  head: their
 * tensor of the output weight, as rules name it. */
void family_set_tied(family_opening *o, alibi_model_config *config, const char *head, bool otherwise);
/* ALiBi with the family's rounding, if it was asked for ("bfloat16-keys"; NULL: the family has none). */
void family_set_alibi(family_opening *o, alibi_model_config *config, const char *rounding);
/* ALiBi's slopes head by head. */
void family_take_slopes(family_opening *o, alibi_model_config *config, const float *slopes, size_t count);
/* Stored slopes, where there is such a tensor: checked against the rule, and taken where they differ. */
void family_set_slopes(family_opening *o, alibi_model_config *config, const char *tensor);
/* From the name of an activation function as transformers has them; gated: of the half that gates. */
void family_set_activation(family_opening *o, alibi_model_config *config, const char *keys, const char *otherwise,
                           bool gated);

/* Keys that all GGUF architectures have: sizes, heads, epsilon, tied; biases by the tensors that are there. */
void family_configure_gguf(family_opening *o, alibi_model_config *config);
extern const tensor_rule family_gguf_rules[];

/* ---- for model_open ---- */

/* Everything of the opening that needs no memory for weights: config is resolved, all keys are understood. */
status family_configure(family_opening *o, alibi_model_config *config, alibi_error *error);
/* A model whose weights lie in the file, which it does not own yet. */
status family_load(family_opening *o, alibi_context *context, const alibi_model_config *config,
                   alibi_model **model, alibi_error *error);

#endif
