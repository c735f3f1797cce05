#!/usr/bin/env python3
"""Tokenizers of every kind, and what Hugging Face's library makes of texts with them.

usage: make_tokenizer_json_golden.py COMMAND ...
  check LIBALIBI.so [TEXTS]     random and adversarial texts: equal ids and texts?
  characters LIBALIBI.so        every character of Unicode, in every step that asks for kinds of them
  names LIBALIBI.so [TEXTS]     names of pre-tokenizers in GGUF files, as random texts show them
  write FOLDER                  tests/golden/tokenizers: tokenizer.json files, texts
  published LIBALIBI.so FOLDER  published tokenizers and vectors (gpt2/, vectors/ ...)
(pip install tokenizers)

(ONLY=name: some of them; SHOW=n: so many differences each; WILD=1: texts of all of Unicode.)

The tokenizers are trained here, on a text made here; nothing of anybody's data is in them.
"""
import collections
import ctypes
import json
import os
import random
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import Tokenizer, models, trainers, pre_tokenizers, normalizers

# ---- texts ----

WORDS = """the lighthouse keeper counted ships that passed in the night and wrote their number in a book There were
three on first second thirteen none It's a quiet sea he said I'm I'll we've they're don't He'd seen quieter salt
tin letters news of other keepers unaffable affable loving lower newest widest hello world
Hello World HELLO running""".split()
FOREIGN = """café naïve Führer Straße Größe übermäßig résumé Ångström İstanbul ISTANBUL ıslak Ελληνικά άνθρωπος
Σίσυφος мир война Привет её ёлка 灯台 番人 船 数える ひらがな カタカナ コーヒー ハンバーグ 한국어 안녕하세요 शब्द हिन्दी नमस्ते
مرحبا العربية שלום עברית ไทย สวัสดี Việt Cửa ðorg ÿ ﬁn ﬃ ½ ¼ Ⅷ ⅷ ² ³ ㎏ ① ㈱ ａｂｃ １２３ ﾊﾝｶｸ ǅ ŉ ſt ꙮ""".split()
COMBINED = [unicodedata.normalize("NFD", w) for w in FOREIGN] + [
    "e\u0301", "e\u0323\u0301", "e\u0301\u0323", "\u0301", "a\u0300\u0301\u0302\u0316",
    "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0344", "\u212b", "\u2126", "\ufb01"]
EMOJI = ["🚀", "😶‍🌫️", "👩‍🚀", "🐘", "✅", "👍🏽", "🇩🇪", "❤️", "☺", "🚢🚢"]
SPACES = [" ", "  ", "   ", " " * 7, "\t", "\n", "\r\n", "\n\n\n", "\u00a0", "\u3000", "\u2003", "\u2028",
          "\u200b", "\u200d", "\u180e", "\x85", "\x0b", "\x0c", "\ufeff", "\u2581", "\u2581\u2581"]
MARKS = list(".,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+`~") + [
    "...", "…", "，", "。", "、", "—", "–", "«", "»", "„", "।", "۔", "،", "¿", "¡", "¶", "·",
    "''", "``", "--", "_x_", "°", "€", "£", "+=", "<|", "|>", "##", "▁", "\u00ad"]
DIGITS = ["0", "1", "42", "3.14", "1000000", "٣", "২", "1st", "0x1F", "2024-11-30", "½", "Ⅷ"]
ODD = ["\x01", "\x07", "\x7f", "\x1b[0m", "\ufffd", "\ufffe", "\ue000",
       "\U0001f170", "Ⓐ", "\u0345", "\u1e9e", "ß", "K", "ﬆ"]
ADDED = ["<s>", "</s>", "<unk>", "<pad>", "[MASK]", "[CLS]", "[SEP]", "<|endoftext|>", "<tag>", "<tagged>",
         "Word", "word", "word2", "   ", "Näme", "<|im_start|>", "<0x0A>"]


def random_text(r):
    """One text; some are long runs of one thing."""
    kind = r.random()
    if kind < 0.04:
        return "".join(chr(r.choice([r.randrange(32, 127), r.randrange(0xa0, 0x250), r.randrange(0x370, 0x400),
                                     r.randrange(0x400, 0x500)]))
                       for _ in range(r.randrange(30))).replace("\u0378", "").replace("\u0379", "")
    if kind < 0.07:
        return r.choice(WORDS + MARKS + EMOJI + SPACES + COMBINED) * r.randrange(1, 120)
    pools = [WORDS, WORDS, FOREIGN, COMBINED, EMOJI, SPACES, SPACES, MARKS, MARKS, DIGITS, ODD, ADDED]
    r.shuffle(pools)
    pools = pools[:r.randrange(1, len(pools))]
    blank = r.choice([0, 0.2, 0.8, 1])
    out = []
    for _ in range(r.randrange(1, 25)):
        if r.random() < blank:
            out.append(" ")
        word = r.choice(r.choice(pools))
        if r.random() < 0.1:
            word = word.upper()
        out.append(word)
    return "".join(out)


