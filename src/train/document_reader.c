/* Documents out of files.  A file is mapped; what is packed runs through a window that slides over the unpacked
 * bytes and holds at least the line it gives out. */
#include "train/document_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/directory.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/system.h"
#include "file/compressed.h"

enum { WALK_DEPTH = 64, LINE_WITHIN = 4096, WINDOW = 1 << 18 };

/* ---- which files ---- */

static size_t without_ending(const char *name, size_t length, const char *ending)
{
  size_t size = strlen(ending);
  return length > size && strncmp(name + length - size, ending, size) == 0 ? length - size : length;
}

static bool ends_in(const char *name, size_t length, const char *const *endings)
{
  for (; *endings; endings++)
    if (without_ending(name, length, *endings) < length) return true;
  return false;
}

/* What the name of a file says; TEXT_BY_NAME: nothing. */
static text_format format_of(const char *name)
{
  static const char *const lines[] = {".jsonl", ".jsonlines", ".json-lines", ".ndjson", NULL};
  static const char *const plain[] = {".txt", ".text", ".md", NULL};
  size_t length = strlen(name), kept = without_ending(name, length, ".gz");
  if (kept == length) kept = without_ending(name, length, ".zst");
  return ends_in(name, kept, lines) ? TEXT_JSON_LINES : ends_in(name, kept, plain) ? TEXT_PLAIN : TEXT_BY_NAME;
}

static status add_file(text_list *list, const char *path, text_format format, bool held_out, bool walked,
                       alibi_error *error)
{
  status result =
      memory_grow(&list->files, &list->capacity, list->count + 1, sizeof *list->files, "the texts", error);
  if (result != ALIBI_OK) return result;
  text_file *file = &list->files[list->count];
  *file = (text_file){strdup(path), format == TEXT_JSON_LINES, held_out, walked, TEXT_FILE_STREAM};
  if (!file->path) return fail(error, ALIBI_FAILED, "not enough memory for the names of the texts");
  if (!path_size(path, &file->bytes)) file->bytes = TEXT_FILE_STREAM;
  list->count++;
  return ALIBI_OK;
}

static status walk(text_list *list, const char *path, text_format format, bool held_out, int depth,
                   alibi_error *error)
{
  directory_list names = {0};
  char *inside = NULL;
  status result = ALIBI_OK;
  if (depth == WALK_DEPTH)
    RAISE(error, ALIBI_BAD_INPUT, "%s: more than %d folders within each other", path, WALK_DEPTH);
  TRY(directory_read(path, &names, error));
  for (size_t i = 0; i < names.count; i++) {
    if (names.names[i][0] == '.') continue;
    free(inside);
    inside = path_join(path, names.names[i]);
    if (!inside) RAISE(error, ALIBI_FAILED, "not enough memory for the names of the texts");
    text_format found = format == TEXT_BY_NAME ? format_of(inside) : format;
    if (path_is_directory(inside)) TRY(walk(list, inside, format, held_out, depth + 1, error));
    else if (found == TEXT_BY_NAME) list->left_out++;
    else TRY(add_file(list, inside, found, held_out, true, error));
  }
done:
  free(inside);
  directory_list_free(&names);
  return result;
}

status text_list_add(text_list *list, const char *path, text_format format, bool held_out, alibi_error *error)
{
  if (!path_is_directory(path))
    return add_file(list, path, format == TEXT_BY_NAME ? format_of(path) : format, held_out, false, error);
  size_t before = list->count;
  status result = walk(list, path, format, held_out, 0, error);
  if (result == ALIBI_OK && list->count == before)
    return fail(
        error, ALIBI_BAD_INPUT,
        "%s: expected texts in this folder (.txt, .text, .md, .jsonl, with or without .gz or .zst), found none",
        path);
  return result;
}

status text_list_add_all(text_list *list, const char *option, const char *paths, text_format format, bool held_out,
                         alibi_error *error)
{
  char *copy = strdup(paths);
  const char *rest = copy, *path;
  status result = ALIBI_OK;
  if (!copy) RAISE(error, ALIBI_FAILED, "not enough memory for the names of the texts");
  for (size_t item = 1, size; rest; item++) {
    path = rest;
    if (path_exists(path)) rest = NULL;
    else {
      list_next(&rest, &path, &size);
      if (size == 0) RAISE(error, ALIBI_INVALID, "%s: item %zu of '%.200s' is empty", option, item, paths);
      copy[(size_t)(path - copy) + size] = '\0';
    }
    TRY(text_list_add(list, path, format, held_out, error));
  }
done:
  free(copy);
  return result;
}

void text_list_free(text_list *list)
{
  for (size_t i = 0; i < list->count; i++) free(list->files[i].path);
  free(list->files);
  *list = (text_list){0};
}

/* ---- what is in them ---- */

struct document_reader {
  const char *path;
  mapped_file map;
  byte_stream *stream; /* NULL: nothing is packed */
  bool lines, finished;
  size_t line;
  /* Lines lie in the map, or in the window where the file is packed. */
  unsigned char *window;
  size_t capacity, begin, end; /* of what is not given out yet */
  unsigned char *whole;        /* a packed plain text */
};

