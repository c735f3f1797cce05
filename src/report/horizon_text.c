/* The sentence, the table and the bars.  A bar is shaded by the share of the attention that lies up to there, so
 * that heads can be compared at a glance; without a text there is only how far anything can lie. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/drawing.h"
#include "report/horizon_report.h"

enum { LEFT = 13, LEAST_WIDTH = 30, MOST_WIDTH = 100 };

void horizon_number(double tokens, char *text, size_t size)
{
  char digits[32];
  size_t used = 0;
  if (isnan(tokens) || isinf(tokens) || tokens >= 1e15) {
    snprintf(text, size, "%s", isnan(tokens) ? "-" : "none");
    return;
  }
  snprintf(digits, sizeof digits, "%.0f", tokens);
  for (size_t i = 0, count = strlen(digits); i < count && used + 2 < size; i++) {
    if (i > 0 && (count - i) % 3 == 0) text[used++] = ',';
    text[used++] = digits[i];
  }
  text[used] = '\0';
}

/* ---- the sentence ---- */

static bool is_farther(const horizon *h, const horizon_head *a, const horizon_head *b)
{
  return h->text ? a->within[HORIZON_SHARES - 1].pooled > b->within[HORIZON_SHARES - 1].pooled
                 : a->any_text > b->any_text;
}

horizon_summary horizon_summarise(const horizon *h)
{
  horizon_summary s = {.farthest = h->list};
  for (size_t layer = 0; layer < h->layers; layer++) {
    double farthest = 0;
    for (size_t i = layer * h->heads; i < (layer + 1) * h->heads; i++) {
      const horizon_head *head = &h->list[i];
      double own = h->text ? head->these_scores : head->any_text;
      if (is_farther(h, head, s.farthest)) s.farthest = head;
      s.any_text = fmax(s.any_text, head->any_text);
      s.these_scores = fmax(s.these_scores, head->these_scores);
      s.unbounded += isinf(own);
      farthest = fmax(farthest, own);
    }
    s.through_layers += farthest;
  }
  s.limited = h->text && s.farthest->within[HORIZON_SHARES - 1].pooled > (double)h->length / 2;
  return s;
}

static void add_no_horizon(draft *d, const horizon *h, size_t unbounded)
{
  size_t heads = h->layers * h->heads;
  if (unbounded == heads) draft_add(d, "nothing proves that it could not read farther: no head has a horizon");
  else draft_add(d, "%zu of its %zu heads %s no horizon", unbounded, heads, unbounded == 1 ? "has" : "have");
}

char *horizon_sentence(const horizon_report *r)
{
  const horizon *h = r->h;
  horizon_summary s = horizon_summarise(h);
  draft d = {0};
  char within[32], any[32], these[32];
  horizon_number(s.any_text, any, sizeof any);
  horizon_number(s.these_scores, these, sizeof these);
  if (!h->text) {
    if (s.unbounded) {
      draft_add(&d, "How far it reads does not follow from the parameters: ");
      add_no_horizon(&d, h, s.unbounded);
    } else {
      draft_add(
          &d, "Whatever the text, beyond %s tokens nothing can reach a head (the farthest is layer %zu, head %zu)",
          any, s.farthest->layer, s.farthest->head);
    }
    draft_add(&d, ".");
    return draft_take(&d);
  }
  horizon_number(s.farthest->within[HORIZON_SHARES - 1].pooled, within, sizeof within);
  draft_add(&d, "99 %% of the attention of its farthest head (layer %zu, head %zu) lies within %s tokens",
            s.farthest->layer, s.farthest->head, within);
  if (s.limited) draft_add(&d, ", as far as windows of %zu can tell", h->length);
  draft_add(&d, "; ");
  if (s.unbounded) add_no_horizon(&d, h, s.unbounded);
  else if (s.these_scores == s.any_text)
    draft_add(&d, "beyond %s nothing can reach a head, whatever the text", any);
  else {
    draft_add(&d, "beyond %s nothing can reach a head where scores rise no higher than here", these);
    if (isfinite(s.any_text)) draft_add(&d, ", beyond %s in any text", any);
  }
  draft_add(&d, ".");
  return draft_take(&d);
}

/* ---- the table ---- */

static void add_share(draft *d, double share)
{
  if (isnan(share)) draft_add(d, " %8s", "-");
  else draft_add(d, " %6.1f %%", 100 * share);
}

static void add_tokens(draft *d, double tokens, int width)
{
  char text[32];
  horizon_number(tokens, text, sizeof text);
  draft_add(d, " %*s", width, text);
}

static void add_slope(draft *d, double slope)
{
  if (isnan(slope)) draft_add(d, " %10s", "-");
  else draft_add(d, " %10.5g", slope);
}