def wild_text(r):
    """Characters of all of Unicode between words and marks."""
    out = []
    for _ in range(r.randrange(1, 40)):
        kind = r.random()
        if kind < 0.25:
            out.append(r.choice(WORDS + FOREIGN + COMBINED + SPACES + MARKS))
            continue
        c = r.randrange(0x20, 0x3000 if kind < 0.6 else 0x20000 if kind < 0.75 else
                        0x110000 if kind < 0.8 else 0x80)
        if kind > 0.92:
            c = r.choice([0x300, 0x301, 0x316, 0x327])
        if not 0xd800 <= c < 0xe000:
            out.append(chr(c))
    return "".join(out)


def training_text():
    r = random.Random(5)
    lines = []
    for _ in range(700):
        lines.append(" ".join(r.choice(WORDS if r.random() < 0.75 else FOREIGN + DIGITS + MARKS)
                              for _ in range(12)))
    return lines


# ---- tokenizers ----

def added(first, control=("<s>", "</s>", "<pad>", "[MASK]"), plain=()):
    out = []
    for i, content in enumerate(control):
        out.append({"id": first + i, "content": content, "single_word": False, "lstrip": content == "[MASK]",
                    "rstrip": False, "normalized": False, "special": True})
    for i, (content, options) in enumerate(plain):
        token = {"id": first + len(control) + i, "content": content, "single_word": False, "lstrip": False,
                 "rstrip": False, "normalized": True, "special": False}
        token.update(options)
        out.append(token)
    return out


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="Isolated", invert=False, string=False):
    return {"type": "Split", "pattern": {"String" if string else "Regex": pattern}, "behavior": behavior,
            "invert": invert}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def pre(*parts):
    return sequence("pretokenizers", *parts)


def norm(*parts):
    return sequence("normalizers", *parts)


def whole(model, normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None, added_tokens=()):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens),
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": post_processor,
            "decoder": decoder, "model": model}


def train(kind, normalizer, pre_tokenizer, size=600, **options):
    """A model object trained with these stages."""
    if kind == "BPE":
        tokenizer = Tokenizer(models.BPE(**options))
        special = [options["unk_token"]] if options.get("unk_token") else []
        if options.get("byte_fallback"):
            special += ["<0x%02X>" % i for i in range(256)]
        affixes = {k: options[k] for k in ("continuing_subword_prefix", "end_of_word_suffix") if k in options}
        alphabet = pre_tokenizers.ByteLevel.alphabet() if options.get("ignore_merges") is not None else []
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                      initial_alphabet=alphabet, **affixes)
    elif kind == "WordPiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=["[UNK]"], show_progress=False)
    elif kind == "WordLevel":
        tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
        trainer = trainers.WordLevelTrainer(vocab_size=size, special_tokens=["<unk>"], show_progress=False)
    else:
        tokenizer = Tokenizer(models.Unigram())
        special = ["<unk>"] + (["<0x%02X>" % i for i in range(256)] if options.get("byte_fallback") else [])
        trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=special, unk_token="<unk>",
                                          show_progress=False)
    skeleton = json.loads(tokenizer.to_str())
    skeleton["normalizer"], skeleton["pre_tokenizer"] = normalizer, pre_tokenizer
    if kind == "Unigram":
        skeleton["model"] = {"type": "Unigram", "unk_id": None, "vocab": [], "byte_fallback": False}
    tokenizer = Tokenizer.from_str(json.dumps(skeleton))
    tokenizer.train_from_iterator(training_text(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if options.get("byte_fallback"):
        model["byte_fallback"] = True
    return model


def charsmap():
    """The rules nmt_nfkc as SentencePiece compiles them, in base64; None where its package is not there."""
    try:
        import base64
        import io
        import sentencepiece
    except ImportError:
        return None
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(training_text()), model_writer=model,
                                             vocab_size=300, minloglevel=2, normalization_rule_name="nmt_nfkc",
                                             hard_vocab_limit=False)

    def fields(data):
        at = 0

        def number():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = number()
            if key & 7 == 2:
                size = number()
                yield key >> 3, data[at:at + size]
                at += size
            elif key & 7 == 0:
                number()
            else:
                at += 4 if key & 7 == 5 else 8

    for field, value in fields(model.getvalue()):
        if field == 3:  # normalizer_spec
            for inner, rules in fields(value):
                if inner == 2:  # precompiled_charsmap
                    return base64.b64encode(rules).decode()
    return None


def template(first):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [first], "tokens": ["<s>"]},
                               "</s>": {"id": "</s>", "ids": [first + 1, first + 1], "tokens": ["</s>", "</s>"]}}}


