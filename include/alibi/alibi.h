/* alibi/alibi.h - everything.  A program needs this one header and -lalibi. */
#ifndef ALIBI_ALIBI_H
#define ALIBI_ALIBI_H

#include "alibi/attention.h"
#include "alibi/base.h"
#include "alibi/convert.h"
#include "alibi/embed.h"
#include "alibi/evaluate.h"
#include "alibi/model.h"
#include "alibi/session.h"
#include "alibi/tokenizer.h"
#include "alibi/train.h"

#endif