char *horizon_table(const horizon_report *r)
{
  const horizon *h = r->h;
  draft d = {0};
  if (h->text)
    draft_add(&d,
              "                        of all attention    of a query's  farthest         horizon with the same "
              "     0 in   blocks\n"
              "layer head      slope   50 %%   90 %%   99 %%     99 %%  +-    weight   scores    norms  any text  "
              "   fp32  visited\n");
  else draft_add(&d, "layer head      slope   horizon, any text\n");
  for (size_t i = 0; i < h->layers * h->heads; i++) {
    const horizon_head *head = &h->list[i];
    const horizon_within *last = &head->within[HORIZON_SHARES - 1];
    draft_add(&d, "%5zu %4zu", head->layer, head->head);
    add_slope(&d, head->slope);
    for (size_t k = 0; h->text && k < HORIZON_SHARES; k++) add_tokens(&d, head->within[k].pooled, 6);
    if (h->text) {
      draft_add(&d, "  %7.0f %5.0f", last->mean, last->deviation);
      add_tokens(&d, head->farthest, 8);
      add_tokens(&d, head->these_scores, 8);
      add_tokens(&d, head->these_norms, 8);
    }
    add_tokens(&d, head->any_text, h->text ? 9 : 19);
    if (h->text) {
      add_share(&d, head->zero);
      add_share(&d, head->visited);
    }
    draft_add(&d, "\n");
  }
  return draft_take(&d);
}

/* ---- the bars ---- */

double horizon_last_distance(const horizon *h)
{
  double last = h->text ? (double)h->length : 0;
  for (size_t i = 0; i < h->layers * h->heads; i++) {
    double own = h->text ? h->list[i].these_scores : h->list[i].any_text;
    if (isfinite(own)) last = fmax(last, own);
  }
  return last > 0 ? last : (double)h->length;
}

/* A column of `width` for a distance up to `last`. */
static int column_of(double distance, double last, int width)
{
  int column = (int)(log1p(distance) / log1p(last) * (width - 1) + 0.5);
  return column < 0 ? 0 : column >= width ? width - 1 : column;
}

enum { SHADES = 5 };

static const char *const shades[2][SHADES] = {
    {"#", "=", "-", ".", " "}, {"\xe2\x96\x88", "\xe2\x96\x93", "\xe2\x96\x92", "\xe2\x96\x91", " "}};

static void add_bar(draft *d, const horizon *h, const horizon_head *head, double last, int width, bool utf8)
{
  double own = h->text ? head->these_scores : head->any_text;
  int end = isfinite(own) ? column_of(own, last, width) : width;
  int until[SHADES - 1] = {-1, -1, -1, -1}; /* last columns of the shades */
  for (size_t k = 0; h->text && k < HORIZON_SHARES; k++) until[k] = column_of(head->within[k].pooled, last, width);
  until[HORIZON_SHARES] = h->text ? column_of(head->farthest, last, width) : end;
  for (int column = 0; column < width && column <= end; column++) {
    int shade = 0;
    while (shade < SHADES - 1 && column > until[shade]) shade++;
    if (column == end) draft_add(d, "|");
    else draft_add(d, "%s", shades[utf8][shade]);
  }
  if (end == width) draft_add(d, ">");
}

static void add_axis(draft *d, double last, int width)
{
  char *line = calloc((size_t)width + 33, 1);
  if (!line) {
    d->failed = true;
    return;
  }
  memset(line, ' ', (size_t)width);
  int next = 0;
  for (double t = 0; t <= last; t = t > 0 ? 10 * t : 1) {
    char tick[32];
    int column = column_of(t, last, width);
    number_tick(t, tick, sizeof tick);
    if (column < next || column + (int)strlen(tick) > width) continue;
    memcpy(line + column, tick, strlen(tick));
    next = column + (int)strlen(tick) + 1;
  }
  while (width > 0 && line[width - 1] == ' ') line[--width] = '\0';
  draft_add(d, "%*s%s\n", LEFT, "", line);
  free(line);
}

static void add_key(draft *d, const horizon *h, bool utf8)
{
  const char *const *shade = shades[utf8];
  if (h->text)
    draft_add(
        d,
        "Distance in tokens within which %s 50 %%, %s 90 %%, %s 99 %% of the attention lies; %s single weights "
        "above %.1e; | horizon with these scores, > none\n",
        shade[0], shade[1], shade[2], shade[3], h->threshold);
  else draft_add(d, "Distance in tokens: %s may be read; | horizon for any text, > none\n", shade[3]);
}

char *horizon_bars(const horizon_report *r, int columns, bool utf8)
{
  const horizon *h = r->h;
  draft d = {0};
  double last = horizon_last_distance(h);
  int width = columns - LEFT - 2;
  if (width < LEAST_WIDTH) width = LEAST_WIDTH;
  if (width > MOST_WIDTH) width = MOST_WIDTH;
  add_key(&d, h, utf8);
  for (size_t i = 0; i < h->layers * h->heads; i++) {
    const horizon_head *head = &h->list[i];
    char label[48] = "";
    if (head->head == 0) snprintf(label, sizeof label, "layer %zu", head->layer);
    draft_add(&d, "%-8s %3zu ", label, head->head);
    add_bar(&d, h, head, last, width, utf8);
    draft_add(&d, "\n");
  }
  add_axis(&d, last, width);
  return draft_take(&d);
}
