/* The feed walks the files, decides for each document where its held-out part begins (nowhere, at its start, in
 * between), and hands out the pieces of both parts. */
#include "train/document_feed.h"

#include "text/safe_cut.h"

bool held_out_next(held_out_rule *rule, size_t size)
{
  rule->bytes += (double)size;
  if (rule->held + (double)size / 2 > rule->share * rule->bytes) return false;
  rule->held += (double)size;
  return true;
}

void feed_open(document_feed *feed, const text_list *texts, double held_out, const alibi_tokenizer *tokenizer,
               size_t piece_bytes)
{
  size_t plain = 0;
  for (size_t i = 0; i < texts->count; i++) plain += !texts->files[i].lines && !texts->files[i].held_out;
  *feed = (document_feed){.texts = texts,
                          .rule.share = held_out,
                          .tokenizer = tokenizer,
                          .piece_bytes = piece_bytes,
                          .whole = plain > FEED_FEW_TEXTS};
}

void feed_close(document_feed *feed)
{
  document_reader_close(feed->reader);
  feed->reader = NULL;
}

uint64_t feed_position(const document_feed *feed)
{
  if (!feed->reader) return feed->bytes_before;
  bool inside = feed->text.data && feed->text.line == 0 && feed->text.size > 0;
  double share = inside ? (double)feed->at / (double)feed->text.size : 1;
  return feed->bytes_before + (uint64_t)(share * (double)document_reader_position(feed->reader));
}

static void begin_document(document_feed *feed, const text_file *file)
{
  const document *text = &feed->text;
  feed->at = 0;
  if (file->held_out) feed->boundary = 0;
  else if (feed->rule.share <= 0) feed->boundary = text->size;
  else if (text->line > 0 || feed->whole) feed->boundary = held_out_next(&feed->rule, text->size) ? 0 : text->size;
  else feed->boundary = document_split_point(text->data, text->size, feed->rule.share);
}

/* The next document that is not empty; text.data NULL at the end. */
static status next_document(document_feed *feed, alibi_error *error)
{
  status result = ALIBI_OK;
  for (;;) {
    if (feed->file == feed->texts->count) return ALIBI_OK;
    const text_file *file = &feed->texts->files[feed->file];
    if (!feed->reader) TRY(document_reader_open(file, &feed->reader, error));
    TRY(document_reader_next(feed->reader, &feed->text, error));
    if (!feed->text.data) {
      feed->bytes_before += document_reader_size(feed->reader);
      document_reader_close(feed->reader);
      feed->reader = NULL;
      feed->file++;
    } else if (feed->text.size > 0) {
      begin_document(feed, file);
      return ALIBI_OK;
    } else if (file->walked) {
      feed->empty++;
    } else {
      RAISE(error, ALIBI_BAD_INPUT, "%s: expected text, found an empty file", file->path);
    }
  }
done:
  return result;
}

status feed_next(document_feed *feed, feed_piece *piece, alibi_error *error)
{
  *piece = (feed_piece){0};
  if (!feed->text.data || feed->at == feed->text.size) {
    status result = next_document(feed, error);
    if (result != ALIBI_OK || !feed->text.data) return result;
  }
  const document *text = &feed->text;
  bool held = feed->at >= feed->boundary;
  size_t left = (held ? text->size : feed->boundary) - feed->at, size = left;
  if (text->line == 0) size = tokenizer_safe_cut(feed->tokenizer, text->data + feed->at, left, feed->piece_bytes);
  *piece = (feed_piece){.data = text->data + feed->at,
                        .size = size,
                        .split = held ? SPLIT_VALID : SPLIT_TRAIN,
                        .document = feed->documents,
                        .first = feed->at == 0 || feed->at == feed->boundary,
                        .last = size == left,
                        .path = feed->texts->files[feed->file].path,
                        .line = text->line};
  feed->at += size;
  feed->documents += piece->last;
  return ALIBI_OK;
}