status document_reader_open(const text_file *file, document_reader **reader, alibi_error *error)
{
  document_reader *r = calloc(1, sizeof *r);
  *reader = r;
  if (!r) return fail(error, ALIBI_FAILED, "%s: not enough memory to read it", file->path);
  status result;
  r->path = file->path;
  r->lines = file->lines;
  TRY(mapped_file_open(file->path, &r->map, error));
  compression packed = compression_of(r->map.data, r->map.size);
  if (packed != COMPRESSION_NONE) {
    TRY(byte_stream_open(r->path, packed, r->map.data, r->map.size, &r->stream, error));
  } else {
    static const char *const packed_endings[] = {".gz", ".zst", NULL};
    r->end = r->map.size;
    if (r->map.size > 0 && ends_in(r->path, strlen(r->path), packed_endings))
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected gzip or zstd data, found another beginning", r->path);
  }
done:
  if (result != ALIBI_OK) {
    document_reader_close(r);
    *reader = NULL;
  }
  return result;
}

/* More of a packed file into the window; what is not given out yet moves to its front.  *more: something came. */
static status slide(document_reader *r, bool *more, alibi_error *error)
{
  size_t got, kept = r->end - r->begin;
  if (kept > 0 && r->begin > 0) memmove(r->window, r->window + r->begin, kept);
  r->begin = 0;
  r->end = kept;
  status result = memory_grow(&r->window, &r->capacity, kept + WINDOW, 1, "a line", error);
  if (result == ALIBI_OK) result = byte_stream_read(r->stream, r->window + kept, r->capacity - kept, &got, error);
  if (result != ALIBI_OK) return result;
  r->end += got;
  *more = got > 0;
  return ALIBI_OK;
}

/* The next line without its end, blank or not; data NULL at the end. */
static status next_line(document_reader *r, document *next, alibi_error *error)
{
  size_t searched = 0;
  bool more = r->stream != NULL;
  for (;;) {
    const unsigned char *bytes = r->stream ? r->window : r->map.data, *from = bytes ? bytes + r->begin : NULL;
    size_t there = r->end - r->begin;
    const unsigned char *line_end = there > searched ? memchr(from + searched, '\n', there - searched) : NULL;
    if (line_end || (!more && there > 0)) {
      next->data = from;
      next->size = line_end ? (size_t)(line_end - from) : there;
      next->line = ++r->line;
      r->begin += next->size + (line_end != NULL);
      return ALIBI_OK;
    }
    if (!more) return ALIBI_OK;
    searched = there;
    status result = slide(r, &more, error);
    if (result != ALIBI_OK) return result;
  }
}

static bool is_blank(const document *line)
{
  for (size_t i = 0; i < line->size; i++)
    if (!strchr(" \t\r", line->data[i]) || line->data[i] == '\0') return false;
  return true;
}

static status whole_text(document_reader *r, document *next, alibi_error *error)
{
  if (r->finished) return ALIBI_OK;
  r->finished = true;
  next->data = r->map.data;
  next->size = r->map.size;
  if (!r->stream) return ALIBI_OK;
  status result = byte_stream_read_all(r->stream, &r->whole, &next->size, error);
  next->data = r->whole;
  return result;
}

status document_reader_next(document_reader *r, document *next, alibi_error *error)
{
  static const unsigned char mark[] = {0xef, 0xbb, 0xbf}; /* of byte order, which JSON may not have but files do */
  *next = (document){0};
  if (!r->lines) return whole_text(r, next, error);
  do {
    *next = (document){0};
    status result = next_line(r, next, error);
    if (result != ALIBI_OK || !next->data) return result;
    if (next->line == 1 && next->size >= sizeof mark && memcmp(next->data, mark, sizeof mark) == 0) {
      next->data += sizeof mark;
      next->size -= sizeof mark;
    }
  } while (is_blank(next));
  return ALIBI_OK;
}

size_t document_reader_position(const document_reader *r)
{
  if (r->stream) return byte_stream_position(r->stream);
  return r->lines ? r->begin : r->finished ? r->map.size : 0;
}

size_t document_reader_size(const document_reader *r)
{
  return r->map.size;
}

void document_reader_close(document_reader *r)
{
  if (!r) return;
  byte_stream_close(r->stream);
  if (r->map.data) mapped_file_close(&r->map);
  free(r->window);
  free(r->whole);
  free(r);
}

/* "line 1" of the line is no news. */
static void drop_inner_line(alibi_error *error, size_t prefix)
{
  static const char inner[] = "line 1, column ";
  char *found = error ? strstr(error->message + prefix, inner) : NULL;
  if (found) memmove(found, found + strlen("line 1, "), strlen(found + strlen("line 1, ")) + 1);
}

status document_line_text(const char *path, const document *line, const char *name, json_node **tree,
                          const char **text, size_t *size, alibi_error *error)
{
  char where[768];
  int prefix = snprintf(where, sizeof where, "%.700s: line %zu", path, line->line);
  status result = node_parse((const char *)line->data, line->size, where, tree, error);
  if (result != ALIBI_OK) {
    drop_inner_line(error, (size_t)prefix);
    return result;
  }
  const json_node *found = node_get(*tree, name);
  *text = node_text(found, NULL);
  *size = *text ? strlen(*text) : 0;
  if (*text) return ALIBI_OK;
  result = fail(error, ALIBI_BAD_INPUT, "%s: expected an object with a text field '%s', found %s", where, name,
                found                                ? "something else in that field"
                : node_kind_of(*tree) == NODE_OBJECT ? "no such field"
                                                     : "no object");
  node_free(*tree);
  *tree = NULL;
  return result;
}

size_t document_split_point(const unsigned char *data, size_t size, double held_out)
{
  size_t split = size - (size_t)((double)size * held_out);
  for (size_t i = split; i > 0 && i < size && i < split + LINE_WITHIN; i++)
    if (data[i - 1] == '\n') return i;
  return split;
}
