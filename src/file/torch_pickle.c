/* What a pickle of torch.save means.  The one idea: from the dictionary that is left on top, every tensor is read
 * down a fixed number of steps of the machine's table, so that neither a cycle nor a deep nesting can hurt. */
#include "file/torch_pickle.h"

#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "file/torch_machine.h"

enum { STORAGE_NAME_MOST = 20, TENSORS_MOST = 1 << 18 /* the largest models have 100,000 */ };

/* What was read of one tensor so far: its name and the machine, for sentences. */
typedef struct claim {
  const machine *m;
  const char *name;
} claim;

static status refuse(const claim *c, const char *what, const char *expected, const value *found)
{
  return fail(c->m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': %s: expected %s, found %s", c->m->path, c->name,
              what, expected, torch_kind_names[found->kind]);
}

static const value *item(const machine *m, const value *tuple, size_t i)
{
  return &m->values.at[m->items.at[tuple->first + i]];
}

static bool size_of(const value *v, size_t *size)
{
  if (v->kind != VALUE_INTEGER || v->as.integer < 0 || (uint64_t)v->as.integer > PTRDIFF_MAX) return false;
  *size = (size_t)v->as.integer;
  return true;
}

static status read_sizes(const claim *c, const char *what, const value *tuple, size_t *sizes, int *dimensions)
{
  if (tuple->kind != VALUE_TUPLE) return refuse(c, what, "a tuple", tuple);
  if (tuple->second > TENSOR_MAX_DIMENSIONS)
    return fail(c->m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected at most %d dimensions, found %u",
                c->m->path, c->name, TENSOR_MAX_DIMENSIONS, (unsigned)tuple->second);
  *dimensions = (int)tuple->second;
  for (size_t i = 0; i < tuple->second; i++)
    if (!size_of(item(c->m, tuple, i), &sizes[i])) return refuse(c, what, "sizes", item(c->m, tuple, i));
  return ALIBI_OK;
}

/* The text as a C string at *texts, which moves on. */
static bool keep_text(const machine *m, const value *v, char **texts, const char **text)
{
  if (memchr(m->data + v->as.text, 0, v->first)) return false;
  memcpy(*texts, m->data + v->as.text, v->first);
  (*texts)[v->first] = '\0';
  *text = *texts;
  *texts += v->first + 1;
  return true;
}

/* ("storage", torch.FloatStorage, key, device, elements) */
static status read_storage(const claim *c, const value *storage, char **texts, torch_tensor *t, bool *bytes)
{
  const machine *m = c->m;
  size_t elements;
  if (storage->kind != VALUE_STORAGE) return refuse(c, "its data", "a storage", storage);
  const value *tuple = &m->values.at[storage->first];
  const value *type = tuple->second == 5 ? item(m, tuple, 1) : NULL, *word = type ? item(m, tuple, 0) : NULL;
  if (!type || word->kind != VALUE_TEXT || !torch_text_is(m->data + word->as.text, word->first, "storage") ||
      type->kind != VALUE_GLOBAL || item(m, tuple, 2)->kind != VALUE_TEXT ||
      !size_of(item(m, tuple, 4), &elements))
    return fail(m->error, ALIBI_BAD_INPUT,
                "%s: tensor '%s': expected a storage of five parts as torch.save has it", m->path, c->name);
  const global_row *row = &torch_globals[type->first];
  if (row->kind != GLOBAL_STORAGE && row->kind != GLOBAL_BYTES)
    return fail(m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected a type of storage, found %s.%s", m->path,
                c->name, row->module, row->name);
  if (item(m, tuple, 2)->first > STORAGE_NAME_MOST || !keep_text(m, item(m, tuple, 2), texts, &t->storage))
    return fail(m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected a number as the name of its storage",
                m->path, c->name);
  t->type = row->type;
  t->storage_bytes = size_mul(elements, tensor_type_bytes(row->type));
  *bytes = row->kind == GLOBAL_BYTES;
  return ALIBI_OK;
}

/* (storage, offset, size, stride, requires_grad, hooks[, type][, metadata]) */
static status read_tensor(const claim *c, const value *call, char **texts, torch_tensor *t)
{
  const machine *m = c->m;
  bool typed = torch_globals[call->first].kind == GLOBAL_TENSOR_V3, bytes = false;
  const value *tuple = &m->values.at[call->second];
  size_t least = typed ? 7 : 6;
  int strides = 0;
  status result;
  if (tuple->second != least && tuple->second != least + 1)
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %zu parts as torch.save has them, found %u",
          m->path, c->name, least, (unsigned)tuple->second);
  TRY(read_storage(c, item(m, tuple, 0), texts, t, &bytes));
  if (!size_of(item(m, tuple, 1), &t->offset)) TRY(refuse(c, "its offset", "a size", item(m, tuple, 1)));
  TRY(read_sizes(c, "its shape", item(m, tuple, 2), t->shape, &t->dimensions));
  TRY(read_sizes(c, "its strides", item(m, tuple, 3), t->stride, &strides));
  if (strides != t->dimensions)
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected %d strides, found %d", m->path, c->name,
          t->dimensions, strides);
  if (item(m, tuple, 4)->kind != VALUE_BOOLEAN) TRY(refuse(c, "requires_grad", "a boolean", item(m, tuple, 4)));
  const value *hooks = item(m, tuple, 5);
  if (hooks->kind != VALUE_NONE && (hooks->kind != VALUE_DICTIONARY || hooks->first != 0))
    TRY(refuse(c, "its hooks", "none", hooks));
  if (typed) {
    const value *type = item(m, tuple, 6);
    if (type->kind != VALUE_GLOBAL || torch_globals[type->first].kind != GLOBAL_TYPE)
      TRY(refuse(c, "its type", "the name of a type", type));
    t->type = torch_globals[type->first].type;
  } else if (bytes) {
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected a storage with a type", m->path, c->name);
  }
  const value *notes = tuple->second > least ? item(m, tuple, least) : NULL; /* such as a conjugate bit */
  if (notes && notes->kind != VALUE_NONE && (notes->kind != VALUE_DICTIONARY || notes->first != 0))
    TRY(refuse(c, "its metadata", "none", notes));
