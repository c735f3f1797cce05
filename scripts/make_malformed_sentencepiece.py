#!/usr/bin/env python3
"""Writes damaged SentencePiece models, and what the reader has to say of each.

usage: make_malformed_sentencepiece.py FOLDER

Each file differs from a right one, `good.model`, in one thing.  FOLDER/expected.tsv has a line for each: its name,
a tab, and a part of the sentence that refuses it (nothing for the files that are right).  Read by
tests/malformed/open_malformed.c; needs Python alone.
"""
import os
import struct
import sys

UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def varint(value):
    out = b""
    while True:
        byte = value & 0x7f
        value >>= 7
        out += bytes([byte | (0x80 if value else 0)])
        if not value:
            return out


def key(number, wire):
    return varint(number << 3 | wire)


def number(field, value):
    return key(field, 0) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return key(field, 2) + varint(len(value)) + value


def real(field, value):
    return key(field, 5) + struct.pack("<f", value)


def piece(text, score=-1.0, kind=NORMAL):
    return data(1, data(1, text) + real(2, score) + number(3, kind))


def rules(offset=256, place=0, texts=b"a\0", units=512, size=None):
    """A map of characters with one rule, A -> a."""
    unit = [0] * units
    unit[0] = offset << 10
    unit[321] = 0x41 | 1 << 8 | 1 << 10
    unit[320] = 1 << 31 | place
    trie = struct.pack("<%dI" % units, *unit)
    return struct.pack("<I", len(trie) if size is None else size) + trie + texts


PIECES = [piece("<unk>", 0, UNKNOWN), piece("<s>", 0, CONTROL), piece("</s>", 0, CONTROL), piece("\u2581", -1),
          piece("a", -2), piece("b", -3), piece("ab", -0.5), piece("\u2581a", -0.75), piece("[x]", 0, USER)]
TRAINER = data(2, number(3, BPE) + number(40, 0) + number(41, 1))
NORMALIZER = data(3, data(1, "named") + data(2, rules()) + number(3, 1) + number(4, 0) + number(5, 1))


def model(pieces=PIECES, trainer=TRAINER, normalizer=NORMALIZER, more=b""):
    return b"".join(pieces) + trainer + normalizer + more


def with_piece(new):
    return model(PIECES + [new])


def trainer(fields):
    return model(trainer=data(2, fields))


def normalizer(fields):
    return model(normalizer=data(3, fields))


def nested_groups(depth):
    return key(1000, 3) * depth + key(1000, 4) * depth


BYTES = [piece("<0x%02X>" % b, 0, BYTE) for b in range(256)]
GOOD = model()
NO_FIELD = "expected the key of a field"
PAST = "goes past its end"

