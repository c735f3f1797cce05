/* What the names under tokenizer.ggml.pre mean: how a text is cut before byte-level BPE.  Sources: the
 * tokenizer.json of the models that the names stand for; of deepseek-coder, the list of patterns in llama.cpp's
 * docs. */
#include <string.h>

#include "text/gguf_vocabulary.h"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                                    \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"        \
  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                                     \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"             \
  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* ( ) | . , ! ? and those of other scripts */
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

/* Contractions only after the word; letters cut where small ones are followed by large ones. */
#define WORD_BY_CASE(end)                                                                                         \
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" end                 \
  "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" end
#define AFTER_WORDS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K WORD_BY_CASE("(?i:'s|'t|'re|'ve|'m|'ll|'d)?") "|\\p{N}{1,3}" AFTER_WORDS
#define TEKKEN WORD_BY_CASE("") "|\\p{N}" AFTER_WORDS
#define DEEPSEEK3                                                                                                 \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"             \
  "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define KANA_AND_HAN "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define HAN_AND_HANGUL "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
#define BAILING                                                                                                   \
  "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]"      \
  "|\\s+(?!\\S)|\\s+"
#define SEED_CODER                                                                                                \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+"\
  "|\\s+(?!\\S)|\\s+"

/* That a tokenizer composes characters (NFC) is said in its tokenizer.json alone; here the name stands for it. */
static const gguf_pre pres[] = {
    {.names = " gpt-2 jais phi-2 trillion granite-docling gigachat jina-es jina-de jina-v2-es jina-v2-de a.x-4.0 "
              "mellum exaone4 ",
     .split = {GPT2}},
    {.names = " mpt olmo ", .split = {GPT2}, .nfc = true},
    {.names = " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 ",
     .split = {LLAMA3},
     .ignore_merges = true,
     .add_begin = true},
    {.names = " dbrx smaug-bpe glm4 chatglm-bpe ", .split = {LLAMA3}},
    {.names = " qwen2 deepseek-r1-qwen ", .split = {QWEN2}, .nfc = true},
    {.names = " stablelm2 kormo megrez hunyuan grok-2 ", .split = {QWEN2}},
    {.names = " gpt-4o llama4 kanana2 minimax-m2 ", .split = {O200K}},
    {.names = " tekken ", .split = {TEKKEN}, .ignore_merges = true, .add_begin = true},
    {.names = " deepseek-v3 hunyuan-dense joyai-llm ", .split = {"\\p{N}{1,3}", KANA_AND_HAN, DEEPSEEK3}},
    {.names = " deepseek-coder ", .split = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", HAN_AND_HANGUL, "\\p{N}"}},
    {.names = " bailingmoe bailingmoe2 llada-moe ", .split = {BAILING}},
    {.names = " seed-coder ", .split = {SEED_CODER}},
    {.names = " starcoder refact command-r smollm codeshell exaone minerva-7b ", .split = {"\\p{N}", GPT2}},
    {.names = " bloom poro-chat gpt3-finnish ", .split = {BLOOM}},
    {.names = " viking ", .split = {BLOOM, "\\p{N}"}},
    {.names = " falcon ", .split = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {.names = " default ", .split = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

/* What files of BLOOM's family say themselves: their class has a class in it. */
static const char *const spellings[][2] = {
    {" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+", BLOOM},
};

const char *gguf_split_usual(const char *regex)
{
  for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++)
    if (strcmp(regex, spellings[i][0]) == 0) return spellings[i][1];
  return regex;
}

const gguf_pre *gguf_pre_at(size_t index)
{
  return index < sizeof pres / sizeof pres[0] ? &pres[index] : NULL;
}

const gguf_pre *gguf_pre_named(const char *name, size_t size)
{
  for (size_t i = 0; i < sizeof pres / sizeof pres[0]; i++)
    for (const char *at = pres[i].names + 1; *at;) {
      const char *end = strchr(at, ' ');
      if ((size_t)(end - at) == size && memcmp(at, name, size) == 0) return &pres[i];
      at = end + 1;
    }
  return NULL;
}
