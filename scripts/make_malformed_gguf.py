#!/usr/bin/env python3
"""Writes damaged GGUF files, and what the reader has to say of each.

usage: make_malformed_gguf.py FOLDER

Each file differs from a right one, `good.gguf`, in one thing.  FOLDER/expected.tsv has a line for each: its name,
a tab, and a part of the sentence that refuses it (nothing for the files that are right).  Read by
tests/malformed/open_malformed.c; needs Python alone.
"""
import os
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
T_F32, T_F16, T_Q4_0, T_Q4_K = 0, 1, 2, 12


def u32(value):
    return struct.pack("<I", value)


def u64(value):
    return struct.pack("<Q", value)


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return u64(len(value)) + value


def key(name, kind, value):
    return text(name) + u32(kind) + value


def array(name, kind, count, elements):
    return key(name, ARRAY, u32(kind) + u64(count) + elements)


def tensor(name, shape, kind=T_F32, offset=0, dimensions=None):
    """shape: innermost first, as in the file"""
    return (text(name) + u32(len(shape) if dimensions is None else dimensions) + b"".join(map(u64, shape))
            + u32(kind) + u64(offset))


KEYS = [
    key("general.architecture", TEXT, text("llama")),
    key("llama.context_length", U32, u32(2048)),
    key("llama.use_parallel_residual", BOOL, b"\1"),
    array("tokenizer.ggml.tokens", TEXT, 3, text("a") + text("") + text("\u00e9")),
    array("tokenizer.ggml.scores", F32, 3, struct.pack("<3f", 0, -1, -2)),
]
TENSORS = [tensor("token_embd.weight", [8, 2]), tensor("output_norm.weight", [8], offset=64)]
DATA = bytes(range(96))


def gguf(keys=KEYS, tensors=TENSORS, data=DATA, version=3, key_count=None, tensor_count=None, magic=b"GGUF",
         alignment=32):
    head = magic + u32(version)
    head += u64(len(tensors) if tensor_count is None else tensor_count)
    head += u64(len(keys) if key_count is None else key_count)
    head += b"".join(keys) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data


def with_key(more, **rest):
    return gguf(keys=KEYS + [more], **rest)


def one(shape, kind=T_F32, offset=0, data=b"", dimensions=None, name="w"):
    return gguf(tensors=[tensor(name, shape, kind, offset, dimensions)], data=data)


good = gguf()
head_size = len(good) - len(DATA)
big_endian = b"GGUF" + struct.pack(">IQQ", 3, 2, 5) + good[24:]