FILES = [
    ("good", GOOD, ""),
    ("unknown_fields", model(more=number(500, 7) + data(501, "x") + real(502, 1) + key(503, 1) + b"\0" * 8), ""),
    ("groups", model(more=nested_groups(60)), ""),
    ("self_test", model(more=data(4, data(1, data(1, "in") + data(2, "out")))), ""),
    ("no_trainer", model(trainer=b""), ""),
    ("bytes", model(PIECES + BYTES, data(2, number(3, BPE) + number(35, 1))), ""),
    ("unknown_in_piece", with_piece(data(1, data(1, "q") + number(200, 3))), ""),
    ("last_of_two", with_piece(data(1, data(1, "a") + data(1, "q"))), ""),
    # the wire
    ("cut_1", GOOD[:-1], PAST),
    ("cut_in_key", GOOD + b"\xf8", "a number without an end"),
    ("cut_in_length", GOOD + b"\x0a\xff", "a length without an end"),
    ("cut_in_fixed", GOOD + key(600, 1) + b"\0\0\0", "a number " + PAST),
    ("long_varint", GOOD + key(600, 0) + b"\x80" * 10 + b"\1", "a number without an end"),
    ("wide_varint", GOOD + key(600, 0) + b"\xff" * 9 + b"\x02", "a number without an end"),
    ("huge_length", GOOD + b"\x0a" + b"\xff" * 9 + b"\x01", PAST),
    ("field_0", GOOD + b"\x02\x00", NO_FIELD),
    ("field_too_large", GOOD + varint(1 << 29 << 3) + b"\0", NO_FIELD),
    ("wire_6", GOOD + key(600, 6), NO_FIELD),
    ("wire_7", GOOD + key(600, 7), NO_FIELD),
    ("group_open", GOOD + key(600, 3), "a group without an end"),
    ("group_closed", GOOD + key(600, 4), "the end of a group that did not begin"),
    ("group_crossed", GOOD + key(600, 3) + key(601, 3) + key(600, 4) + key(601, 4), "the end of another group"),
    ("groups_deep", GOOD + nested_groups(65), "groups nested too deeply"),
    ("groups_very_deep", GOOD + nested_groups(100000), "groups nested too deeply"),
    ("piece_past_end", b"\x0a\x7f\x0a\x01a", PAST),
    ("text_past_piece", with_piece(data(1, b"\x0a\x09ab")), PAST),
    ("pieces_no_message", model(more=number(1, 5)), "field 1: expected wire type 2, found 0"),
    ("trainer_no_message", model(more=number(2, 5)), "field 2: expected wire type 2, found 0"),
    # pieces
    ("no_pieces", TRAINER + NORMALIZER, "invalid"),
    ("text_no_bytes", with_piece(data(1, number(1, 5))), "in a piece: field 1: expected wire type 2, found 0"),
    ("score_no_float", with_piece(data(1, data(1, "q") + number(2, 5))), "field 2: expected wire type 5, found 0"),
    ("type_no_number", with_piece(data(1, data(1, "q") + data(3, "x"))), "field 3: expected wire type 0, found 2"),
    ("empty_text", with_piece(piece("")), "piece 9: expected a text of 1 to 7999 bytes, found 0"),
    ("no_text", with_piece(data(1, real(2, 1))), "piece 9: expected a text of 1 to 7999 bytes, found 0"),
    ("long_text", with_piece(piece("q" * 8000)), "expected a text of 1 to 7999 bytes, found 8000"),
    ("nul_in_text", with_piece(piece("q\0r")), "piece 9: its text is not UTF-8, or has a NUL"),
    ("text_no_utf8", with_piece(piece(b"\xff\xfe")), "piece 9: its text is not UTF-8"),
    ("surrogate", with_piece(piece(b"\xed\xa0\x80")), "piece 9: its text is not UTF-8"),
    ("score_nan", with_piece(piece("q", float("nan"))), "piece 9 ('q'): its score is no finite number"),
    ("score_infinite", with_piece(piece("q", float("inf"))), "piece 9 ('q'): its score is no finite number"),
    ("score_of_newline", with_piece(piece("\n\x7f", float("inf"))),
     "piece 9 ('??'): its score is no finite number"),
    ("type_0", with_piece(piece("q", 0, 0)), "piece 9 ('q'): expected a type from 1 to 6, found 0"),
    ("type_7", with_piece(piece("q", 0, 7)), "expected a type from 1 to 6"),
    ("type_huge", with_piece(piece("q", 0, (1 << 64) - 1)), "expected a type from 1 to 6"),
    ("twice", with_piece(piece("ab")), "pieces 6 and 9 are both 'ab'"),
    ("control_twice", with_piece(piece("<s>", 0, CONTROL)), "pieces 1 and 9 are both '<s>'"),
    ("two_unknown", with_piece(piece("<u>", 0, UNKNOWN)), "pieces 0 and 9 are both the unknown one"),
    ("no_unknown", model(PIECES[1:]), "expected a piece for what is unknown, found none"),
    ("byte_unasked", model(PIECES + BYTES), "is a byte, but byte_fallback is not set"),
    ("bytes_missing", model(PIECES + BYTES[:255], data(2, number(35, 1))),
     "expected pieces for 256 bytes, found 255"),
    ("no_bytes", trainer(number(35, 1)), "expected pieces for 256 bytes, found 0"),
    ("byte_misspelled", model(PIECES + BYTES + [piece("<0xfg>", 0, BYTE)], data(2, number(35, 1))),
     "expected a byte as '<0xXX>', found '<0xfg>'"),
    # trainer and normalizer
    ("model_word", trainer(number(3, WORD)), "model_type: expected UNIGRAM or BPE, found 3 (WORD)"),
    ("model_char", trainer(number(3, CHAR)), "model_type: expected UNIGRAM or BPE, found 4 (CHAR)"),
    ("model_9", trainer(number(3, 9)), "model_type: expected UNIGRAM or BPE, found 9"),
    ("model_text", trainer(data(3, "BPE")), "in trainer_spec: field 3: expected wire type 0, found 2"),
    ("surface_no_utf8", trainer(data(44, b"\xff")), "unk_surface is not UTF-8"),
    ("rules_empty_trie", normalizer(data(2, rules(units=512, size=0))), "map of characters"),
    ("rules_short", normalizer(data(2, b"\1\2")), "map of characters"),
    ("rules_past_end", normalizer(data(2, rules(size=1 << 20))), "map of characters"),
    ("rules_odd", normalizer(data(2, rules(size=2047))), "map of characters"),
    ("rules_no_utf8", normalizer(data(2, rules(texts=b"\xff\0"))), "map of characters"),
    ("rules_no_bytes", normalizer(number(2, 5)), "in normalizer_spec: field 2: expected wire type 2, found 0"),
    ("flag_no_number", normalizer(data(3, "x")), "in normalizer_spec: field 3: expected wire type 0, found 2"),
    ("denormalizer", model(more=data(5, data(2, rules()))), "denormalizer_spec: rules for decoded text"),
    ("zeros", b"\x0a" + b"\0" * 60, ""[:0] or "expected"),
]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "expected.tsv"), "w") as expected:
        for name, content, sentence in FILES:
            with open(os.path.join(folder, name + ".model"), "wb") as f:
                f.write(content)
            expected.write("%s.model\t%s\n" % (name, sentence))


if __name__ == "__main__":
    main()
