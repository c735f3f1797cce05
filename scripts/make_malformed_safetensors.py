#!/usr/bin/env python3
"""Writes damaged safetensors files, and what the sentence that refuses each must say, into a folder.

usage: make_malformed_safetensors.py FOLDER

FOLDER/expected.tsv has a line "name<TAB>part of the sentence" each (no sentence for what is right); name is a file
or a folder to be opened.  Read by tests/malformed/open_malformed.c; needs Python alone."""
import json
import os
import struct
import sys

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
expected = []


def whole(header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def put(name, content):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def case(name, content, part):
    put(name + ".safetensors", content)
    expected.append((name + ".safetensors", part))


def tensor(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def one(name, member, part, size=0):
    """A file with the one tensor `w`."""
    case(name, whole({"w": member}, bytes(size)), part)


good = whole({"w": tensor([2], 0, 8)}, bytes(8))

case("good", good, "")
case("good_spaces", whole(json.dumps({"w": tensor([2], 0, 8)}).encode() + b"   ", bytes(8)), "")
case("good_without_tensors", whole({}), "")
case("good_empty_tensor", whole({"w": tensor([0, 2**62, 2**62], 0, 0)}), "")

# The prefix and the header as such.
case("empty", b"", "found 0 bytes")
case("half_a_prefix", good[:5], "found 5 bytes")
case("prefix_alone", struct.pack("<Q", 10), "expected a header of at most 0 bytes, found 10")
case("header_of_nothing", struct.pack("<Q", 0) + bytes(8), "begins with '{'")
case("header_past_the_end", whole(b"{}", size=3), "expected a header of at most 2 bytes, found 3")
case("header_of_2_to_the_64", whole(b"{}", size=2**64 - 1), "found 18446744073709551615")
case("header_that_wraps", whole(b"{}", size=2**64 - 8), "found 18446744073709551608")
case("header_cut", good[:20], "header of at most 12 bytes")
case("header_an_array", whole(b"[]"), "begins with '{'")
case("header_after_a_space", whole(b" {}"), "begins with '{'")
case("header_not_json", whole(b"{w: 1}"), "not valid JSON")
case("header_not_closed", whole(b'{"w":{"dtype":"F32"'), "not valid JSON")
case("header_with_more_behind", whole(b"{}{}"), "not valid JSON")
case("header_not_utf8", whole(b'{"\xff":[]}'), "not valid JSON")
case("header_with_nul", whole(b'{"w\\u0000":[]}'), "not valid JSON")
case("header_nested", whole(b'{"w":' + b"[" * 100000 + b"]" * 100000 + b"}"), "at most 3 levels of JSON")
case("header_nested_100", whole(b'{"w":' + b"[" * 100 + b"]" * 100 + b"}"), "at most 3 levels of JSON")

case("header_of_many_values", whole(b'{"w":[' + b"0," * 5000000 + b"0]}"),
     "at most 4000000 values in the header, found 5000001")
case("name_with_escapes", whole({"\x1b[31m\n": 7}), "tensor '?[31m?': expected an object")

# Names.
case("name_long", whole({"w" * 513: tensor([1], 0, 4)}, bytes(4)),
     "expected a name of at most 512 bytes, found 513")
case("name_twice", whole(b'{"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},'
                         b'"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'), "duplicate")
case("metadata_no_object", whole({"__metadata__": 7}), "__metadata__: expected an object")
case("metadata_a_number", whole({"__metadata__": {"steps": 7}}), "__metadata__: steps: expected a text")
case("metadata_nested", whole({"__metadata__": {"a": {"b": "c"}}}), "__metadata__: a: expected a text")

# One tensor's claims.
one("tensor_no_object", 7, "tensor 'w': expected an object")
one("key_unknown", dict(tensor([1], 0, 4), x=1), "unknown key 'x'", 4)
one("dtype_unknown", tensor([1], 0, 4, "F31"), "expected a known dtype, found F31", 4)
one("dtype_of_ggml", tensor([32], 0, 18, "Q4_0"), "expected a known dtype, found Q4_0", 18)
one("dtype_a_number", tensor([1], 0, 4, 5), "expected a known dtype, found none", 4)
one("shape_absent", {"dtype": "F32", "data_offsets": [0, 4]}, "its shape as an array", 4)
one("shape_a_number", tensor(4, 0, 4), "its shape as an array", 4)
one("shape_negative", tensor([-1], 0, 4), "dimension 0 is no size", 4)
one("shape_a_fraction", tensor([1, 0.5], 0, 4), "dimension 1 is no size", 4)
one("shape_of_9", tensor([1] * 9, 0, 4), "at most 8 dimensions, found 9", 4)
one("shape_past_64_bits", tensor([2**64], 0, 4), "is no size", 4)
one("product_wraps_to_0", tensor([2**62, 4], 0, 0), "do not fit its shape")
one("product_wraps_to_4", tensor([2**62 + 1], 0, 4), "do not fit its shape", 4)
one("product_wraps_twice", tensor([2**32, 2**32, 2**32], 0, 0), "do not fit its shape")
one("half_a_byte", tensor([3], 0, 1, "F4"), "do not fit its shape", 1)
one("three_quarters_of_a_byte", tensor([3], 0, 2, "F6_E2M3"), "do not fit its shape", 2)
one("too_few_bytes", tensor([2], 0, 4), "its 4 bytes do not fit", 4)
one("offsets_absent", {"dtype": "F32", "shape": [1]}, "expected data_offsets", 4)
one("offsets_of_3", {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}, "expected data_offsets", 4)
one("offsets_backwards", tensor([1], 4, 0), "expected data_offsets", 4)
one("offsets_negative", tensor([1], -4, 0), "expected data_offsets", 4)
one("offsets_past_the_end", tensor([2], 0, 8), "expected to end within 7 bytes", 7)
one("offsets_of_2_to_the_63", tensor([1], 2**63 - 5, 2**63 - 1), "expected to end within 4 bytes", 4)
one("offsets_a_text", {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}, "expected data_offsets", 4)

# Tensors beside each other.
case("hole_before", whole({"w": tensor([1], 4, 8)}, bytes(8)), "(a hole)")
case("hole_between", whole({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
     "'b': expected to begin at byte 4")
case("hole_after", whole({"w": tensor([1], 0, 4)}, bytes(5)), "expected 4 bytes of data, found 5")
case("overlap", whole({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)), "(an overlap)")
case("overlap_whole", whole({"a": tensor([1], 0, 4), "b": tensor([1], 0, 4)}, bytes(4)), "(an overlap)")
case("data_without_tensors", whole({}, bytes(4)), "expected 0 bytes of data, found 4")
case("data_cut", good[:-1], "expected to end within 7 bytes")
case("counts_absurd", whole({f"t{i}": tensor([1], 0, 4) for i in range(5000)}, bytes(4)), "(an overlap)")


# Shards: an index beside a good shard.
def index(name, content, part, shards=("a.safetensors",)):
    for shard in shards:
        put(name + "/" + shard, good)
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    put(name + "/model.safetensors.index.json", text)
    expected.append((name, part))


def shard_map(**tensors):
    return {"metadata": {"total_size": 8}, "weight_map": tensors}


index("index_not_json", b"{", "not valid JSON")
index("index_without_map", {"metadata": {}}, "expected an object weight_map")
index("index_map_empty", shard_map(), "expected an object weight_map")
index("index_map_an_array", {"weight_map": ["a.safetensors"]}, "expected an object weight_map")
index("index_name_a_number", {"weight_map": {"w": 7}}, "expected the name of a file beside it, found no text")
index("index_leads_up", shard_map(w="../a.safetensors"), "expected the name of a file beside it, found '../a")
index("index_leads_away", shard_map(w="/etc/passwd"), "expected the name of a file beside it, found '/etc/passwd")
index("index_leads_down", shard_map(w="x/a.safetensors"), "expected the name of a file beside it")
index("index_with_backslash", shard_map(w="..\\a.safetensors"), "expected the name of a file beside it")
index("index_dots", shard_map(w=".."), "expected the name of a file beside it")
index("index_name_empty", shard_map(w=""), "expected the name of a file beside it")
index("index_name_long", shard_map(w="a" * 300), "expected the name of a file beside it, found 'aaa")
index("index_shard_absent", shard_map(w="b.safetensors"),
      "expected its shard 'b.safetensors' beside it, found none")
index("index_tensor_absent", shard_map(w="a.safetensors", v="a.safetensors"),
      "tensor 'v': expected it in the shard")
index("index_tensor_elsewhere", shard_map(w="a.safetensors", v="b.safetensors"),
      "tensor 'w': expected it in the shard", ("a.safetensors", "b.safetensors"))
index("index_tensor_not_in_map", shard_map(v="a.safetensors"), "tensor 'w': expected it in weight_map too")
index("index_tensor_twice", b'{"weight_map":{"w":"a.safetensors","w":"a.safetensors"}}', "duplicate")
put("index_shard_damaged/a.safetensors", good[:-1])
put("index_shard_damaged/model.safetensors.index.json", json.dumps(shard_map(w="a.safetensors")).encode())
expected.append(("index_shard_damaged", "expected to end within 7 bytes"))
put("index_extra_tensor/a.safetensors", whole({"v": tensor([1], 0, 4), "w": tensor([1], 4, 8)}, bytes(8)))
put("index_extra_tensor/model.safetensors.index.json", json.dumps(shard_map(w="a.safetensors")).encode())
expected.append(("index_extra_tensor", "tensor 'v': expected it in weight_map too"))

with open(os.path.join(folder, "expected.tsv"), "w", encoding="utf-8") as file:
    file.writelines(f"{name}\t{part}\n" for name, part in expected)