CASES = {
    "good": (good, ""),
    "good-version-2": (gguf(version=2), ""),
    "good-empty-tensor": (one([0, 7]), ""),
    "good-scalar": (one([], data=bytes(4)), ""),
    "good-no-tensors": (gguf(tensors=[], data=b""), ""),
    "good-unpadded-end": (one([2, 3], data=bytes(24)), ""),
    "good-padded-end": (one([2, 3], data=bytes(32)), ""),
    "good-alignment-64": (with_key(key("general.alignment", U32, u32(64)), alignment=64), ""),
    "good-order": (gguf(tensors=TENSORS[::-1]), ""),
    "good-bytes-in-token": (with_key(array("x", TEXT, 1, text(b"\xff"))), ""),
    # the header
    "empty": (b"", "expected a GGUF file, which begins with 'GGUF'"),
    "three-bytes": (b"GGU", "expected a GGUF file, which begins with 'GGUF'"),
    "magic-alone": (b"GGUF", "expected a GGUF file, found 4 bytes"),
    "header-cut": (good[:20], "expected a GGUF header of 24 bytes, found 20 bytes"),
    "other-magic": (b"GGUG" + good[4:], "expected a GGUF file, which begins with 'GGUF'"),
    "magic-turned": (b"FUGG" + good[4:], "expected a GGUF file, which begins with 'GGUF'"),
    "before-gguf": (b"tjgg" + good[4:], "one of ggml's formats before GGUF"),
    "version-0": (gguf(version=0), "expected GGUF version 2 or 3, found 0"),
    "version-1": (gguf(version=1), "expected GGUF version 2 or 3, found 1"),
    "version-4": (gguf(version=4), "expected GGUF version 2 or 3, found 4"),
    "big-endian": (big_endian, "found a big-endian one"),
    "keys-absurd": (gguf(key_count=1 << 60), "keys for which it has bytes, found 1152921504606846976"),
    "keys-all-ones": (gguf(key_count=(1 << 64) - 1), "keys for which it has bytes, found 18446744073709551615"),
    "keys-one-more": (gguf(key_count=6), "tensor 1 of 2: expected its name of"),
    "keys-one-less": (gguf(key_count=4), "tensor 'tokenizer.ggml.scores': expected at most 4 dimensions, found 9"),
    "tensors-absurd": (gguf(tensor_count=1 << 59), "tensors for which it has bytes, found 576460752303423488"),
    "tensors-one-more": (gguf(tensor_count=3), "tensor 3 of 3: expected its name of"),
    "tensors-one-less": (gguf(tensor_count=1), "expected 64 bytes of data, found"),
    # keys
    "key-name-beyond": (gguf(keys=[u64(1 << 40) + b"x"]), "key 1 of 1: expected its name of 1099511627776 bytes"),
    "key-name-all-ones": (gguf(keys=[u64((1 << 64) - 1) + b"x"]),
                          "key 1 of 1: expected its name of 18446744073709551615"),
    "key-name-empty": (with_key(key("", U8, b"\1")), "key 6 of 6: expected a name of 1 to 65535 bytes, found 0"),
    "key-name-long": (with_key(key("x" * 65536, U8, b"\1")),
                      "key 6 of 6: expected a name of 1 to 65535 bytes, found 65536"),
    "key-name-no-utf8": (with_key(key(b"\xff\xfe", U8, b"\1")), "key 6 of 6: expected its name in UTF-8"),
    "key-name-zero-byte": (with_key(key("a\0b", U8, b"\1")), "key 6 of 6: expected its name in UTF-8"),
    "key-name-new-line": (with_key(key("a\nb", U8, b"\1")), "without control characters"),
    "key-twice": (with_key(key("llama.context_length", U32, u32(1))),
                  "key 'llama.context_length': expected once, found twice"),
    "key-type-13": (with_key(key("x", 13, u64(0))), "key 'x': expected a value of a type from 0 to 12, found 13"),
    "key-type-huge": (with_key(key("x", 0x80000000, u64(0))),
                      "key 'x': expected a value of a type from 0 to 12, found 2147483648"),
    "key-cut-at-type": (gguf(keys=[text("general.name") + b"\0\0"], tensors=[], data=b"", alignment=1),
                        "key 'general.name': expected the type of its value of 4 bytes"),
    "key-cut-in-value": (gguf(keys=[key("x", F64, b"\0\0")], tensors=[], data=b"", alignment=1),
                         "key 'x': expected its value of 8 bytes"),
    "text-beyond": (gguf(keys=[key("x", TEXT, u64(1 << 33) + b"y")]),
                    "key 'x': expected its text of 8589934592 bytes"),
    "text-no-utf8": (with_key(key("x", TEXT, text(b"\xc3("))), "key 'x': expected its text in UTF-8"),
    "text-overlong": (with_key(key("x", TEXT, text(b"\xc0\xaf"))), "key 'x': expected its text in UTF-8"),
    "text-surrogate": (with_key(key("x", TEXT, text(b"\xed\xa0\x80"))), "key 'x': expected its text in UTF-8"),
    "text-zero-byte": (with_key(key("x", TEXT, text("a\0b"))),
                       "key 'x': expected its text in UTF-8 without a zero byte"),
    "boolean-2": (with_key(key("x", BOOL, b"\2")), "key 'x': expected a boolean as 0 or 1, found 2"),
    "booleans-255": (with_key(array("x", BOOL, 3, b"\0\1\xff")),
                     "key 'x': expected a boolean as 0 or 1, found 255"),
    "array-of-arrays": (with_key(array("x", ARRAY, 1, u32(U8) + u64(1) + b"\1")),
                        "key 'x': expected an array of numbers or texts"),
    "array-deep": (with_key(array("x", ARRAY, 1, (u32(ARRAY) + u64(1)) * 5000)),
                   "key 'x': expected an array of numbers or texts"),
    "array-type-99": (with_key(array("x", 99, 1, b"\1")),
                      "key 'x': expected elements of a type from 0 to 12, found 99"),
    "array-absurd": (with_key(array("x", U64, 1 << 61, b"")), "found 2305843009213693952"),
    "array-texts-absurd": (with_key(array("x", TEXT, (1 << 64) - 1, b"")), "found 18446744073709551615"),
    "array-one-more": (gguf(keys=[array("x", U8, 9, bytes(8))], tensors=[], data=b"", alignment=1),
                       "at most the 8 elements"),
    "array-text-beyond": (gguf(keys=[array("x", TEXT, 2, text("a") + u64(1 << 50))], tensors=[], data=b""),
                          "key 'x': expected a text of"),
    "array-cut": (good[:24 + 31 + 38 + 12], "found the file's end"),
    "alignment-0": (with_key(key("general.alignment", U32, u32(0))),
                    "'general.alignment': expected a power of two from 8 to 2097152, found 0"),
    "alignment-24": (with_key(key("general.alignment", U32, u32(24))),
                     "'general.alignment': expected a power of two from 8 to 2097152, found 24"),
    "alignment-4": (with_key(key("general.alignment", U32, u32(4))),
                    "'general.alignment': expected a power of two from 8 to 2097152, found 4"),
    "alignment-text": (with_key(key("general.alignment", TEXT, text("32"))),
                       "'general.alignment': expected a u32, found text"),
    "alignment-array": (with_key(array("general.alignment", U32, 1, u32(32))),
                        "'general.alignment': expected a u32, found an array"),
    "alignment-huge": (with_key(key("general.alignment", U32, u32(1 << 22))),
                       "a power of two from 8 to 2097152, found 4194304"),
    # tensors
    "name-empty": (one([8], name="", data=bytes(32)), "tensor 1 of 1: expected a name of 1 to 64 bytes, found 0"),
    "name-long": (one([8], name="x" * 65, data=bytes(32)),
                  "tensor 1 of 1: expected a name of 1 to 64 bytes, found 65"),
    "name-no-utf8": (one([8], name=b"w\x80", data=bytes(32)), "tensor 1 of 1: expected its name in UTF-8"),
    "name-zero-byte": (one([8], name="w\0", data=bytes(32)), "tensor 1 of 1: expected its name in UTF-8"),
    "name-twice": (gguf(tensors=[tensor("w", [8]), tensor("w", [8], offset=32)], data=bytes(64)),
                   "tensor 'w': expected once, found twice"),
    "dimensions-5": (one([1, 1, 1, 1, 1], data=bytes(32)), "tensor 'w': expected at most 4 dimensions, found 5"),
    "dimensions-huge": (one([8], dimensions=0xffffffff),
                        "tensor 'w': expected at most 4 dimensions, found 4294967295"),
    "dimension-negative": (one([(1 << 64) - 8]), "tensor 'w': expected a dimension below 2^63"),
    "product-overflows": (one([1 << 32, 1 << 32, 2]), "tensor 'w': the product of its dimensions is too large"),
    "product-wraps-to-0": (one([1 << 32, 1 << 32]), "tensor 'w': the product of its dimensions is too large"),
    "bytes-overflow": (one([1 << 62]), "tensor 'w': the product of its dimensions is too large"),
    "type-4": (one([32], kind=4, data=bytes(32)), "tensor 'w': expected a type of ggml, found the number 4"),
    "type-999": (one([32], kind=999, data=bytes(32)), "tensor 'w': expected a type of ggml, found the number 999"),
    "type-huge": (one([32], kind=0xffffffff, data=bytes(32)),
                  "tensor 'w': expected a type of ggml, found the number 4294967295"),
    "block-of-32": (one([33], kind=T_Q4_0, data=bytes(64)),
                    "expected rows of a multiple of 32 elements for type Q4_0, found 33"),
    "block-of-256": (one([32, 8], kind=T_Q4_K, data=bytes(160)),
                     "expected rows of a multiple of 256 elements for type Q4_K, found 32"),
    "block-of-a-scalar": (one([], kind=T_Q4_0, data=bytes(32)),
                          "expected rows of a multiple of 32 elements for type Q4_0, found 1"),
    "offset-unaligned": (one([8], offset=4, data=bytes(36)),
                         "tensor 'w': expected an offset that is a multiple of 32, found 4"),
    "offset-beyond": (one([8], offset=1 << 40, data=bytes(32)),
                      "tensor 'w': expected its 32 bytes at 1099511627776 within the 32 bytes"),
    "offset-wraps": (one([8], offset=(1 << 64) - 32, data=bytes(32)),
                     "tensor 'w': expected its 32 bytes at 18446744073709551584"),
    "data-cut": (good[:-1],
                 "tensor 'output_norm.weight': expected its 32 bytes at 64 within the 95 bytes of data"),
    "data-absent": (good[:head_size],
                    "tensor 'token_embd.weight': expected its 64 bytes at 0 within the 0 bytes of data"),
    "data-before-padding": (good[:head_size - 1], "within the 0 bytes of data"),
    "data-too-long": (good + bytes(1), "expected 96 bytes of data, found 97"),
    "overlap": (gguf(tensors=[TENSORS[0], tensor("b", [8], offset=32)], data=bytes(64)), "(an overlap)"),
    "overlap-whole": (gguf(tensors=[TENSORS[0], tensor("b", [8, 2])], data=bytes(64)), "(an overlap)"),
    "hole": (gguf(tensors=[TENSORS[0], tensor("b", [8], offset=96)], data=bytes(128)), "(a hole)"),
    "hole-at-first": (one([8], offset=32, data=bytes(64)),
                      "expected to begin at byte 0 of the data, found 32 (a hole)"),
    "description-cut": (good[:24 + sum(map(len, KEYS)) + 40],
                        "tensor 'token_embd.weight': expected a dimension of 8 bytes"),
    # split models
    "split-name": (gguf(keys=[key("split.count", U16, b"\2\0"), key("split.no", U16, b"\0\0"),
                              key("split.tensors.count", I32, u32(4))]),
                   "one of 2 files of a split model: expected a name such as"),
    "split-number": (gguf(keys=[key("split.count", U16, b"\2\0"), key("split.no", U16, b"\2\0"),
                                key("split.tensors.count", I32, u32(4))]),
                     "key 'split.no': expected 0 to 1, found 2"),
    "split-tensors": (gguf(keys=[key("split.count", U16, b"\2\0"), key("split.no", U16, b"\0\0"),
                                 key("split.tensors.count", I32, u32(1))]),
                      "key 'split.tensors.count': expected 2 to"),
    "split-count-text": (gguf(keys=[key("split.count", TEXT, text("2"))]),
                         "key 'split.count': expected an integer, found text"),
}

