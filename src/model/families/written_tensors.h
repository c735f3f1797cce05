/* model/families/written_tensors.h - a model's parameters as tensors of another file: each holds some rows of a
 * parameter in the order in which a family stores them, and is given out row by row, so that none is ever held.
 * Within families/ only. */
#ifndef MODEL_FAMILIES_WRITTEN_TENSORS_H
#define MODEL_FAMILIES_WRITTEN_TENSORS_H

#include "model/families/family_tensors.h"
#include "model/tensor_writing.h"

typedef struct written_tensor {
  char name[FAMILY_NAME_SIZE];
  const parameter *p;   /* or NULL: */
  const float *numbers; /* of no parameter, borrowed */
  matrix w;             /* all of p, where it lies elsewhere */
  matrix_part part;     /* of w, where it is not as the model has it */
  size_t first, rows;   /* of p */
  tensor_layout layout;
  weight_type type;
} written_tensor;

typedef struct written_tensors {
  const alibi_model *model;
  tensor_writing *writing;
  weight_type type;    /* of matrices, or WEIGHT_TYPES: as stored */
  weight_type vectors; /* of the others, where it holds all of their numbers; else F32 */
  bool neighbours;     /* channels that turn together are neighbours in the file */
  bool sketch;         /* tensors are holes */
  written_tensor *items;
  file_tensor *list; /* what a writer is told of each */
  size_t count;
} written_tensors;

status written_tensors_new(const alibi_model *model, tensor_writing *writing, written_tensors *all,
                           alibi_error *error);
void written_tensors_free(written_tensors *all);

/* By which rules names are given. */
typedef struct written_names {
  const tensor_rule *tables[2]; /* the first rule that is for a parameter, and fits, counts; NULL: none */
  const char *prefix;           /* of names */
  /* Is a rule for files of a model with this configuration?  NULL: all are. */
  bool (*fits)(const void *form, const tensor_rule *rule, const alibi_model_config *config);
  const void *form;
  const char *what; /* begins a sentence: "GGUF, architecture mpt" */
} written_names;

/* All parameters of the model.  ALIBI_INVALID where one has no name. */
status written_add_all(written_tensors *all, const written_names *names, alibi_error *error);
/* A vector of its own. */
void written_add_numbers(written_tensors *all, const char *name, const float *numbers, size_t count);

/* For writers; with `sketch` zeros that take no room on the disk. */
tensor_source written_source(written_tensors *all);
/* The type of most of the numbers. */
weight_type written_type(const written_tensors *all);
/* Of the weights of a model as they are stored. */
weight_type written_stored_type(const alibi_model *model);
/* The type that a matrix with so many columns gets. */
weight_type written_type_for(weight_type wanted, weight_type stored, size_t columns);

#endif
