#!/usr/bin/env python3
"""Writes GGUF files whose tokenizer is damaged, and what the reader has to say of each.

usage: make_malformed_gguf_vocabulary.py FOLDER

The files are right GGUF (scripts/make_malformed_gguf.py has the others); the keys tokenizer.ggml.* of each differ
from those of a right one in one thing.  FOLDER/expected.tsv has a line for each: its name, a tab, and a part of
the sentence that refuses it (nothing for the files that are right).  Read by tests/malformed/open_malformed.c;
needs Python alone.
"""
import os
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
FORMS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f",
         BOOL: "?", U64: "Q", I64: "q", F64: "d"}
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def value_of(kind, value):
    return text(value) if kind == TEXT else struct.pack("<" + FORMS[kind], value)


class Several:
    """An array in the file."""

    def __init__(self, kind, values):
        self.kind, self.values = kind, values


def key(name, kind, value):
    if isinstance(value, Several):
        body = (struct.pack("<IQ", value.kind, len(value.values)) +
                b"".join(value_of(value.kind, v) for v in value.values))
        return text(name) + struct.pack("<I", ARRAY) + body
    return text(name) + struct.pack("<I", kind) + value_of(kind, value)


def gguf(keys):
    items = [("general.architecture", TEXT, "llama")]
    items += [("tokenizer.ggml." + name, *kind_value)
              for name, kind_value in keys.items() if kind_value is not None]
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(items)) + b"".join(key(*item) for item in items)
    return head + bytes(-len(head) % 32)


def array(kind, *values):
    return (ARRAY, Several(kind, values))


def rules(size=4, units=b"\0\0\0\0"):
    return array(U8, *struct.pack("<I", size), *units)


GPT2 = {"model": (TEXT, "gpt2"), "pre": (TEXT, "gpt-2"),
        "tokens": array(TEXT, "<s>", "</s>", "a", "b", "c", "ab", "abc"),
        "token_type": array(I32, CONTROL, CONTROL, *[NORMAL] * 5), "merges": array(TEXT, "a b", "ab c"),
        "bos_token_id": (U32, 0), "eos_token_id": (U32, 1)}
PIECES = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581a"]
LLAMA = {"model": (TEXT, "llama"), "tokens": array(TEXT, *PIECES),
         "scores": array(F32, *[-1.0 * i for i in range(8)]),
         "token_type": array(I32, UNKNOWN, CONTROL, CONTROL, *[NORMAL] * 5),
         "bos_token_id": (U32, 1), "eos_token_id": (U32, 2), "unknown_token_id": (U32, 0)}
T5 = {**LLAMA, "model": (TEXT, "t5"), "precompiled_charsmap": None}
BERT = {"model": (TEXT, "bert"), "tokens": array(TEXT, "[UNK]", "[CLS]", "[SEP]", "\u2581a", "b", "\u2581ab"),
        "token_type": array(I32, UNKNOWN, CONTROL, CONTROL, *[NORMAL] * 3), "unknown_token_id": (U32, 0),
        "cls_token_id": (U32, 1), "seperator_token_id": (U32, 2)}


def gpt2(**keys):
    return gguf({**GPT2, **keys})


def llama(**keys):
    return gguf({**LLAMA, **keys})


def t5(**keys):
    return gguf({**T5, **keys})


def bert(**keys):
    return gguf({**BERT, **keys})


NOT_A_NUMBER, INFINITE = float("nan"), float("inf")

