#!/usr/bin/env python3
"""Models of the SentencePiece library and what it makes of texts: tests/golden/pieces.

Trains small models with the package `sentencepiece` on a text that this script makes up, and writes beside each
`NAME.model` a `NAME.cases`: one case a line, the text in hexadecimal, the ids, and what the ids decode to in
hexadecimal.  The truth is the package's, never ours.

  make_pieces_golden.py                                    the files of the repository
  make_pieces_golden.py --out DIR --cases 10000 --large    more of everything, and the library's own rules
                                                           (nmt_nfkc): then  test_pieces_golden DIR
"""
import argparse
import io
import os
import random

import sentencepiece

SCRIPTS = [(0x61, 0x7a), (0x41, 0x5a), (0x30, 0x39), (0x3b1, 0x3c9), (0x430, 0x44f), (0x5d0, 0x5ea),
           (0x627, 0x64a), (0x905, 0x939), (0xe01, 0xe2e), (0x3041, 0x3096), (0x4e00, 0x4e80), (0xac00, 0xac80),
           (0x1f600, 0x1f640)]
ODD = ["\u2581", "\u2581\u2581", " ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "\u200b", "\ufeff", "\ufffd",
       "e\u0301", "\u00e9", "\ufb01", "\u2460", "\uff21", "\u0130", "\u1e9e", "\ufdfa", "\u212b", "\u0000",
       "\u0001", "\x7f", "<s>", "</s>", "<unk>", "<0x41>", "<0xE2>", "[SYM]", "[SYM", "[SY", "ab<x>", "\u0e33",
       "\u1100\u1161", "aaaa", "aaaaaaa", "ababab", "\U0010ffff"]


def word(r, low, high):
    return "".join(chr(r.randint(low, high)) for _ in range(r.choice([1, 2, 2, 3, 3, 4, 5, 7])))


def corpus(r, sentences):
    words = [word(r, *SCRIPTS[0]) for _ in range(300)] + [word(r, *s) for s in SCRIPTS for _ in range(12)]
    weights = [1 / (i + 1) for i in range(len(words))]
    lines = []
    for _ in range(sentences):
        line = " ".join(r.choices(words, weights, k=r.randint(4, 14)))
        lines.append(line + r.choice([".", "!", "?", ", ", "  x"]))
    return lines, words


def texts(r, words, count):
    fixed = ["", " ", "  ", "a", " a", "a ", "\u2581", "\u2581a", "a\u2581", "\u2581 \u2581", "<s>", "a<s>b",
             "[SYM]", "x[SYM]y [SYM] z", "[SYM][SYM]", "a" * 100, "ab" * 50, " " * 30, "\n\n", "\u00e9" * 40,
             "\U0001f600\U0001f601"]
    made = [t.encode() for t in fixed]
    while len(made) < count:
        kind = r.random()
        if kind < 0.35:
            text = " ".join(r.choice(words) for _ in range(r.randint(1, 20))).encode()
        elif kind < 0.6:
            parts = [r.choice(ODD) if r.random() < 0.5 else r.choice(words) for _ in range(r.randint(1, 12))]
            text = r.choice(["", " "]).join(parts).encode()
        elif kind < 0.75:
            letters = r.sample("ab \u2581c[]SYM<>s/", r.randint(1, 4))
            text = "".join(r.choice(letters) for _ in range(r.randint(1, 80))).encode()
        elif kind < 0.9:
            text = "".join(
                chr(c) for c in (r.choice([r.randint(0, 0x2ff), r.randint(0, 0xffff), r.randint(0, 0x10ffff)])
                                 for _ in range(r.randint(1, 20))) if not 0xd800 <= c < 0xe000).encode()
        else:
            text = bytes(
                r.choice([r.randint(0, 255), r.randint(0x61, 0x7a), r.randint(0x80, 0xbf), 0xe2, 0x96, 0x81])
                for _ in range(r.randint(1, 30)))
        made.append(text)
    return made[:count]