# Files larger than they look: holes of the disk, which read as zeros.
LARGE = {
    "large-texts": (gguf(keys=[array("x", TEXT, 60_000_000, b"")], tensors=[], data=b""), 1 << 30,
                    "within 128 MiB"),
    "large-text": (gguf(keys=[key("x", TEXT, u64(1 << 29))], tensors=[], data=b""), 1 << 30, "within 128 MiB"),
    "large-keys": (gguf(key_count=70_000_000), 1 << 30, "expected at most 65536 keys, found 70000000"),
    "large-empty-texts": (gguf(keys=[array("x", TEXT, 2_000_000, b"")], tensors=[], data=b"", alignment=1),
                          1 << 30, "expected 0 bytes of data, found"),
    "large-tensors": (gguf(tensor_count=300_000), 1 << 30, "expected at most 262144 tensors, found 300000"),
    "large-hole": (one([8]), 1 << 40, "expected 32 bytes of data, found"),
}


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "expected.tsv"), "w", encoding="utf-8") as expected:
        for name, (content, sentence) in CASES.items():
            with open(os.path.join(folder, name + ".gguf"), "wb") as file:
                file.write(content)
            expected.write(f"{name}.gguf\t{sentence}\n")
        for name, (content, size, sentence) in LARGE.items():
            with open(os.path.join(folder, name + ".gguf"), "wb") as file:
                file.write(content)
                file.truncate(size)
            expected.write(f"{name}.gguf\t{sentence}\n")


if __name__ == "__main__":
    main()
