/* What the names under tokenizer.ggml.pre mean: how a text is cut before byte-level BPE. */
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

static const gguf_pre pres[] = {
    {" gpt-2 mpt jais olmo phi-2 trillion granite-docling gigachat jina-es jina-de jina-v2-es jina-v2-de a.x-4.0 "
     "mellum exaone4 ",
     {GPT2},
     false,
     false},
    {" llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 ", {LLAMA3}, true, true},
    {" dbrx smaug-bpe ", {LLAMA3}, false, false},
    {" qwen2 stablelm2 deepseek-r1-qwen kormo megrez hunyuan ", {QWEN2}, false, false},
    {" starcoder refact command-r smollm codeshell exaone minerva-7b ", {"\\p{N}", GPT2}, false, false},
    {" bloom poro-chat gpt3-finnish ", {BLOOM}, false, false},
    {" viking ", {BLOOM, "\\p{N}"}, false, false},
    {" falcon ", {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {" default ", {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false, false},
};

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