def cases():
    """name -> tokenizer.json as an object."""
    out = collections.OrderedDict()

    def vocabulary(model):
        return len(model["vocab"])

    # Byte-level BPE, cut by every pattern that is out there.
    byte_bpe = train("BPE", None, BYTE_LEVEL, size=700, ignore_merges=False)
    n = vocabulary(byte_bpe)
    runs = [(" " * k, {}) for k in range(24, 1, -1)]
    out["gpt2"] = whole(byte_bpe, None, BYTE_LEVEL, BYTE_LEVEL, BYTE_LEVEL, added(n, ("<|endoftext|>",)))
    out["neox"] = whole(byte_bpe, {"type": "NFC"}, dict(BYTE_LEVEL, add_prefix_space=True), BYTE_LEVEL, BYTE_LEVEL,
                        added(n, ("<|endoftext|>", "<pad>"), runs))
    llama = dict(byte_bpe, ignore_merges=True)
    plain_bytes = dict(BYTE_LEVEL, use_regex=False)
    out["llama3"] = whole(llama, None, pre(split(LLAMA3), plain_bytes),
                          sequence("processors", BYTE_LEVEL, template(n)), BYTE_LEVEL, added(n))
    out["o200k"] = whole(byte_bpe, None, pre(split(O200K), plain_bytes), None, BYTE_LEVEL, added(n))
    out["bloom"] = whole(byte_bpe, None, pre(split(BLOOM), plain_bytes), None, BYTE_LEVEL, added(n))
    out["deepseek"] = whole(byte_bpe, norm(),
                            pre(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), plain_bytes),
                            None, BYTE_LEVEL, added(n))
    out["starcoder"] = whole(byte_bpe, None, pre({"type": "Digits", "individual_digits": True}, BYTE_LEVEL), None,
                             BYTE_LEVEL, added(n))
    out["falcon"] = whole(byte_bpe, None, pre({"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL,
                                              {"type": "Digits", "individual_digits": False},
                                              split("[0-9][0-9][0-9]")), None, BYTE_LEVEL, added(n))
    out["normalized-bytes"] = whole(byte_bpe, norm({"type": "NFKC"}, {"type": "ByteLevel"}),
                                    split("Ġ", "MergedWithNext", string=True), None, BYTE_LEVEL,
                                    added(n, plain=[("Näme", {}), ("word", {"single_word": True})]))
    for i, behavior in enumerate(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]):
        for invert in (False, True):
            pattern = [r"\s", r"\w+", r"[^\s]", r"(?<=\w)\b|\d", r"\s*"][(i + invert) % 5]
            out["split-%s-%s" % (behavior, invert)] = whole(
                byte_bpe, None, pre(split(pattern, behavior, invert), plain_bytes), None, BYTE_LEVEL, added(n))
    out["split-strings"] = whole(
        byte_bpe, None,
        pre(split("ing", "MergedWithPrevious", string=True), split(" ", "Removed", string=True),
            split(".", "Isolated", string=True), plain_bytes), None, BYTE_LEVEL, added(n))
    # Patterns in which Oniguruma and PCRE2 differ.
    patterns = [r"[\p{L}&&[^a-m]]+", r"[^\d[:punct:]\s]+", r"[a-z&&[aeiou]]", r"^.", r".$", r"(?m:a.b)", r"\h+",
                r"a{,2}b", r"l{1}+", r"\bw|e\b", r"[\w&&\D]+", r"[[:alpha:]]+|[[:^space:]]",
                r"\p{Han}+|\p{Hiragana}+", r"\p{^L}", r"\p{Letter}\p{Mark}*", r"[\]\-a]", r"[a\-z]+", r"x|",
                r"\p{Uppercase_Letter}+", r"(?i)HE", r"[^\S\n]+", r"(a|(b))\1", r"(?<w>l)\k<w>", r"(?>a+)b",
                r"\u0041|\x62", r"[^\W_]+", r"\p{Katakana}|\p{Greek}+", r"\R", r"(?<!a)b", r"[[a-c][x-z]]",
                r"[^[a-c][^x]]", r"\A.|.\z", r"[[:punct:]]+", r"[[:alpha:]]+", r"[[:upper:]][[:lower:]]+",
                r"[[:graph:]]+", r"\p{Punct}+", r"(?x) s  h # ip\n", r"\W+", r"{|}", r"[.]{2}", r"\Bh"]
    for i in range(0, len(patterns), 5):
        steps = [split(p, ["Isolated", "MergedWithNext", "Contiguous"][(i + k) % 3])
                 for k, p in enumerate(patterns[i:i + 5])]
        for k, step in enumerate(steps):
            out["pattern-%d" % (i + k)] = whole(byte_bpe, None, pre(step, plain_bytes), None, BYTE_LEVEL, [])

    # BPE over characters.
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    fallback = train("BPE", None, metaspace, size=900, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    n = vocabulary(fallback)
    llama2_decoder = sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                              {"type": "ByteFallback"}, {"type": "Fuse"},
                              {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    out["llama2"] = whole(fallback, norm({"type": "Prepend", "prepend": "▁"},
                                         {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
                          None, template(n), llama2_decoder, added(n))
    out["fallback-metaspace"] = whole(
        fallback, None, dict(metaspace, prepend_scheme="first", split=False), template(n),
        sequence("decoders", {"type": "ByteFallback"}, dict(metaspace, prepend_scheme="first")), added(n))
    few = dict(fallback, vocab={k: v for k, v in fallback["vocab"].items() if k not in ("<0xE2>", "<0xF0>")},
               fuse_unk=False)
    few["merges"] = [m for m in few["merges"] if "<0xE2>" not in m]
    out["fallback-holes"] = whole(few, None, metaspace, None, None, [])
    unknown = train("BPE", norm({"type": "Lowercase"}), {"type": "Whitespace"}, size=400, unk_token="<unk>")
    out["bpe-unknown"] = whole(
        unknown, norm({"type": "Lowercase"}), {"type": "Whitespace"}, None, None,
        added(vocabulary(unknown), plain=[
            ("word", {"single_word": True}), ("word2", {"rstrip": True}), ("<tag>", {"lstrip": True}),
            ("<tagged>", {}), ("NÄME", {}), ("   ", {"rstrip": True})]))
    out["bpe-fused"] = whole(
        dict(unknown, fuse_unk=True),
        norm({"type": "NFD"}, {"type": "StripAccents"},
             {"type": "Strip", "strip_left": True, "strip_right": False}),
        {"type": "WhitespaceSplit"}, None, None, added(vocabulary(unknown)))
    suffix = train("BPE", None, {"type": "WhitespaceSplit"}, size=500,
                   unk_token="<unk>", end_of_word_suffix="</w>")
    out["bpe-suffix"] = whole(suffix, None, {"type": "WhitespaceSplit"}, None,
                              {"type": "BPEDecoder", "suffix": "</w>"}, added(vocabulary(suffix)))
    prefix = train("BPE", None, {"type": "Whitespace"}, size=500,
                   unk_token="<unk>", continuing_subword_prefix="##")
    out["bpe-prefix"] = whole(prefix, None, {"type": "Whitespace"}, None,
                              {"type": "WordPiece", "prefix": "##", "cleanup": True}, added(vocabulary(prefix)))
    out["bpe-nothing"] = whole(dict(unknown, unk_token=None), None, None, None, {"type": "Fuse"}, [])

    # Every normalizer, over a model that sees characters.
    for name, normalizer in [
            ("nfc", {"type": "NFC"}), ("nfd", {"type": "NFD"}), ("nfkc", {"type": "NFKC"}),
            ("nfkd", {"type": "NFKD"}), ("nmt", {"type": "Nmt"}), ("lowercase", norm({"type": "Lowercase"})),
            ("strip", {"type": "Strip", "strip_left": True, "strip_right": True}),
            ("accents", norm({"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"})),
            ("replace", norm({"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
                             {"type": "Replace", "pattern": {"String": "``"}, "content": "\""},
                             {"type": "Prepend", "prepend": "x"})),
            ("bert", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                      "strip_accents": None, "lowercase": True}),
            ("bert-cased", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                            "strip_accents": True, "lowercase": False}),
            ("bert-plain", {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False,
                            "strip_accents": False, "lowercase": True})]:
        cut = (dict(metaspace, prepend_scheme="first") if name != "strip" else
               pre({"type": "WhitespaceSplit"}, dict(metaspace, prepend_scheme="first")))
        out["normalizer-" + name] = whole(fallback, normalizer, cut, template(n), llama2_decoder,
                                          added(n, plain=[("word", {}), ("Näme", {"single_word": True})]))

    rules = charsmap()
    if rules:
        out["normalizer-charsmap"] = whole(
            fallback, norm({"type": "Precompiled", "precompiled_charsmap": rules},
                           {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}),
            dict(metaspace, prepend_scheme="first"), template(n), llama2_decoder, added(n, plain=[("word", {})]))

    # Every pre-tokenizer.
    for name, cut in [
            ("whitespace", {"type": "Whitespace"}), ("bert", {"type": "BertPreTokenizer"}),
            ("digits", {"type": "Digits", "individual_digits": True}),
            ("digits-runs", {"type": "Digits", "individual_digits": False}),
            ("scripts", {"type": "UnicodeScripts"}),
            ("delimiter", {"type": "CharDelimiterSplit", "delimiter": "e"}),
            ("fixed", {"type": "FixedLength", "length": 3}),
            ("punctuation", {"type": "Punctuation", "behavior": "MergedWithPrevious"}),
            ("metaspace-never", {"type": "Metaspace", "replacement": "▁",
                                "prepend_scheme": "never", "split": True}),
            ("metaspace-old", {"type": "Metaspace", "replacement": "_", "add_prefix_space": True}),
            ("many", pre({"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"},
                         {"type": "Digits", "individual_digits": False},
                         dict(metaspace, prepend_scheme="first")))]:
        out["cut-" + name] = whole(
            fallback, None, cut, None,
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            added(n, plain=[("word", {})]))

    # The other models.
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
            "strip_accents": None, "lowercase": True}
    wordpiece = train("WordPiece", bert, {"type": "BertPreTokenizer"}, size=600)
    n = vocabulary(wordpiece)
    out["wordpiece"] = whole(wordpiece, bert, {"type": "BertPreTokenizer"},
                             {"type": "BertProcessing", "sep": ["[SEP]", n + 1], "cls": ["[CLS]", n]},
                             {"type": "WordPiece", "prefix": "##", "cleanup": True},
                             added(n, ("[CLS]", "[SEP]", "[MASK]")))
    wordlevel = train("WordLevel", None, {"type": "Whitespace"}, size=300)
    n = vocabulary(wordlevel)
    out["wordlevel"] = whole(wordlevel, None, {"type": "Whitespace"},
                             {"type": "RobertaProcessing", "sep": ["</s>", n + 1], "cls": ["<s>", n],
                              "trim_offsets": True, "add_prefix_space": False},
                             {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
                             added(n))
    unigram = train("Unigram", norm({"type": "NFKC"}), metaspace, size=500)
    out["unigram"] = whole(unigram, norm({"type": "NFKC"}), metaspace, None, metaspace, added(vocabulary(unigram)))
    unigram = train("Unigram", None, metaspace, size=760, byte_fallback=True)
    out["unigram-fallback"] = whole(unigram, None, metaspace, None, llama2_decoder, added(vocabulary(unigram)))
    return out


# ---- our library ----

class EncodeOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("add_special", ctypes.c_int), ("control", ctypes.c_int)]


class DecodeOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("skip_control", ctypes.c_int), ("valid_utf8", ctypes.c_int)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 1024)]


