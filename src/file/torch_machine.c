/* The machine that runs a pickle.  The one idea: every opcode of the subset moves numbers of values between the
 * stack, the memo and the table, and nothing else; none recurs, none asks for more memory than its bytes are
 * worth. Source of the opcodes: Python's pickletools. */
#include "file/torch_machine.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const char *const torch_kind_names[] = {"None",   "a boolean",    "an integer", "a real",    "a text",  "a tuple",
                                        "a list", "a dictionary", "a name",     "a storage", "a tensor"};

const global_row torch_globals[] = {
    {"torch._utils", "_rebuild_tensor_v2", GLOBAL_TENSOR_V2, 0},
    {"torch._utils", "_rebuild_tensor_v3", GLOBAL_TENSOR_V3, 0},
    {"torch._utils", "_rebuild_parameter", GLOBAL_PARAMETER, 0},
    {"collections", "OrderedDict", GLOBAL_ORDERED, 0},
    {"torch", "FloatStorage", GLOBAL_STORAGE, TENSOR_F32},
    {"torch", "HalfStorage", GLOBAL_STORAGE, TENSOR_F16},
    {"torch", "BFloat16Storage", GLOBAL_STORAGE, TENSOR_BF16},
    {"torch", "DoubleStorage", GLOBAL_STORAGE, TENSOR_F64},
    {"torch", "LongStorage", GLOBAL_STORAGE, TENSOR_I64},
    {"torch", "IntStorage", GLOBAL_STORAGE, TENSOR_I32},
    {"torch", "ShortStorage", GLOBAL_STORAGE, TENSOR_I16},
    {"torch", "CharStorage", GLOBAL_STORAGE, TENSOR_I8},
    {"torch", "ByteStorage", GLOBAL_STORAGE, TENSOR_U8},
    {"torch", "BoolStorage", GLOBAL_STORAGE, TENSOR_BOOL},
    {"torch", "ComplexFloatStorage", GLOBAL_STORAGE, TENSOR_C64},
    {"torch.storage", "UntypedStorage", GLOBAL_BYTES, TENSOR_U8},
    {"torch", "UntypedStorage", GLOBAL_BYTES, TENSOR_U8},
    {"torch", "uint16", GLOBAL_TYPE, TENSOR_U16},
    {"torch", "uint32", GLOBAL_TYPE, TENSOR_U32},
    {"torch", "uint64", GLOBAL_TYPE, TENSOR_U64},
    {"torch", "float8_e4m3fn", GLOBAL_TYPE, TENSOR_F8_E4M3},
    {"torch", "float8_e5m2", GLOBAL_TYPE, TENSOR_F8_E5M2},
    {"torch", "float8_e8m0fnu", GLOBAL_TYPE, TENSOR_F8_E8M0},
    {"torch", "float8_e4m3fnuz", GLOBAL_TYPE, TENSOR_F8_E4M3FNUZ},
    {"torch", "float8_e5m2fnuz", GLOBAL_TYPE, TENSOR_F8_E5M2FNUZ},
};

#define GROW(m, list, wanted)                                                                                     \
  memory_grow(&(m)->list.at, &(m)->list.capacity, (wanted), sizeof *(m)->list.at, (m)->path, (m)->error)

