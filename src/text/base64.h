/* text/base64.h - bytes in a JSON text.  Source: RFC 4648, section 4. */
#ifndef TEXT_BASE64_H
#define TEXT_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/text_buffer.h"

status base64_encode(const unsigned char *bytes, size_t size, text_buffer *text,
                     alibi_error *error); /* and a NUL */
/* *valid false where the text is no base64, with its padding. */
status base64_decode(const char *text, text_buffer *bytes, bool *valid, alibi_error *error);

#endif