class Ours:
    def __init__(self, library, path):
        self.library, self.error, self.handle = library, Error(), ctypes.c_void_p()
        self.ask(library.alibi_tokenizer_open(path.encode(), ctypes.byref(self.handle), ctypes.byref(self.error)))

    def ask(self, status):
        if status:
            raise RuntimeError(self.error.message.decode(errors="replace"))

    def encode(self, text, special=False, control=True):
        ids, count = ctypes.POINTER(ctypes.c_uint32)(), ctypes.c_size_t()
        options = EncodeOptions(ctypes.sizeof(EncodeOptions), special, control)
        data = text.encode() if isinstance(text, str) else text
        self.ask(self.library.alibi_tokenizer_encode_with(
            self.handle, ctypes.byref(options), data, ctypes.c_size_t(len(data)),
            ctypes.byref(ids), ctypes.byref(count), ctypes.byref(self.error)))
        out = ids[:count.value]
        self.library.alibi_tokens_free(ids)
        return out

    def decode(self, ids, skip=True):
        text, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = DecodeOptions(ctypes.sizeof(DecodeOptions), skip, 1)
        array = (ctypes.c_uint32 * max(len(ids), 1))(*ids)
        self.ask(self.library.alibi_tokenizer_decode(
            self.handle, ctypes.byref(options), array, ctypes.c_size_t(len(ids)),
            ctypes.byref(text), ctypes.byref(size), ctypes.byref(self.error)))
        out = ctypes.string_at(text, size.value)
        self.library.alibi_text_free(text)
        return out.decode()

    def stream(self, ids, skip=True):
        decoder, text, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        options = DecodeOptions(ctypes.sizeof(DecodeOptions), skip, 1)
        self.ask(self.library.alibi_decoder_new(self.handle, ctypes.byref(options), ctypes.byref(decoder),
                                                ctypes.byref(self.error)))
        out = []
        for token in ids:
            self.ask(self.library.alibi_decoder_add(decoder, ctypes.c_uint32(token), ctypes.byref(text),
                                                    ctypes.byref(size), ctypes.byref(self.error)))
            out.append(ctypes.string_at(text, size.value).decode())  # raises where a character is split
        self.ask(self.library.alibi_decoder_end(decoder, ctypes.byref(text), ctypes.byref(size),
                                                ctypes.byref(self.error)))
        out.append(ctypes.string_at(text, size.value).decode())
        self.library.alibi_decoder_free(decoder)
        return "".join(out)