static status damaged(const machine *m, const char *what)
{
  return fail(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: byte %zu: %s", m->path, m->opcode, what);
}

enum { SHOWN = 96, VALUES_MOST = 2000000 /* 20 a tensor; the largest models have 100,000 tensors */ };

/* The beginning of a text, fit for a sentence. */
static const char *shown(const unsigned char *text, size_t size, char out[SHOWN])
{
  size_t kept = size < SHOWN - 4 ? size : SHOWN - 4;
  for (size_t i = 0; i < kept; i++) out[i] = (char)(text[i] < 0x20 || text[i] == 0x7F ? '?' : text[i]);
  strcpy(out + kept, kept < size ? "..." : "");
  return out;
}

/* ---- values and the stack ---- */

static status push(machine *m, handle h)
{
  status result = GROW(m, stack, m->stack.count + 1);
  if (result == ALIBI_OK) m->stack.at[m->stack.count++] = h;
  return result;
}

static status push_value(machine *m, value v)
{
  if (m->values.count == VALUES_MOST) return damaged(m, "it has more values than a dictionary of tensors needs");
  status result = GROW(m, values, m->values.count + 1);
  if (result != ALIBI_OK) return result;
  m->values.at[m->values.count] = v;
  return push(m, (handle)m->values.count++);
}

static status push_kind(machine *m, value_kind kind)
{
  return push_value(m, (value){.kind = kind});
}

static status push_integer(machine *m, value_kind kind, int64_t integer)
{
  return push_value(m, (value){.kind = kind, .as.integer = integer});
}

/* Values above the last mark can be taken, no deeper ones. */
static size_t within_reach(const machine *m)
{
  return m->stack.count - (m->marks.count ? m->marks.at[m->marks.count - 1] : 0);
}

static status pop(machine *m, handle *h)
{
  if (within_reach(m) == 0) return damaged(m, "expected a value on the stack, found none");
  *h = m->stack.at[--m->stack.count];
  return ALIBI_OK;
}

/* The last mark, which goes: how many values are above it. */
static status pop_mark(machine *m, size_t *count)
{
  if (m->marks.count == 0) return damaged(m, "expected a mark on the stack, found none");
  *count = within_reach(m);
  m->marks.count--;
  return ALIBI_OK;
}

/* The value on the stack that an opcode changes. */
static status top(machine *m, value_kind kind, value **v)
{
  if (within_reach(m) == 0) return damaged(m, "expected a value on the stack, found none");
  *v = &m->values.at[m->stack.at[m->stack.count - 1]];
  if ((*v)->kind != kind)
    return fail(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: byte %zu: expected %s, found %s", m->path, m->opcode,
                torch_kind_names[kind], torch_kind_names[(*v)->kind]);
  return ALIBI_OK;
}

/* ---- arguments ---- */

static status take(machine *m, size_t size, const unsigned char **bytes)
{
  if (size > m->size - m->place) return damaged(m, "it ends in the middle of an argument");
  *bytes = m->data + m->place;
  m->place += size;
  return ALIBI_OK;
}

static status take_number(machine *m, size_t width, uint64_t *number)
{
  const unsigned char *bytes = NULL;
  status result = take(m, width, &bytes);
  if (result != ALIBI_OK) return result;
  *number = 0;
  for (size_t i = width; i-- > 0;) *number = *number << 8 | bytes[i];
  return ALIBI_OK;
}

static status take_line(machine *m, const unsigned char **line, size_t *size)
{
  const unsigned char *begin = m->data + m->place, *end = memchr(begin, '\n', m->size - m->place);
  if (!end) return damaged(m, "it ends in the middle of a name");
  *line = begin;
  *size = (size_t)(end - begin);
  m->place += *size + 1;
  return ALIBI_OK;
}

/* ---- opcodes ---- */

static status op_text(machine *m, size_t width)
{
  uint64_t size = 0;
  const unsigned char *text = NULL;
  status result;
  TRY(take_number(m, width, &size));
  if (size > m->size) TRY(damaged(m, "a text is longer than all of it"));
  TRY(take(m, (size_t)size, &text));
  TRY(push_value(m, (value){.kind = VALUE_TEXT, .first = (handle)size, .as.text = (size_t)(text - m->data)}));
done:
  return result;
}

/* Little-endian, two's complement; `width` bytes. */
static status op_long(machine *m)
{
  uint64_t width = 0, number = 0;
  status result;
  TRY(take_number(m, 1, &width));
  if (width > 8) TRY(damaged(m, "expected an integer of at most 64 bits"));
  TRY(take_number(m, (size_t)width, &number));
  if (width > 0 && width < 8 && number >> (8 * width - 1)) number |= UINT64_MAX << 8 * width;
  TRY(push_integer(m, VALUE_INTEGER, (int64_t)number));
done:
  return result;
}

static status op_integer(machine *m, size_t width)
{
  uint64_t number = 0;
  status result = take_number(m, width, &number);
  if (result != ALIBI_OK) return result;
  return push_integer(m, VALUE_INTEGER, width == 4 ? (int64_t)(int32_t)(uint32_t)number : (int64_t)number);
}

static status op_real(machine *m)
{
  const unsigned char *unused = NULL;
  status result = take(m, 8, &unused);
  return result == ALIBI_OK ? push_kind(m, VALUE_REAL) : result;
}

/* The last `count` values become a tuple. */
static status op_tuple(machine *m, size_t count)
{
  status result;
  if (count > within_reach(m)) TRY(damaged(m, "expected more values on the stack for a tuple"));
  TRY(GROW(m, items, m->items.count + count));
  value v = {.kind = VALUE_TUPLE, .first = (handle)m->items.count, .second = (handle)count};
  m->stack.count -= count;
  if (count > 0) memcpy(m->items.at + m->items.count, m->stack.at + m->stack.count, count * sizeof *m->items.at);
  m->items.count += count;
  TRY(push_value(m, v));
done:
  return result;
}

static status op_tuple_from_mark(machine *m)
{
  size_t count = 0;
  status result = pop_mark(m, &count);
  return result == ALIBI_OK ? op_tuple(m, count) : result;
}

static status op_mark(machine *m)
{
  status result = GROW(m, marks, m->marks.count + 1);
  if (result == ALIBI_OK) m->marks.at[m->marks.count++] = m->stack.count;
  return result;
}

/* The last `count` values, key and value in turn, go to the dictionary below them. */
static status op_set(machine *m, size_t count)
{
  value *dictionary = NULL;
  status result;
  if (count % 2 != 0 || count > within_reach(m)) TRY(damaged(m, "expected keys and values on the stack"));
  m->stack.count -= count;
  TRY(top(m, VALUE_DICTIONARY, &dictionary));
  const handle *from = m->stack.at + m->stack.count;
  TRY(GROW(m, pairs, m->pairs.count + count / 2));
  for (size_t i = 0; i < count; i += 2) {
    m->pairs.at[m->pairs.count++] = (pair){from[i], from[i + 1], 0};
    if (dictionary->second) m->pairs.at[dictionary->second - 1].next = (handle)m->pairs.count;
    else dictionary->first = (handle)m->pairs.count;
    dictionary->second = (handle)m->pairs.count;
  }
done:
  return result;
}

/* What lists hold is of no use here. */
static status op_append(machine *m, size_t count)
{
  value *list = NULL;
  if (count > within_reach(m)) return damaged(m, "expected a value on the stack, found none");
  m->stack.count -= count;
  return top(m, VALUE_LIST, &list);
}

static status op_from_mark(machine *m, status (*op)(machine *, size_t))
{
  size_t count = 0;
  status result = pop_mark(m, &count);
  return result == ALIBI_OK ? op(m, count) : result;
}

bool torch_text_is(const unsigned char *text, size_t size, const char *wanted)
{
  return strlen(wanted) == size && memcmp(text, wanted, size) == 0;
}

static status push_global(machine *m, const unsigned char *module, size_t module_size, const unsigned char *name,
                          size_t name_size)
{
  char a[SHOWN], b[SHOWN];
  for (size_t i = 0; i < sizeof torch_globals / sizeof torch_globals[0]; i++)
    if (torch_text_is(module, module_size, torch_globals[i].module) &&
        torch_text_is(name, name_size, torch_globals[i].name))
      return push_value(m, (value){.kind = VALUE_GLOBAL, .first = (handle)i});
  return fail(m->error, ALIBI_BAD_INPUT,
              "%s: data.pkl: expected tensors in dictionaries and no more, found '%s.%s'", m->path,
              shown(module, module_size, a), shown(name, name_size, b));
}

static status op_global(machine *m)
{
  const unsigned char *module = NULL, *name = NULL;
  size_t module_size = 0, name_size = 0;
  status result;
  TRY(take_line(m, &module, &module_size));
  TRY(take_line(m, &name, &name_size));
  TRY(push_global(m, module, module_size, name, name_size));
done:
  return result;
}

static status op_stack_global(machine *m)
{
  handle module = 0, name = 0;
  status result;
  TRY(pop(m, &name));
  TRY(pop(m, &module));
  const value *a = &m->values.at[module], *b = &m->values.at[name];
  if (a->kind != VALUE_TEXT || b->kind != VALUE_TEXT) TRY(damaged(m, "expected a name as two texts"));
  TRY(push_global(m, m->data + a->as.text, a->first, m->data + b->as.text, b->first));
done:
  return result;
}

static status op_persistent(machine *m)
{
  handle h = 0;
  status result = pop(m, &h);
  if (result != ALIBI_OK) return result;
  if (m->values.at[h].kind != VALUE_TUPLE) return damaged(m, "expected a storage's tuple");
  return push_value(m, (value){.kind = VALUE_STORAGE, .first = h});
}

static status op_reduce(machine *m)
{
  handle callee = 0, arguments = 0;
  status result;
  TRY(pop(m, &arguments));
  TRY(pop(m, &callee));
  const value *what = &m->values.at[callee], *with = &m->values.at[arguments];
  if (what->kind != VALUE_GLOBAL || with->kind != VALUE_TUPLE) TRY(damaged(m, "expected a name and a tuple"));
  const global_row *row = &torch_globals[what->first];
  if (row->kind >= GLOBAL_STORAGE)
    RAISE(m->error, ALIBI_BAD_INPUT, "%s: data.pkl: byte %zu: expected no call of %s.%s", m->path, m->opcode,
          row->module, row->name);
  if (row->kind == GLOBAL_ORDERED && with->second != 0)
    TRY(damaged(m, "expected collections.OrderedDict without arguments"));
  if (row->kind == GLOBAL_ORDERED) TRY(push_kind(m, VALUE_DICTIONARY));
  else TRY(push_value(m, (value){.kind = VALUE_CALL, .first = what->first, .second = arguments}));
done:
  return result;
}

/* torch's own notes on a dictionary (_metadata) change no tensor. */
static status op_build(machine *m)
{
  handle state = 0;
  value *target = NULL;
  status result = pop(m, &state);
  if (result != ALIBI_OK) return result;
  if (m->values.at[state].kind != VALUE_DICTIONARY) return damaged(m, "expected a state that is a dictionary");
  return top(m, VALUE_DICTIONARY, &target);
}

static status memo_put(machine *m, uint64_t index)
{
  status result;
  if (within_reach(m) == 0) TRY(damaged(m, "expected a value on the stack, found none"));
  if (index > m->opcode) TRY(damaged(m, "the number of a memo is larger than there can be")); /* a byte each */
  TRY(GROW(m, memo, (size_t)index + 1));
  for (; m->memo.count <= index; m->memo.count++) m->memo.at[m->memo.count] = 0;
  m->memo.at[index] = m->stack.at[m->stack.count - 1] + 1;
done:
  return result;
}

static status op_put(machine *m, size_t width)
{
  uint64_t index = 0;
  status result = take_number(m, width, &index);
  return result == ALIBI_OK ? memo_put(m, index) : result;
}

static status op_get(machine *m, size_t width)
{
  uint64_t index = 0;
  status result = take_number(m, width, &index);
  if (result != ALIBI_OK) return result;
  if (index >= m->memo.count || m->memo.at[index] == 0) return damaged(m, "expected a memo, found none");
  return push(m, m->memo.at[index] - 1);
}

/* Opcodes that are known and refused get their name into the sentence. */
static status op_refused(const machine *m, unsigned char opcode)
{
  static const struct {
    unsigned char opcode;
    const char *name;
  } names[] = {{'i', " (INST)"},   {'o', " (OBJ)"},      {0x81, " (NEWOBJ)"},        {0x92, " (NEWOBJ_EX)"},
               {'P', " (PERSID)"}, {0x82, " (EXT1)"},    {0x83, " (EXT2)"},          {0x84, " (EXT4)"},
               {0x8b, " (LONG4)"}, {'B', " (BINBYTES)"}, {'C', " (SHORT_BINBYTES)"}, {0x97, " (NEXT_BUFFER)"}};
  const char *name = "";
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].opcode == opcode) name = names[i].name;
  return fail(m->error, ALIBI_BAD_INPUT,
              "%s: data.pkl: byte %zu: expected an opcode that torch.save writes, found %#04x%s", m->path,
              m->opcode, opcode, name);
}

