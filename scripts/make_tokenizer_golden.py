#!/usr/bin/env python3
"""Makes tests/golden/tokenizer_golden.h: the ids that Hugging Face's library gives for sentences, with a
tokenizer.json that `alibi tokenizer train` wrote.

usage: make_tokenizer_golden.py ALIBI > tests/golden/tokenizer_golden.h      (pip install tokenizers)
"""
import subprocess
import sys
import tempfile

import tokenizers

VOCABULARY = 340
TEXT = """The lighthouse keeper counted the ships that passed in the night, and wrote
their number in a book. On the first night there were three ships; on the second
there were thirteen; on the third there was none, and he wrote that there was none.
"It's a quiet sea," he said, "and I'm a quiet man, but we'll see." He'd seen quieter.
The ships that passed carried salt, tin, and letters. The letters carried news of
other ships, and of other seas, and of the keepers of other lighthouses, who counted
the ships that passed in the night: 3, 13, 0, 33, 130.
"""
SENTENCES = [
    "The ships passed.",
    "There were 1330 ships that night, and he'd counted them all.",
    "We'll see what they've written; it's not what I'm after, isn't it? DON'T!",
    "   three blanks, a tab\tand  two\n\n\nnew lines \r\n and one at the end ",
    "Die H\u00fctte des W\u00e4rters steht \u00fcber dem Meer \u2014 caf\u00e9, na\u00efve, e\u0301",
    "\u706f\u53f0\u306e\u756a\u4eba\u306f\u8239\u3092\u6570\u3048\u305f\u3002 "
    "\ub4f1\ub300 \u043c\u0430\u044f\u043a",
    "\U0001f6a2\U0001f6a2 \U0001f469\u200d\U0001f680 \u00bd \u2167 \u0663",
    "no\u00a0break\u00a0\u00a0x\u0085y\u3000\u3000z\u2003\u180eq",
    "nonenonenonenonenonenonenonenonenonenonenonenonenonenonenonenonen",
    "thethethethethethethethethethethethethethethethethethethethethethethethethethethetheth",
    "snake_case __init__ a=b;{c:[1,2]}//--",
    "",
]


def c_string(text):
    """A C literal, in pieces where it is long; escapes have three digits, so that no digit after one joins it."""
    out, start = "", 0
    for byte in text.encode():
        if len(out) - start > 90:
            out += '"\n     "'
            start = len(out)
        if chr(byte) in '"\\':
            out += "\\" + chr(byte)
        elif 32 <= byte < 127 and byte != ord("?"):
            out += chr(byte)
        else:
            out += "\\%03o" % byte
    return '"' + out + '"'


def main():
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/text", "w", encoding="utf-8", newline="") as file:
            file.write(TEXT)
        subprocess.run([sys.argv[1], "tokenizer", "train", "--quiet", "--vocab", str(VOCABULARY), "--out",
                        folder + "/tokenizer.json", folder + "/text"], check=True)
        tokenizer = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
    print("/* Made by scripts/make_tokenizer_golden.py with tokenizers %s: trained here, encoded there. */"
          % tokenizers.__version__)
    print("enum { golden_vocabulary = %d };\n\nstatic const char golden_text[] =" % VOCABULARY)
    lines = TEXT.splitlines(keepends=True)
    print("\n".join("    " + c_string(line) for line in lines) + ";\n")
    print("typedef struct golden_sentence {\n  const char *text;\n  size_t size, count;\n  uint32_t ids[128];\n"
          "} golden_sentence;\n\nstatic const golden_sentence golden_sentences[] = {")
    for sentence in SENTENCES:
        ids = tokenizer.encode(sentence).ids
        assert tokenizer.decode(ids) == sentence and len(ids) <= 128
        print("    {%s,\n     %d, %d," % (c_string(sentence), len(sentence.encode()), len(ids)))
        rows = [ids[i:i + 18] for i in range(0, len(ids), 18)] or [[0]]
        print("     {" + ",\n      ".join(", ".join(map(str, row)) for row in rows) + "}},")
    print("};")


main()