def load(path):
    library = ctypes.CDLL(path)
    library.alibi_tokens_free.argtypes = [ctypes.c_void_p]
    library.alibi_text_free.argtypes = [ctypes.c_void_p]
    return library


def truth(tokenizer, text, special, control):
    tokenizer.encode_special_tokens = not control
    return tokenizer.encode(text, add_special_tokens=special).ids


# ---- what is asked for ----

def check(library_path, count):
    """Compares, and prints a table."""
    library = load(library_path)
    everything = cases()
    only = os.environ.get("ONLY")
    if only:
        everything = {name: value for name, value in everything.items() if name.startswith(only)}
    each = max(1, count // len(everything))
    total = bad = 0
    folder = os.environ.get("TMPDIR", "/tmp")
    for index, (name, tokenizer_json) in enumerate(everything.items()):
        path = os.path.join(folder, "tokenizer-%d.json" % os.getpid())
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer_json, file, ensure_ascii=False)
        theirs = Tokenizer.from_str(json.dumps(tokenizer_json))
        wrong = []
        try:
            ours = Ours(library, path)
            r = random.Random(1000 + index)
            for i in range(each):
                text = wild_text(r) if os.environ.get("WILD") else random_text(r)
                special, control = r.random() < 0.3, r.random() < 0.7
                want = truth(theirs, text, special, control)
                got = ours.encode(text, special, control)
                skip = r.random() < 0.5
                if got != want:
                    wrong.append(("ids", text, want, got))
                elif want:  # decoding nothing panics in some of their decoders
                    text_want, text_got, streamed = (theirs.decode(want, skip_special_tokens=skip),
                                                     ours.decode(want, skip), ours.stream(want, skip))
                    if text_got != text_want or streamed != text_want:
                        wrong.append(("text" if text_got != text_want else "stream",
                                      text, text_want, text_got, streamed))
            again = path + ".again"
        except RuntimeError as why:
            wrong.append(("refused", str(why)))
        total += each
        bad += len(wrong)
        print("%-28s %6d texts %4d differ" % (name, each, len(wrong)), flush=True)
        for w in wrong[:int(os.environ.get("SHOW", "1"))]:
            print("    ", *(repr(x)[:400] for x in w))
        os.unlink(path)
    print("%d tokenizers, %d texts, %d differ (tokenizers %s)"
          % (len(everything), total, bad, tokenizers.__version__))
    return bad != 0