CASES = {
    "good-gpt2": (gpt2(), ""),
    "good-llama": (llama(), ""),
    "good-t5": (t5(), ""),
    "good-bert": (bert(), ""),
    "good-no-begin": (llama(bos_token_id=(U32, 0xffffffff)), ""),
    "good-no-types": (gpt2(token_type=None), ""),
    # all kinds
    "model-absent": (gpt2(model=None), "tokenizer.ggml.model is missing: the file has no tokenizer"),
    "model-none": (gpt2(model=(TEXT, "none")), "tokenizer.ggml.model is 'none': the file has no tokenizer"),
    "model-unknown": (gpt2(model=(TEXT, "rwkv")),
                      "tokenizer.ggml.model: expected gpt2, llama, t5 or bert, found 'rwkv'"),
    "model-empty": (gpt2(model=(TEXT, "")), "tokenizer.ggml.model: expected gpt2, llama, t5 or bert, found ''"),
    "model-number": (gpt2(model=(U32, 2)), "key 'tokenizer.ggml.model': expected a text, found u32"),
    "model-list": (gpt2(model=array(TEXT, "gpt2")),
                   "key 'tokenizer.ggml.model': expected a text, found an array of text"),
    "model-long": (gpt2(model=(TEXT, "g" * 10000)),
                   "tokenizer.ggml.model: expected gpt2, llama, t5 or bert, found"),
    "tokens-absent": (gpt2(tokens=None), "expected a key 'tokenizer.ggml.tokens', found none"),
    "tokens-empty": (gpt2(tokens=array(TEXT)), "tokenizer.ggml.tokens: expected tokens, found 0"),
    "tokens-text": (gpt2(tokens=(TEXT, "a b c")),
                    "key 'tokenizer.ggml.tokens': expected an array of texts, found text"),
    "tokens-numbers": (gpt2(tokens=array(U32, 1, 2, 3)),
                       "key 'tokenizer.ggml.tokens': expected an array of texts, found an array of u32"),
    "token-no-utf8": (gpt2(tokens=array(TEXT, "<s>", "</s>", "a", b"\xff", "c", "ab", "abc")),
                      "tokenizer.ggml.tokens: token 3 is not UTF-8, or has a NUL"),
    "token-cut-utf8": (gpt2(tokens=array(TEXT, "<s>", "</s>", "a", b"\xe2\x96", "c", "ab", "abc")),
                       "tokenizer.ggml.tokens: token 3 is not UTF-8, or has a NUL"),
    "token-surrogate": (gpt2(tokens=array(TEXT, "<s>", "</s>", "a", b"\xed\xa0\x80", "c", "ab", "abc")),
                        "tokenizer.ggml.tokens: token 3 is not UTF-8, or has a NUL"),
    "token-zero-byte": (gpt2(tokens=array(TEXT, "<s>", "</s>", "a", b"b\0", "c", "ab", "abc")),
                        "tokenizer.ggml.tokens: token 3 is not UTF-8, or has a NUL"),
    "types-short": (gpt2(token_type=array(I32, 1, 1)),
                    "tokenizer.ggml.token_type: expected a type for each of 7 tokens, found 2"),
    "types-long": (gpt2(token_type=array(I32, *[1] * 8)),
                   "tokenizer.ggml.token_type: expected a type for each of 7 tokens, found 8"),
    "types-texts": (gpt2(token_type=array(TEXT, *"1111111")),
                    "key 'tokenizer.ggml.token_type': expected an array of integers, found an array of text"),
    "types-number": (gpt2(token_type=(I32, 1)),
                     "key 'tokenizer.ggml.token_type': expected an array of integers, found i32"),
    "begin-text": (gpt2(bos_token_id=(TEXT, "<s>")),
                   "key 'tokenizer.ggml.bos_token_id': expected an integer, found text"),
    "begin-real": (gpt2(bos_token_id=(F32, 0.5)),
                   "key 'tokenizer.ggml.bos_token_id': expected an integer, found f32"),
    "begin-negative": (gpt2(bos_token_id=(I64, -2)),
                       "key 'tokenizer.ggml.bos_token_id': expected -1 to 4294967295, found -2"),
    "begin-huge": (gpt2(bos_token_id=(U64, 1 << 63)),
                   "key 'tokenizer.ggml.bos_token_id': expected -1 to 4294967295, found more than"),
    "begin-list": (gpt2(bos_token_id=array(U32, 0)),
                   "key 'tokenizer.ggml.bos_token_id': expected an integer, found an array of u32"),
    "add-begin-number": (gpt2(add_bos_token=(U32, 1)),
                         "key 'tokenizer.ggml.add_bos_token': expected a boolean, found u32"),
    # gpt2
    "pre-absent": (gpt2(pre=None), "tokenizer.ggml.pre is missing: how a text is cut before BPE is not known"),
    "pre-unknown": (gpt2(pre=(TEXT, "gpt-9")), "tokenizer.ggml.pre: the pre-tokenizer 'gpt-9' is not known"),
    "pre-empty": (gpt2(pre=(TEXT, "")), "tokenizer.ggml.pre: the pre-tokenizer '' is not known"),
    "pre-blank": (gpt2(pre=(TEXT, " ")), "tokenizer.ggml.pre: the pre-tokenizer ' ' is not known"),
    "pre-number": (gpt2(pre=(U32, 0)), "key 'tokenizer.ggml.pre': expected a text, found u32"),
    "token-twice": (gpt2(tokens=array(TEXT, "<s>", "</s>", "a", "b", "c", "ab", "ab")),
                    "merge 1: 'abc' is not in the vocabulary"),
    "control-twice": (gpt2(tokens=array(TEXT, "<s>", "<s>", "a", "b", "c", "ab", "abc")),
                      "added_tokens: '<s>' and '<s>' (ids 0 and 1) are the same text"),
    "merges-absent": (gpt2(merges=None), "expected a key 'tokenizer.ggml.merges', found none"),
    "merges-numbers": (gpt2(merges=array(I32, 1)),
                       "key 'tokenizer.ggml.merges': expected an array of texts, found an array of i32"),
    "merge-empty": (gpt2(merges=array(TEXT, "")),
                    "tokenizer.ggml.merges: merge 0: expected two tokens with a blank between them"),
    "merge-blank": (gpt2(merges=array(TEXT, " ")),
                    "tokenizer.ggml.merges: merge 0: expected two tokens with a blank between them"),
    "merge-one-token": (gpt2(merges=array(TEXT, "ab")),
                        "tokenizer.ggml.merges: merge 0: expected two tokens with a blank between them"),
    "merge-no-right": (gpt2(merges=array(TEXT, "a ")), "merge 0: '' is not in the vocabulary"),
    "merge-unknown": (gpt2(merges=array(TEXT, "a q")), "merge 0: 'q' is not in the vocabulary"),
    "merge-result-unknown": (gpt2(merges=array(TEXT, "b c")), "merge 0: 'bc' is not in the vocabulary"),
    "merge-of-control": (gpt2(merges=array(TEXT, "<s> a")), "merge 0: '<s>' is not in the vocabulary"),
    "merge-no-utf8": (gpt2(merges=array(TEXT, b"a \xff")), "merge 0: '"),
    # llama, t5
    "scores-absent": (llama(scores=None), "expected a key 'tokenizer.ggml.scores', found none"),
    "scores-short": (llama(scores=array(F32, 0.0)),
                     "tokenizer.ggml.scores: expected a score for each of 8 tokens, found 1"),
    "scores-texts": (llama(scores=array(TEXT, *"01234567")),
                     "key 'tokenizer.ggml.scores': expected an array of numbers, found an array of text"),
    "score-nan": (llama(scores=array(F32, *[-1.0] * 7, NOT_A_NUMBER)),
                  "piece 7 ('▁a'): its score is no finite number"),
    "score-infinite": (t5(scores=array(F32, *[-1.0] * 7, INFINITE)),
                       "piece 7 ('▁a'): its score is no finite number"),
    "good-piece-twice": (llama(tokens=array(TEXT, *PIECES[:7], "ab")), ""),
    "unknown-twice": (llama(unknown_token_id=None,
                            token_type=array(I32, UNKNOWN, UNKNOWN, CONTROL, *[NORMAL] * 5)),
                      "pieces 0 and 1 are both the unknown one"),
    "unknown-absent": (llama(unknown_token_id=None, token_type=array(I32, *[CONTROL] * 3, *[NORMAL] * 5)),
                       "expected a piece for what is unknown, found none"),
    "byte-no-byte": (llama(token_type=array(I32, UNKNOWN, CONTROL, CONTROL, NORMAL, BYTE, *[NORMAL] * 3)),
                    "piece 4: expected a byte as '<0xXX>', found 'a'"),
    "rules-text": (t5(precompiled_charsmap=(TEXT, "rules")),
                   "key 'tokenizer.ggml.precompiled_charsmap': expected an array of integers, found text"),
    "rules-numbers": (t5(precompiled_charsmap=array(U32, 4, 0)),
                      "tokenizer.ggml.precompiled_charsmap: expected bytes, found an array of u32"),
    "rules-cut": (t5(precompiled_charsmap=array(U8, 4, 0)),
                  "the precompiled map of characters: expected a trie in 2 bytes, found 0"),
    "rules-size": (t5(precompiled_charsmap=rules(1 << 31)),
                   "the precompiled map of characters: expected a trie in 8 bytes, found 2147483648"),
    "rules-size-uneven": (t5(precompiled_charsmap=rules(3)),
                          "the precompiled map of characters: expected a trie in 8 bytes, found 3"),
    "good-rules-beyond": (t5(precompiled_charsmap=rules(4, struct.pack("<I", 0xffffffff))), ""),
    "prefix-text": (llama(add_space_prefix=(TEXT, "true")),
                    "key 'tokenizer.ggml.add_space_prefix': expected a boolean, found text"),
    # bert
    "bert-unknown-absent": (bert(unknown_token_id=None, token_type=None),
                            "tokenizer.ggml.unknown_token_id: expected the id of a token"),
    "bert-unknown-beyond": (bert(unknown_token_id=(U32, 6), token_type=None),
                            "tokenizer.ggml.unknown_token_id: expected the id of a token"),
    "bert-word-twice": (bert(tokens=array(TEXT, "[UNK]", "[CLS]", "[SEP]", "\u2581a", "b", "b")),
                        "tokenizer.ggml.tokens: token 5 ('##b') is there a second time"),
    "bert-begin-text": (bert(cls_token_id=(TEXT, "[CLS]")),
                        "key 'tokenizer.ggml.cls_token_id': expected an integer, found text"),
    "bert-end-negative": (bert(seperator_token_id=(I32, -7)),
                          "key 'tokenizer.ggml.seperator_token_id': expected -1 to 4294967295, found -7"),
    "bert-control-twice": (bert(tokens=array(TEXT, "[UNK]", "[CLS]", "[CLS]", "\u2581a", "b", "c")),
                           "tokenizer.ggml.tokens: token 2 ('[CLS]') is there a second time"),
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "expected.tsv"), "w", encoding="utf-8") as expected:
        for name, (content, sentence) in CASES.items():
            with open(os.path.join(folder, name + ".vocabulary"), "wb") as file:
                file.write(content)
            expected.write(f"{name}.vocabulary\t{sentence}\n")


if __name__ == "__main__":
    main()