done:
  return result;
}

/* A parameter wraps a tensor: (tensor, requires_grad, hooks). */
static status unwrap(const claim *c, const value **call)
{
  const machine *m = c->m;
  const value *v = *call;
  if (v->kind == VALUE_CALL && torch_globals[v->first].kind == GLOBAL_PARAMETER) {
    const value *tuple = &m->values.at[v->second];
    if (tuple->second != 3)
      return fail(m->error, ALIBI_BAD_INPUT, "%s: tensor '%s': expected a parameter of 3 parts, found %u", m->path,
                  c->name, (unsigned)tuple->second);
    v = item(m, tuple, 0);
    if (v->kind == VALUE_CALL && torch_globals[v->first].kind == GLOBAL_PARAMETER)
      return fail(m->error, ALIBI_BAD_INPUT,
                  "%s: tensor '%s': expected a tensor, found a parameter in a parameter", m->path, c->name);
  }
  if (v->kind != VALUE_CALL)
    return fail(m->error, ALIBI_BAD_INPUT, "%s: key '%s': expected a tensor, found %s", m->path, c->name,
                torch_kind_names[v->kind]);
  *call = v;
  return ALIBI_OK;
}

static status read_pair(const machine *m, const pair *p, char **texts, torch_tensor *t)
{
  const value *key = &m->values.at[p->key], *v = &m->values.at[p->value];
  status result;
  if (key->kind != VALUE_TEXT)
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: expected texts as keys, found %s", m->path,
          torch_kind_names[key->kind]);
  if (key->first > TENSOR_NAME_MOST)
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: expected names of tensors of at most %d bytes, found %u",
          m->path, TENSOR_NAME_MOST, (unsigned)key->first);
  if (!keep_text(m, key, texts, &t->name))
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: the name of a tensor has a NUL", m->path);
  claim c = {m, t->name};
  TRY(unwrap(&c, &v));
  TRY(read_tensor(&c, v, texts, t));
done:
  return result;
}

/* Pairs, and the bytes that their names and storages take.  A key may be the same long text each time: counted
 * before memory is asked for. */
static status count_pairs(const machine *m, const value *root, size_t *count, size_t *bytes)
{
  *count = *bytes = 0;
  for (handle at = root->first; at; at = m->pairs.at[at - 1].next) {
    const value *key = &m->values.at[m->pairs.at[at - 1].key];
    *bytes += key->kind == VALUE_TEXT ? key->first : 0;
    if (++*count > TENSORS_MOST)
      return fail(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: expected at most %d tensors, found more", m->path,
                  TENSORS_MOST);
    if (*bytes > m->size)
      return fail(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: expected tensors with different names", m->path);
  }
  *bytes += *count * (STORAGE_NAME_MOST + 2);
  return ALIBI_OK;
}

static status read_root(const machine *m, handle root, torch_tensor_list *list)
{
  const value *v = &m->values.at[root];
  size_t count = 0, bytes = 0;
  status result;
  if (v->kind != VALUE_DICTIONARY)
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: expected a dictionary of tensors, found %s", m->path,
          torch_kind_names[v->kind]);
  TRY(count_pairs(m, v, &count, &bytes));
  TRY(memory_new(&list->items, count, sizeof *list->items, m->path, m->error));
  TRY(memory_new(&list->texts, bytes, 1, m->path, m->error));
  char *texts = list->texts;
  for (handle at = v->first; at; at = m->pairs.at[at - 1].next, list->count++)
    TRY(read_pair(m, &m->pairs.at[at - 1], &texts, &list->items[list->count]));
done:
  return result;
}

status torch_pickle_read(const char *path, const unsigned char *data, size_t size, torch_tensor_list *list,
                         alibi_error *error)
{
  machine m = {.path = path, .data = data, .size = size, .error = error};
  handle root = 0;
  status result;
  *list = (torch_tensor_list){0};
  if (size > TORCH_PICKLE_MOST)
    RAISE(error, ALIBI_BAD_INPUT, "%s: data.pkl: expected at most %d bytes, found %zu", path, TORCH_PICKLE_MOST,
          size);
  TRY(torch_machine_run(&m, &root));
  TRY(read_root(&m, root, list));
done:
  torch_machine_free(&m);
  if (result != ALIBI_OK) torch_tensor_list_free(list);
  return result;
}

void torch_tensor_list_free(torch_tensor_list *list)
{
  memory_free(list->items);
  memory_free(list->texts);
  *list = (torch_tensor_list){0};
}