RULES = "\n".join(["41\t61", "42\t62", "65 301\te9", "FB01\t66 69", "9\t20", "A\t20", "A0\t20", "3000\t20 20",
                   "200B\t", "61 61 62\t7A",
                   "FDFA\t" + " ".join("%X" % ord(c) for c in "\u0635\u0644\u0649 "
                                       "\u0627\u0644\u0644\u0647")]) + "\n"


def settings(large):
    every = dict(hard_vocab_limit=False, character_coverage=0.98, minloglevel=2)
    yield "unigram_plain", dict(every, model_type="unigram", vocab_size=300, normalization_rule_name="identity")
    yield "unigram_bytes", dict(every, model_type="unigram", vocab_size=560, byte_fallback=True,
                                normalization_rule_name="identity", remove_extra_whitespaces=False,
                                user_defined_symbols=["[SYM]", "[SY"])
    yield "unigram_rules", dict(every, model_type="unigram", vocab_size=300, rules=True, pad_id=3,
                                user_defined_symbols=["aa", "\u2581x"])
    yield "unigram_across", dict(every, model_type="unigram", vocab_size=300, split_by_whitespace=False,
                                 normalization_rule_name="identity")
    yield "bpe_llama", dict(every, model_type="bpe", vocab_size=700, byte_fallback=True,
                            normalization_rule_name="identity", remove_extra_whitespaces=False,
                            allow_whitespace_only_pieces=True, split_digits=True)
    yield "bpe_plain", dict(every, model_type="bpe", vocab_size=400, normalization_rule_name="identity",
                            add_dummy_prefix=False)
    yield "bpe_rules", dict(every, model_type="bpe", vocab_size=400, rules=True,
                            user_defined_symbols=["[SYM]", "[SY", "ab"], pad_id=3)
    yield "bpe_last", dict(every, model_type="bpe", vocab_size=400, treat_whitespace_as_suffix=True,
                           normalization_rule_name="identity")
    yield "bpe_unused", dict(every, model_type="bpe", vocab_size=400, normalization_rule_name="identity",
                             unused=True)
    yield "unigram_unused", dict(every, model_type="unigram", vocab_size=300, normalization_rule_name="identity",
                                 unused=True)
    if large:
        for kind in ("unigram", "bpe"):
            for rule in ("nmt_nfkc", "nfkc_cf", "identity"):
                for dummy in (True, False):
                    for fallback in (True, False):
                        yield "%s_%s_%d_%d" % (kind, rule, dummy, fallback), dict(
                            every, model_type=kind, vocab_size=1500, byte_fallback=fallback,
                            normalization_rule_name=rule, add_dummy_prefix=dummy)


def train(lines, options, folder):
    options = dict(options)
    unused = options.pop("unused", False)
    if options.pop("rules", False):
        path = os.path.join(folder, "rules.tsv")
        with open(path, "w", encoding="utf-8") as f:
            f.write(RULES)
        options["normalization_rule_tsv"] = path
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **options)
    if options.get("normalization_rule_tsv"):
        os.remove(path)
    data = model.getvalue()
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto.FromString(data)
    proto.normalizer_spec.normalization_rule_tsv = ""
    if unused:
        r = random.Random(5)
        for piece in proto.pieces:
            if piece.type == 1 and r.random() < (0.3 if len(piece.piece) > 1 else 0.05):
                piece.type = 5
    return proto.SerializeToString()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out",
                        default=os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "pieces"))
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--large", action="store_true")
    o = parser.parse_args()
    os.makedirs(o.out, exist_ok=True)
    r = random.Random(7)
    lines, words = corpus(r, 3000 if o.large else 1200)
    for name, options in settings(o.large):
        data = train(lines, options, o.out)
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        with open(os.path.join(o.out, name + ".model"), "wb") as f:
            f.write(data)
        with open(os.path.join(o.out, name + ".cases"), "w") as f:
            for text in texts(random.Random(name), words, o.cases):
                ids = processor.encode(text)
                f.write("%s %s %s\n" % (text.hex() or "-", ",".join(map(str, ids)) or "-",
                                        processor.decode(ids).encode().hex() or "-"))
        print("%-24s %6d pieces %8d bytes" % (name, processor.get_piece_size(), len(data)))


if __name__ == "__main__":
    main()
