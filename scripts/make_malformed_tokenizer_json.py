#!/usr/bin/env python3
"""Writes damaged tokenizer.json files, and what the reader has to say of each.

usage: make_malformed_tokenizer_json.py FOLDER

Each file differs from a right one in one thing.  FOLDER/expected.tsv has a line for each: its name, a tab, and a
part of the sentence that refuses it (nothing for the files that are right).  Read by
tests/malformed/open_malformed.c; needs Python alone.
"""
import copy
import json
import os
import sys


def byte_alphabet():
    """Byte 0 to 255 as the printable characters of ByteLevel."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in plain]
    letters = {b: chr(b) for b in plain}
    letters.update({b: chr(0x100 + i) for i, b in enumerate(others)})
    return [letters[b] for b in range(256)]


def added(number, content, **more):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **more}


WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "abc", "##b", "\u2581", "\u2581a"]
VOCABULARY = {word: i for i, word in enumerate(WORDS)}
BPE = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
       "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
       "vocab": VOCABULARY, "merges": ["a b", "ab c"]}
UNIGRAM = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
           "vocab": [[w, -1.0 * i] for i, w in enumerate(WORDS)]}
WORDPIECE = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
             "max_input_chars_per_word": 100, "vocab": VOCABULARY}
WORDLEVEL = {"type": "WordLevel", "unk_token": "<unk>", "vocab": VOCABULARY}
SPLIT = {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": False}
TEMPLATE = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
NFC = {"type": "NFC"}
GOOD = {"version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(1, "<s>"), added(2, "</s>")],
        "normalizer": NFC, "pre_tokenizer": SPLIT, "post_processor": TEMPLATE,
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"}, "model": BPE}
LETTERS = byte_alphabet()
PLAIN = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
         "pre_tokenizer": BYTE_LEVEL, "post_processor": None, "decoder": BYTE_LEVEL,
         "model": {"type": "BPE", "vocab": {**{c: i for i, c in enumerate(LETTERS)}, "ab": 256},
                   "merges": ["a b"]}}


def text_of(value):
    return json.dumps(value, ensure_ascii=False, allow_nan=True).encode("utf-8", "surrogatepass")


def file(base=GOOD, **parts):
    return text_of({**base, **parts})


def without(key, base=GOOD):
    return text_of({k: v for k, v in base.items() if k != key})


def model(base=BPE, **keys):
    return file(model={**base, **keys})


def model_without(key, base=BPE):
    return file(model={k: v for k, v in base.items() if k != key})


def normalizer(kind, **keys):
    return file(normalizer={"type": kind, **keys})


def cutter(kind, **keys):
    return file(pre_tokenizer={"type": kind, **keys})


def decoder(kind, **keys):
    return file(decoder={"type": kind, **keys})


def pattern(regex):
    return file(pre_tokenizer={**SPLIT, "pattern": {"Regex": regex}})


def template(**keys):
    return file(post_processor={**TEMPLATE, **keys})


def plain(vocabulary=None, merges=None, **parts):
    """Of the kind that training writes, and that has a reader of its own."""
    own = copy.deepcopy(PLAIN)
    if vocabulary is not None:
        own["model"]["vocab"] = vocabulary
    if merges is not None:
        own["model"]["merges"] = merges
    return text_of({**own, **parts})


def in_text(value, old, new, count=1):
    """Damage that is no JSON value: by hand in the text."""
    assert old.encode() in value
    return value.replace(old.encode(), new if isinstance(new, bytes) else new.encode(), count)


good = file()
deep = b"[" * 100000 + b"]" * 100000

CASES = {
    "good": (good, ""),
    "good-plain": (plain(), ""),
    "good-unigram": (model(UNIGRAM), ""),
    "good-wordpiece": (model(WORDPIECE), ""),
    "good-wordlevel": (model(WORDLEVEL), ""),
    "good-metaspace": (file(pre_tokenizer=METASPACE, decoder=METASPACE), ""),
    "good-pairs": (model(merges=[["a", "b"], ["ab", "c"]]), ""),
    # the text
    "empty": (b"", "expected JSON, found nothing"),
    "not-json": (b"tokenizer", "not valid JSON: line 1, column"),
    "cut-in-half": (good[:len(good) // 2], "not valid JSON: line 1, column"),
    "cut-at-end": (good[:-1], "not valid JSON: line 1, column"),
    "cut-in-text": (good[:good.index(b"<unk>") + 2], "not valid JSON: line 1, column"),
    "two-values": (good + good, "not valid JSON: line 1, column"),
    "array": (b"[" + good + b"]", "expected a JSON object"),
    "number": (b"17", "expected a JSON object"),
    "null": (b"null", "expected a JSON object"),
    "byte-order-mark": (b"\xef\xbb\xbf" + good, "not valid JSON: line 1, column"),
    "utf-16": (good.decode().encode("utf-16"), "not valid JSON: line 1, column"),
    "no-utf8": (in_text(good, "</s>", b"<\xff/s>"), "not valid JSON: line 1, column"),
    "overlong": (in_text(good, "</s>", b"<\xc0\xaf/s>"), "not valid JSON: line 1, column"),
    "surrogate": (in_text(good, "</s>", b"<\\ud800/s>"), "not valid JSON: line 1, column"),
    "zero-byte": (in_text(good, "</s>", b"<\0/s>"), "not valid JSON: line 1, column"),
    "zero-escaped": (in_text(good, "</s>", "<\\u0000/s>"), "not valid JSON: line 1, column"),
    "key-twice": (in_text(good, '"model"', '"version": "1.0", "model"'), "not valid JSON: line 1, column"),
    "token-twice": (in_text(good, '"ab": 6', '"a": 6'), "not valid JSON: line 1, column"),
    "nan": (model(dropout=float("nan")), "not valid JSON: line 1, column"),
    "infinity": (model({**UNIGRAM, "vocab": [["a", float("inf")]]}), "not valid JSON: line 1, column"),
    "deep": (deep, "not valid JSON: line 1, column"),
    "deep-objects": (b'{"a":' * 100000, "not valid JSON: line 1, column"),
    "deep-normalizer": (file(normalizer=json.loads('{"type":"Sequence","normalizers":[' * 40 + "]}" * 40)),
                        "expected at most 64 levels of JSON, found more"),
    # the whole
    "version-2": (file(version="2.0"), "version: expected '1.0', found '2.0'"),
    "version-number": (file(version=1.0), "version: expected '1.0', found 'none'"),
    "version-absent": (without("version"), "version: expected '1.0', found 'none'"),
    "part-unknown": (file(rescorer=None), "the file: has a part 'rescorer' that is not supported"),
    "type-at-root": (file(type="BPE"), "has a part 'type' that is not supported"),
    "model-absent": (without("model"), "expected an object 'model'"),
    "model-null": (file(model=None), "expected an object 'model'"),
    "model-list": (file(model=[BPE]), "expected an object 'model'"),
    "model-empty": (file(model={}), "model: type 'without a type' is not supported"),
    "model-unknown": (model(type="Bytes"), "model: type 'Bytes' is not supported"),
    "model-type-number": (model(type=3), "model: type 'without a type' is not supported"),
    # BPE
    "vocabulary-absent": (model_without("vocab"), "model: expected an object 'vocab'"),
    "vocabulary-list": (model(vocab=WORDS), "model: expected an object 'vocab'"),
    "good-vocabulary-empty": (model(vocab={}, merges=[]), ""),
    "vocabulary-texts": (model(vocab={w: str(i) for i, w in enumerate(WORDS)}),
                         "model: vocab '<unk>': expected an id from 0 to 65579"),
    "id-negative": (model(vocab={**VOCABULARY, "x": -1}), "model: vocab 'x': expected an id from 0 to 65583"),
    "id-real": (model(vocab={**VOCABULARY, "x": 11.5}), "model: vocab 'x': expected an id from 0 to 65583"),
    "id-huge": (model(vocab={**VOCABULARY, "x": 1 << 62}), "model: vocab 'x': expected an id from 0 to 65583"),
    "id-beyond-64-bits": (model(vocab={**VOCABULARY, "x": 1 << 70}),
                          "model: vocab 'x': expected an id from 0 to 65583"),
    "id-4-billion": (model(vocab={**VOCABULARY, "x": (1 << 32) - 1}),
                     "model: vocab 'x': expected an id from 0 to 65583"),
    "id-2-billion": (model(vocab={**VOCABULARY, "x": (1 << 31) - 2}),
                     "model: vocab 'x': expected an id from 0 to 65583"),
    "id-million": (model(vocab={**VOCABULARY, "x": 1 << 20}), "model: vocab 'x': expected an id from 0 to 65583"),
    "id-twice": (model(vocab={**VOCABULARY, "x": 3}), "model: vocab 'x': id 3 is taken by 'a'"),
    "merges-absent": (model_without("merges"), "model: expected an array 'merges'"),
    "merges-object": (model(merges={"a": "b"}), "model: expected an array 'merges'"),
    "merge-number": (model(merges=[17]), "merge 0: expected two tokens"),
    "merge-one-token": (model(merges=["a"]), "merge 0: expected two tokens"),
    "merge-three-tokens": (model(merges=[["a", "b", "c"]]), "merge 0: expected two tokens"),
    "merge-of-numbers": (model(merges=[[3, 4]]), "merge 0: expected two tokens"),
    "merge-empty-side": (model(merges=[" b"]), "merge 0: '' is not in the vocabulary"),
    "merge-unknown": (model(merges=["a b", "q r"]), "merge 1: 'q' is not in the vocabulary"),
    "merge-result-unknown": (model(merges=["b c"]), "merge 0: 'bc' is not in the vocabulary"),
    "good-merge-twice": (model(merges=["a b", "a b"]), ""),
    "good-unknown-token-unknown": (model(unk_token="<none>"), ""),
    "unknown-token-number": (model(unk_token=0), "model: unk_token: expected a text"),
    "dropout": (model(dropout=0.5), "model: dropout is not supported: expected null or 0"),
    "dropout-huge": (model(dropout=1e308), "model: dropout is not supported: expected null or 0"),
    "byte-fallback-text": (model(byte_fallback="yes"), "model: byte_fallback: expected true or false"),
    "model-part-unknown": (model(cache_capacity=1 << 60),
                           "model: 'cache_capacity' is not understood, and it may change the ids"),
    # the reader of what training writes
    "good-plain-no-alphabet": (plain({**PLAIN["model"]["vocab"], "\u65e5": 257}), ""),
    "good-plain-empty-token": (plain({**PLAIN["model"]["vocab"], "": 257}), ""),
    "good-plain-byte-absent": (plain({k: i for i, k in enumerate(LETTERS[1:])}, []), ""),
    "good-plain-hole": (plain({**PLAIN["model"]["vocab"], "ba": 258}), ""),
    "plain-merge-unknown": (plain(merges=["a q"]), "merge 0: 'aq' is not in the vocabulary"),
    "good-plain-merge-twice": (plain(merges=["a b", "a b"]), ""),
    "plain-merge-number": (plain(merges=[1]), "merge 0: expected two tokens"),
    # unigram
    "unigram-object": (model({**UNIGRAM, "vocab": VOCABULARY}), "model: expected an array 'vocab'"),
    "unigram-empty": (model({**UNIGRAM, "vocab": []}), "model: unk_id: expected an id below 0"),
    "unigram-pair-short": (model({**UNIGRAM, "vocab": [["a"]]}), "model: vocab 0: expected a piece and its score"),
    "unigram-pair-long": (model({**UNIGRAM, "vocab": [["a", -1, 2]]}),
                          "model: vocab 0: expected a piece and its score"),
    "unigram-score-text": (model({**UNIGRAM, "vocab": [["a", "-1"]]}),
                           "model: vocab 0: expected a piece and its score"),
    "unigram-score-huge": (in_text(model(UNIGRAM), "-3.0", "-1e400"), "not valid JSON: line 1, column"),
    "unigram-piece-number": (model({**UNIGRAM, "vocab": [[3, -1.0]]}),
                             "model: vocab 0: expected a piece and its score"),
    "unigram-unknown-beyond": (model({**UNIGRAM, "unk_id": 11}), "model: unk_id: expected an id below 11"),
    "unigram-unknown-negative": (model({**UNIGRAM, "unk_id": -1}), "model: unk_id: expected an id below 11"),
    "unigram-unknown-text": (model({**UNIGRAM, "unk_id": "<unk>"}), "model: unk_id: expected an id below 11"),
    # WordPiece, WordLevel
    "wordpiece-longest-negative": (model({**WORDPIECE, "max_input_chars_per_word": -1}),
                                   "model: max_input_chars_per_word: expected a number of characters"),
    "wordpiece-longest-text": (model({**WORDPIECE, "max_input_chars_per_word": "100"}),
                               "model: max_input_chars_per_word: expected a number of characters"),
    "wordpiece-prefix-number": (model({**WORDPIECE, "continuing_subword_prefix": 2}),
                                "model: continuing_subword_prefix: expected a text"),
    "wordpiece-vocabulary-null": (model({**WORDPIECE, "vocab": None}), "model: expected an object 'vocab'"),
    "wordlevel-id-twice": (model({**WORDLEVEL, "vocab": {**VOCABULARY, "x": 0}}),
                           "model: vocab 'x': id 0 is taken by '<unk>'"),
    "wordlevel-id-null": (model({**WORDLEVEL, "vocab": {**VOCABULARY, "x": None}}),
                          "model: vocab 'x': expected an id from 0 to 65583"),
    "wordlevel-key-unknown": (model({**WORDLEVEL, "merges": []}),
                              "model: 'merges' is not understood, and it may change the ids"),
    # added tokens
    "added-object": (file(added_tokens={"<s>": 1}), "added_tokens: expected an array"),
    "added-text": (file(added_tokens=["<s>"]), "added_tokens 0: expected an object"),
    "added-id-absent": (file(added_tokens=[{k: v for k, v in added(1, "<s>").items() if k != "id"}]),
                        "added_tokens 0: expected 'id' to be a whole number from 0 to 16777215"),
    "added-id-negative": (file(added_tokens=[added(-1, "<s>")]),
                          "added_tokens 0: expected 'id' to be a whole number from 0 to 16777215"),
    "added-id-huge": (file(added_tokens=[added(1 << 40, "<new>")]),
                      "added_tokens 0: expected 'id' to be a whole number from 0 to 16777215"),
    "added-id-far": (file(added_tokens=[added((1 << 24) - 1, "<new>")]),
                     "added_tokens: '<new>' has id 16777215, far from those of the other 11 tokens"),
    "added-id-other": (file(added_tokens=[added(2, "<s>")]),
                       "added_tokens 0: '<s>' has id 2, but id 1 in the model's vocabulary"),
    "added-id-taken": (file(added_tokens=[added(3, "<new>")]),
                       "added_tokens 0: '<new>' has id 3, which is that of 'a' in the model's vocabulary"),
    "added-twice": (file(added_tokens=[added(11, "<new>"), added(11, "<new>")]),
                    "added_tokens: '<new>' and '<new>' have the same id 11"),
    "added-two-ids": (file(added_tokens=[added(11, "<new>"), added(12, "<new>")]),
                      "added_tokens: '<new>' and '<new>' (ids 11 and 12) are the same text"),
    "added-one-id": (file(added_tokens=[added(11, "<new>"), added(11, "<old>")]),
                     "added_tokens: '<new>' and '<old>' have the same id 11"),
    "added-empty": (file(added_tokens=[added(11, "")]), "added_tokens 0: expected a content that is not empty"),
    "added-number": (file(added_tokens=[added(11, 11)]), "added_tokens 0: expected 'content' to be a text"),
    "added-flag-text": (file(added_tokens=[added(11, "<new>", lstrip="no")]),
                        "added_tokens 0: expected 'lstrip' to be true or false"),
    "added-part-unknown": (file(added_tokens=[added(11, "<new>", weight=1)]),
                           "added_tokens 0: has a part 'weight' that is not supported"),
    # the stages
    "normalizer-text": (file(normalizer="NFC"), "normalizer: expected an object with a type"),
    "normalizer-unknown": (normalizer("NFX"), "normalizer: type 'NFX' is not supported"),
    "normalizer-no-type": (file(normalizer={}), "normalizer: expected an object with a type"),
    "normalizer-key-unknown": (normalizer("NFC", form="C"), "normalizer: has a part 'form' that is not supported"),
    "normalizer-sequence-object": (normalizer("Sequence", normalizers={}),
                                   "normalizer: expected a Sequence to have an array 'normalizers'"),
    "normalizer-steps": (normalizer("Sequence", normalizers=[NFC] * 1000),
                         "normalizer 257: expected at most 256 steps"),
    "normalizer-replace-both": (normalizer("Replace", pattern={"String": "a", "Regex": "b"}, content="c"),
                                "normalizer: expected 'pattern' to be {\"String\": text} or {\"Regex\": text}"),
    "normalizer-charsmap-base64": (normalizer("Precompiled", precompiled_charsmap="!!!!"),
                                   "normalizer: the precompiled map of characters is no base64"),
    "normalizer-charsmap-cut": (normalizer("Precompiled", precompiled_charsmap="AAA="),
                                "normalizer: the precompiled map of characters: expected a trie in 2 bytes,"),
    "normalizer-charsmap-size": (normalizer("Precompiled", precompiled_charsmap="/////w=="),
                                 "normalizer: the precompiled map of characters: expected a trie in 4 bytes,"),
    "cut-unknown": (cutter("Moses"), "pre_tokenizer: type 'Moses' is not supported"),
    "cut-behavior-unknown": (file(pre_tokenizer={**SPLIT, "behavior": "Kept"}),
                             "pre_tokenizer: behavior 'Kept' is not supported"),
    "cut-pattern-text": (file(pre_tokenizer={**SPLIT, "pattern": "\\s+"}),
                         "pre_tokenizer: expected 'pattern' to be {\"String\": text} or {\"Regex\": text}"),
    "cut-fixed-zero": (cutter("FixedLength", length=0),
                       "pre_tokenizer: expected 'length' to be a whole number from 1 to 1099511627776"),
    "cut-fixed-negative": (cutter("FixedLength", length=-5),
                           "pre_tokenizer: expected 'length' to be a whole number from 1 to 1099511627776"),
    "cut-delimiter-long": (cutter("CharDelimiterSplit", delimiter="ab"),
                           "pre_tokenizer: expected 'delimiter' to be one character, found 'ab'"),
    "cut-delimiter-empty": (cutter("CharDelimiterSplit", delimiter=""),
                            "pre_tokenizer: expected 'delimiter' to be one character, found ''"),
    "metaspace-scheme": (file(pre_tokenizer={**METASPACE, "prepend_scheme": "last"}),
                         "pre_tokenizer: prepend_scheme 'last' is not supported"),
    "metaspace-long": (file(pre_tokenizer={**METASPACE, "replacement": "__"}),
                       "pre_tokenizer: expected 'replacement' to be one character, found '__'"),
    "pattern-open-group": (pattern("(a"), "pre_tokenizer: the pattern '(a': a ( without its )"),
    "pattern-open-class": (pattern("[a-"), "pre_tokenizer: the pattern '[a-': a class without its closing ]"),
    "pattern-closed": (pattern("a)"), "pre_tokenizer: the pattern 'a)': a ) without its ("),
    "pattern-class-turned": (pattern("[z-a]"),
                             "pre_tokenizer: the pattern '[z-a]': a range whose end is before its begin"),
    "pattern-property": (pattern("\\p{Klingon}"),
                         "pre_tokenizer: the pattern '\\p{Klingon}': the property 'klingon' is not supported"),
    "pattern-back-reference": (pattern("(a)\\7"), "pre_tokenizer: a pattern does not compile"),
    "pattern-repeat-huge": (pattern("a{99999999}"), "pre_tokenizer: a pattern does not compile"),
    "pattern-repeat-nested": (pattern("((((a{1000}){1000}){1000}){1000})"),
                              "pre_tokenizer: a pattern does not compile"),
    "pattern-nesting": (pattern("(" * 5000 + ")" * 5000),
                        "pre_tokenizer: the pattern"),
    "pattern-look-behind": (pattern("(?<=a*)b"), "pre_tokenizer: a pattern does not compile"),
    "pattern-escape-at-end": (pattern("\\"), "pre_tokenizer: the pattern '\\': a backslash at its end"),
    "pattern-hexadecimal": (pattern("\\x{110000}"),
                            "pre_tokenizer: the pattern '\\x{110000}': a number that is no character"),
    "pattern-recursion": (pattern("(?R)"),
                          "pre_tokenizer: the pattern '(?R)': a group of this kind is not supported"),
    "pattern-code": (pattern("(?C1)a"),
                     "pre_tokenizer: the pattern '(?C1)a': a group of this kind is not supported"),
    "template-absent": (file(post_processor={"type": "TemplateProcessing"}),
                        "post_processor: expected 'single' to be an array"),
    "template-sequence-b": (template(single=[{"Sequence": {"id": "B", "type_id": 0}}]),
                            "post_processor: expected the template of one text to have no sequence 'B'"),
    "template-unknown-token": (template(single=[{"SpecialToken": {"id": "<x>", "type_id": 0}}]),
                               "post_processor: expected the template's '<x>' among special_tokens, with its ids"),
    "template-id-beyond": (template(special_tokens={"<s>": {"id": "<s>", "ids": [99], "tokens": ["<s>"]}}),
                           "post_processor: expected ids from 0 to 10, found 99"),
    "template-id-text": (template(special_tokens={"<s>": {"id": "<s>", "ids": ["1"], "tokens": ["<s>"]}}),
                         "post_processor: expected ids from 0 to 10, found -1"),
    "template-twice": (file(post_processor={"type": "Sequence", "processors": [TEMPLATE, TEMPLATE]}),
                       "post_processor 2: a second template in a Sequence is not supported"),
    "post-bert-id": (file(post_processor={"type": "BertProcessing", "sep": ["</s>", 200], "cls": ["<s>", 1]}),
                     "post_processor: expected ids from 0 to 10, found 200"),
    "post-unknown": (file(post_processor={"type": "Magic"}), "post_processor: type 'Magic' is not supported"),
    "decoder-unknown": (decoder("Fusion"), "decoder: type 'Fusion' is not supported"),
    "decoder-strip-negative": (decoder("Strip", content=" ", start=-1, stop=0),
                               "decoder: expected 'start' to be a whole number from 0 to 2147483647"),
    "decoder-strip-huge": (decoder("Strip", content=" ", start=1 << 62, stop=0),
                           "decoder: expected 'start' to be a whole number from 0 to 2147483647"),
    "decoder-strip-long": (decoder("Strip", content="ab", start=1, stop=0),
                           "decoder: expected 'content' to be one character, found 'ab'"),
    "good-decoder-replace-empty": (decoder("Replace", pattern={"String": ""}, content="x"), ""),
    "decoder-key-unknown": (decoder("ByteFallback", bytes=1), "decoder: has a part 'bytes' that is not supported"),
    "decoder-sequence-text": (decoder("Sequence", decoders="Fuse"),
                              "decoder: expected a Sequence to have an array 'decoders'"),
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "expected.tsv"), "w", encoding="utf-8") as expected:
        for name, (content, sentence) in CASES.items():
            with open(os.path.join(folder, name + ".json"), "wb") as out:
                out.write(content)
            expected.write(f"{name}.json\t{sentence}\n")


if __name__ == "__main__":
    main()