static status op_protocol(machine *m)
{
  uint64_t version = 0;
  status result = take_number(m, 1, &version);
  if (result != ALIBI_OK) return result;
  if (m->opcode != 0 || version < 2 || version > 5) return damaged(m, "expected protocol 2 to 5 of pickle, once");
  return ALIBI_OK;
}

static status op_frame(machine *m)
{
  uint64_t size = 0;
  status result = take_number(m, 8, &size);
  if (result != ALIBI_OK) return result;
  return size <= m->size - m->place ? ALIBI_OK : damaged(m, "a frame is longer than all of it");
}

static status step(machine *m, unsigned char opcode)
{
  switch (opcode) {
  case 0x80: return op_protocol(m);
  case 0x95: return op_frame(m);
  case 'N': return push_kind(m, VALUE_NONE);
  case 0x88: return push_integer(m, VALUE_BOOLEAN, 1);
  case 0x89: return push_integer(m, VALUE_BOOLEAN, 0);
  case 'K': return op_integer(m, 1);
  case 'M': return op_integer(m, 2);
  case 'J': return op_integer(m, 4);
  case 0x8a: return op_long(m);
  case 'G': return op_real(m);
  case 0x8c: return op_text(m, 1);
  case 'X': return op_text(m, 4);
  case 0x8d: return op_text(m, 8);
  case '(': return op_mark(m);
  case ')': return op_tuple(m, 0);
  case 0x85: return op_tuple(m, 1);
  case 0x86: return op_tuple(m, 2);
  case 0x87: return op_tuple(m, 3);
  case 't': return op_tuple_from_mark(m);
  case ']': return push_kind(m, VALUE_LIST);
  case 'a': return op_append(m, 1);
  case 'e': return op_from_mark(m, op_append);
  case '}': return push_kind(m, VALUE_DICTIONARY);
  case 's': return op_set(m, 2);
  case 'u': return op_from_mark(m, op_set);
  case 'c': return op_global(m);
  case 0x93: return op_stack_global(m);
  case 'Q': return op_persistent(m);
  case 'R': return op_reduce(m);
  case 'b': return op_build(m);
  case 'q': return op_put(m, 1);
  case 'r': return op_put(m, 4);
  case 0x94: return memo_put(m, m->memo.count);
  case 'h': return op_get(m, 1);
  case 'j': return op_get(m, 4);
  default: return op_refused(m, opcode);
  }
}

status torch_machine_run(machine *m, handle *root)
{
  status result;
  for (;;) {
    m->opcode = m->place;
    if (m->place == m->size) TRY(damaged(m, "it ends without its last opcode"));
    unsigned char opcode = m->data[m->place++];
    if (m->opcode == 0 && opcode != 0x80) TRY(damaged(m, "expected protocol 2 to 5 of pickle"));
    if (opcode == '.') break;
    TRY(step(m, opcode));
  }
  TRY(pop(m, root));
  if (m->stack.count != 0 || m->marks.count != 0) TRY(damaged(m, "more than one value is left on the stack"));
  if (m->place != m->size) TRY(damaged(m, "bytes follow its last opcode"));
done:
  return result;
}

void torch_machine_free(machine *m)
{
  free(m->values.at);
  free(m->items.at);
  free(m->pairs.at);
  free(m->stack.at);
  free(m->marks.at);
  free(m->memo.at);
}