def ranges(characters):
    out = []
    for c in sorted(characters):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def characters(library_path):
    """Which of all characters, one at a time between letters and before marks, come out in another way."""
    library = load(library_path)
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    mark = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": False}
    model = train("BPE", None, BYTE_LEVEL, size=300, ignore_merges=False)
    bert = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False,
            "strip_accents": False, "lowercase": False}
    steps = [(form, {"type": form}, None)
             for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")]
    steps += [("Bert " + key, dict(bert, **{key: True}), None)
              for key in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")]
    steps += [("Strip", {"type": "Strip", "strip_left": True, "strip_right": True}, None)]
    steps += [(kind, None, {"type": kind})
              for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")]
    steps += [("Punctuation", None, {"type": "Punctuation", "behavior": "Isolated"}),
              ("Digits", None, {"type": "Digits", "individual_digits": True})]
    steps += [("Split " + p, None, split(p))
              for p in (r"\p{L}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Lu}", r"\p{Ll}",
                        r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\s", r"\w", r"\d", r"\p{Han}")]
    # Of ideographs, Hangul, private and far planes one in 16.
    large = [(0x3400, 0x4db0), (0x4e00, 0x9fe0), (0xac00, 0xd7a0), (0xe000, 0xf8f0), (0x17000, 0x187f0),
             (0x20000, 0x2a6d0), (0x2a700, 0x2ebe0), (0x30000, 0x32300), (0x34000, 0xe0000), (0xe0200, 0x110000)]
    everything = [c for c in range(0x110000)
                  if not 0xd800 <= c < 0xe000 and (c % 16 == 0 or not any(a <= c < b for a, b in large))]
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "characters-%d.json" % os.getpid())
    only, bad = os.environ.get("ONLY", ""), 0
    for name, normalizer, cut in steps:
        if not name.startswith(only):
            continue
        # "_" before each piece, so that cuts are seen.
        tokenizer_json = whole(model, normalizer, pre(cut, mark, level) if cut else level, None, BYTE_LEVEL, [])
        with open(path, "w", encoding="utf-8") as file:
            json.dump(tokenizer_json, file, ensure_ascii=False)
        ours, theirs = Ours(library, path), Tokenizer.from_str(json.dumps(tokenizer_json))

        def same(some, what):
            text = "".join(what % chr(c) for c in some)
            return ours.encode(text) == truth(theirs, text, False, True)

        for what in ("ae%sei", "a%s\u0301\u0316z", "\u4e00 %s"):
            wrong, waiting = [], [everything[i:i + 256] for i in range(0, len(everything), 256)]
            while waiting:
                some = waiting.pop()
                if same(some, what):
                    continue
                if len(some) == 1:
                    wrong += some
                else:
                    waiting += [some[:len(some) // 2], some[len(some) // 2:]]
            bad += len(wrong)
            text = " ".join("%X" % a if a == b else "%X-%X" % (a, b) for a, b in ranges(wrong))
            print("%-24s %-14s %6d differ %s"
                  % (name, ascii(what), len(wrong), text[:int(os.environ.get("SHOW", "300"))]), flush=True)
    os.unlink(path)
    return bad != 0


def pre_names():
    """What a name under tokenizer.ggml.pre stands for: patterns of the models' tokenizer.json, or those that
    llama.cpp publishes."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    tekken = (r"[^\r\n\p{L}\p{N}]?" + upper + "*" + lower + r"+|[^\r\n\p{L}\p{N}]?" + upper + "+" + lower +
              r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    bailing = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
               r"|\s*[\r\n]|\s+(?!\S)|\s+")
    seed = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}"
            r"| ?[^\s\p{L}\p{N}" "\r\n" r"]+|\s*[" "\r\n" r"]+|\s+(?!\S)|\s+")
    qwen = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
    return {"gpt-2": [GPT2], "llama-bpe": [LLAMA3], "glm4": [LLAMA3], "stablelm2": [qwen], "grok-2": [qwen],
            "gpt-4o": [O200K], "llama4": [O200K], "tekken": [tekken],
            "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK],
            "bailingmoe": [bailing], "seed-coder": [seed],
            "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
            "starcoder": [r"\p{N}", GPT2], "bloom": [BLOOM], "viking": [BLOOM, r"\p{N}"],
            "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]}


def write_gguf(path, model, name):
    def text(value):
        data = value.encode()
        return struct.pack("<Q", len(data)) + data

    def texts(values):
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))

    tokens = [spelling for spelling, _ in sorted(model["vocab"].items(), key=lambda item: item[1])]
    keys = [("tokenizer.ggml.model", struct.pack("<I", 8) + text("gpt2")),
            ("tokenizer.ggml.pre", struct.pack("<I", 8) + text(name)),
            ("tokenizer.ggml.tokens", texts(tokens)),
            ("tokenizer.ggml.merges", texts([" ".join(pair) for pair in model["merges"]]))]
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) +
                   b"".join(text(key) + value for key, value in keys))


def names(library_path, count):
    library = load(library_path)
    model = train("BPE", None, BYTE_LEVEL, size=700, ignore_merges=False)
    path, bad = os.path.join(os.environ.get("TMPDIR", "/tmp"), "names-%d.gguf" % os.getpid()), 0
    for name, patterns in pre_names().items():
        write_gguf(path, model, name)
        ours = Ours(library, path)
        rest = dict(BYTE_LEVEL, use_regex=False)
        theirs = Tokenizer.from_str(json.dumps(whole(
            dict(model, ignore_merges=name in ("llama-bpe", "tekken")), None,
            pre(*[split(p) for p in patterns], rest), None, BYTE_LEVEL, [])))
        r, wrong = random.Random(name), []
        for _ in range(count):
            text = random_text(r)
            if ours.encode(text) != truth(theirs, text, False, False):
                wrong.append(text)
        bad += len(wrong)
        print("%-20s %6d texts %4d differ" % (name, count, len(wrong)), *map(ascii, wrong[:1]), flush=True)
    os.unlink(path)
    return bad != 0


def published(library_path, folder):
    """GPT-2's two files as a tokenizer.json, GPT-NeoX's tokenizer.json; the vectors that others publish."""
    library = load(library_path)
    encoder = json.load(open(os.path.join(folder, "gpt2/encoder.json"), encoding="utf-8"))
    merges = [line.split(" ")
              for line in open(os.path.join(folder, "gpt2/vocab.bpe"), encoding="utf-8").read().split("\n")[1:]
              if line]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "vocab": encoder, "merges": merges}
    gpt2 = whole(model, None, BYTE_LEVEL, BYTE_LEVEL, BYTE_LEVEL, added(50256, ("<|endoftext|>",)))
    gpt2_path = os.path.join(os.environ.get("TMPDIR", "/tmp"), "gpt2-%d.json" % os.getpid())
    json.dump(gpt2, open(gpt2_path, "w", encoding="utf-8"))
    bad = 0
    for name, path, vectors in [
            ("gpt2", gpt2_path, "gpt-2"),
            ("gpt-neox-20b", os.path.join(folder, "gpt-neox-20b/tokenizer.json"), "mpt")]:
        ours, theirs = Ours(library, path), Tokenizer.from_file(path)
        stem = os.path.join(folder, "vectors/ggml-vocab-%s.gguf" % vectors)
        texts = open(stem + ".inp", encoding="utf-8", newline="").read().split("\n__ggml_vocab_test__\n")
        wanted = [[int(x) for x in line.split()] for line in open(stem + ".out").read().split("\n")]
        equal = library_equal = 0
        for text, want in zip(texts, wanted):
            got = ours.encode(text)
            equal += got == want
            library_equal += got == truth(theirs, text, False, True)
        r, count, same = random.Random(7), 2000, 0
        for _ in range(count):
            text, control = random_text(r), r.random() < 0.7
            ids = ours.encode(text, False, control)
            same += (ids == truth(theirs, text, False, control) and
                     ours.decode(ids) == theirs.decode(ids) == ours.stream(ids))
        print("%-14s %d vectors: %d as published, %d as the library; %d random texts: %d as the library"
              % (name, len(texts), equal, library_equal, count, same))
        bad += len(texts) - library_equal + count - same
    os.unlink(gpt2_path)
    return bad != 0


def write(folder):
    """Small files for a test: tokenizers, and texts with their ids and what they decode to."""
    os.makedirs(folder, exist_ok=True)
    chosen = ["gpt2", "neox", "llama3", "bloom", "deepseek", "llama2", "fallback-holes", "bpe-unknown",
              "bpe-suffix", "normalizer-bert", "normalizer-nfkc", "cut-many", "cut-scripts", "wordpiece",
              "wordlevel", "unigram"]
    everything = cases()
    models_seen = {}
    entries = []
    for name in chosen:
        tokenizer_json = everything[name]
        theirs = Tokenizer.from_str(json.dumps(tokenizer_json))
        r = random.Random(name)
        texts = []
        while len(texts) < 30:
            text, special, control = random_text(r), r.random() < 0.3, r.random() < 0.7
            ids = truth(theirs, text, special, control)
            if ids and len(text) < 120:
                texts.append({"text": text, "special": special, "control": control, "ids": ids,
                              "decoded": theirs.decode(ids)})
        parts = {k: v for k, v in tokenizer_json.items() if k != "model"}
        text = json.dumps(tokenizer_json["model"], sort_keys=True)
        models_seen.setdefault(text, len(models_seen))
        entries.append({"name": name, "model": models_seen[text], "parts": parts, "texts": texts})
    root = {"made by": "scripts/make_tokenizer_json_golden.py with tokenizers " + tokenizers.__version__,
            "models": [json.loads(text) for text in models_seen], "tokenizers": entries}
    with open(os.path.join(folder, "vectors.json"), "w", encoding="utf-8") as file:
        json.dump(root, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def main():
    command = sys.argv[1] if len(sys.argv) > 2 else ""
    if command == "check":
        sys.exit(check(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 10000))
    if command == "characters":
        sys.exit(characters(sys.argv[2]))
    if command == "names":
        sys.exit(names(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2000))
    if command == "published":
        sys.exit(published(sys.argv[2], sys.argv[3]))
    if command != "write":
        sys.exit(__doc__)
    write(sys.argv[2])


main()
