#!/usr/bin/env python3
"""Writes damaged files of PyTorch's zip format, and what the reader has to say of each.

usage: make_malformed_torch.py FOLDER

Each file differs from a right one, `good.bin`, in one thing.  FOLDER/expected.tsv has a line for each: its name, a
tab, and a part of the sentence that refuses it (nothing for the files that are right).  Read by
tests/malformed/open_malformed.c; needs Python alone, no PyTorch."""
import os
import pickle
import struct
import sys
import zlib

# ---- pickle: opcodes as torch.save writes them (protocol 2) ----

PROTO, STOP = b"\x80\x02", b"."


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return b"X" + struct.pack("<I", len(value)) + value


def number(value):
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -2**31 <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    size = (value.bit_length() + 8) // 8
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def name(module, which):
    return b"c" + f"{module}\n{which}\n".encode()


def tuple_of(*parts):
    return b"(" + b"".join(parts) + b"t"


ORDERED = name("collections", "OrderedDict") + b")R"


def storage(key="0", elements=6, kind=name("torch", "FloatStorage"), word="storage"):
    return tuple_of(text(word), kind, text(key), text("cpu"), number(elements)) + b"Q"


def tensor(shape=(2, 3), stride=(3, 1), offset=0, where=None, hooks=ORDERED, grad=b"\x89", more=b"",
           call="_rebuild_tensor_v2"):
    return (name("torch._utils", call)
            + tuple_of(storage() if where is None else where, number(offset), tuple_of(*map(number, shape)),
                       tuple_of(*map(number, stride)), grad, hooks, *([more] if more else [])) + b"R")


def dictionary(*pairs, root=ORDERED):
    return PROTO + root + b"(" + b"".join(key + value for key, value in pairs) + b"u" + STOP


def one(value):
    return dictionary((text("w"), value))


# ---- zip: stored entries, their data at multiples of 64 bytes ----

class Entry:
    def __init__(self, path, data, **claims):
        self.path, self.data, self.claims = path.encode() if isinstance(path, str) else path, data, claims


def zip_of(entries, end=None, before_directory=b"", tail=b"", wide=False, **last):
    out, central = b"", b""
    for entry in entries:
        c = dict(flags=0, method=0, size=len(entry.data), stored=len(entry.data), local=len(out), name=entry.path,
                 extra=None)
        c.update(entry.claims)
        local = dict(c, **c.get("local_claims", {}))
        pad = -(len(out) + 34 + len(entry.path)) % 64
        extra = b"FB" + struct.pack("<H", pad) + bytes(pad)
        out += struct.pack("<IHHHHHIIIHH", c.get("signature", 0x04034B50), 20, local["flags"], local["method"], 0,
                           0,
                           zlib.crc32(entry.data), local["stored"], local["size"], len(local["name"]), len(extra))
        out += local["name"] + extra + entry.data
        more = c["extra"] or b""
        central += struct.pack("<IHHHHHHIIIHHHHHII", c.get("central", 0x02014B50), 20, 20, c["flags"], c["method"],
                               0, 0,
                               zlib.crc32(entry.data), c["stored"], c["size"], len(c["name"]), len(more), 0,
                               c.get("disk", 0), 0, 0, c["local"]) + c["name"] + more
    out += before_directory
    count, place = last.get("count", len(entries)), last.get("place", len(out))
    size = last.get("size", len(central))
    out += central
    if wide:
        at = len(out)
        out += struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, count, count, size, place)
        out += struct.pack("<IIQI", 0x07064B50, 0, last.get("locator", at), 1)
        count, size, place = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    return out + (end if end is not None else struct.pack(
        "<IHHHHIIH", 0x06054B50, last.get("disk", 0), 0, count, count, size, place, len(tail))) + tail


NUMBERS = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
GOOD = one(tensor())


def entries(content=GOOD, data=NUMBERS, folder="archive", order=b"little", **claims):
    return [Entry(folder + "/data.pkl", content), Entry(folder + "/byteorder", order),
            Entry(folder + "/data/0", data, **claims), Entry(folder + "/version", b"3\n")]


folder = sys.argv[1]
os.makedirs(os.path.join(folder, "torch_pickle"), exist_ok=True)
expected = []


def case(which, content, part):
    with open(os.path.join(folder, which + ".bin"), "wb") as file:
        file.write(content)
    expected.append((which + ".bin", part))


def pickled(which, content, part):
    with open(os.path.join(folder, "torch_pickle", which), "wb") as file: # for the fuzz target of that name
        file.write(content)
    case(which, zip_of(entries(content)), part)


good = zip_of(entries())
case("good", good, "")
case("good_wide", zip_of(entries(), wide=True), "")
case("good_comment", zip_of(entries(), tail=b"written by hand"), "")
case("good_sizes_follow", zip_of(entries(flags=8, local_claims=dict(size=0, stored=0))), "")
pickled("good_plain_dictionary", dictionary((text("w"), tensor()), root=b"}"), "")
pickled("good_tied", dictionary((text("w"), tensor()), (text("v"), tensor((3,), (1,), 3))), "")

# No zip archive, or half of one.
case("empty", b"", "found no zip archive")
case("a_text", b"hello, world", "found no zip archive")
case("before_1_6", pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2) + pickle.dumps(1001, protocol=2),
     "before PyTorch 1.6")
case("begins_alone", b"PK\3\4", "it is too short")
case("no_end", good[:-30], "its end is missing")
case("cut_by_one", good[:-1], "its end is missing")
case("one_more", good + b"x", "its end is missing")
case("directory_elsewhere", zip_of(entries(), place=0), "its directory is not before its end record")
case("directory_past_the_end", zip_of(entries(), place=2**32 - 2), "its directory is not before its end record")
case("directory_too_long", zip_of(entries(), size=2**31), "its directory is not before its end record")
case("count_too_large", zip_of(entries(), count=5), "fewer entries than")
case("count_absurd", zip_of(entries(), count=65534), "fewer entries than")
case("count_absurd_wide", zip_of(entries(), count=2**60, wide=True), "fewer entries than")
case("count_too_small", zip_of(entries(), count=3), "more entries than")
case("locator_lies", zip_of(entries(), wide=True, locator=0), "zip64 end record is not before")
case("locator_far", zip_of(entries(), wide=True, locator=2**64 - 8), "zip64 end record is not before")
case("wide_directory_wraps", zip_of(entries(), wide=True, place=2**64 - 100),
     "its directory is not before its end record")
case("two_disks", zip_of(entries(), disk=1), "several disks")

# Entries.
case("compressed", zip_of(entries(method=8)), "entry 'archive/data/0': expected one that is stored")
case("compressed_in_part", zip_of(entries(stored=12)), "expected one that is stored")
case("encrypted", zip_of(entries(flags=1)), "not encrypted")
case("size_past_the_end", zip_of(entries(size=10**6, stored=10**6)), "bytes before the directory")
case("size_full_without_field", zip_of(entries(size=2**32 - 1, stored=2**32 - 1)), "bytes before the directory")
case("size_wraps", zip_of(entries(size=2**32 - 1, stored=2**32 - 1, local_claims=dict(size=24, stored=24),
                                  extra=struct.pack("<HHQQ", 1, 16, 2**64 - 16, 2**64 - 16))),
     "disagrees with the directory")
case("field_too_short", zip_of(entries(size=2**32 - 1, stored=2**32 - 1, extra=struct.pack("<HHQ", 1, 8, 24))),
     "extra fields are damaged")
case("field_passes_the_end", zip_of(entries(extra=struct.pack("<HH", 1, 999))), "extra fields are damaged")
case("local_header_elsewhere", zip_of(entries(local=2)), "expected its local header at byte 2, found none")
case("local_header_past_the_end", zip_of(entries(local=2**32 - 2)), "expected its local header")
case("local_name_differs", zip_of(entries(local_claims=dict(name=b"archive/data/1"))),
     "disagrees with the directory")
case("local_size_differs", zip_of(entries(local_claims=dict(size=20, stored=20))), "disagrees with the directory")
case("local_method_differs", zip_of(entries(local_claims=dict(method=8))), "disagrees with the directory")
case("entry_twice", zip_of(entries() + [Entry("archive/data/0", NUMBERS)]),
     "entry 'archive/data/0': is there twice")
case("entries_overlap", zip_of(entries() + [Entry("archive/data/0", NUMBERS, local=0, name=b"archive/data.pkl")]),
     "overlap")
case("entry_without_a_printable_name", zip_of(entries() + [Entry("archive/\x1b[31m", b"")]), "is not printable")
case("no_pickle", zip_of(entries()[1:]), "without data.pkl")
case("two_pickles", zip_of(entries() + entries(folder="other")), "expected one data.pkl, found two")
case("torchscript", zip_of(entries() + [Entry("archive/constants.pkl", b"")]), "found a TorchScript program")
case("big_endian", zip_of(entries(order=b"big")), "byteorder: expected little, found big")
case("odd_endian", zip_of(entries(order=b"middle")), "byteorder: expected little")

# The pickle as a program.
pickled("pickle_empty", b"", "it ends without its last opcode")
pickled("pickle_cut", GOOD[:40], "data.pkl")
pickled("pickle_without_stop", GOOD[:-1], "it ends without its last opcode")
pickled("pickle_of_protocol_0", b"(dp0\n.", "expected protocol 2 to 5")
pickled("pickle_of_protocol_9", b"\x80\x09" + GOOD[2:], "expected protocol 2 to 5")
pickled("pickle_with_more_behind", GOOD + b".", "bytes follow its last opcode")
pickled("pickle_leaves_two", PROTO + b"}}.", "more than one value")
pickled("pickle_leaves_a_mark", PROTO + b"(}.", "more than one value")
pickled("pickle_of_nothing", PROTO + b".", "expected a value on the stack, found none")
pickled("pickle_of_a_tensor", PROTO + tensor() + STOP, "expected a dictionary of tensors, found a tensor")
pickled("pickle_of_a_number", PROTO + b"K\1.", "expected a dictionary of tensors, found an integer")
pickled("calls_os_system", PROTO + name("os", "system") + tuple_of(text("echo pwned")) + b"R.",
        "found 'os.system'")
pickled("calls_posix_system", PROTO + b"\x8c\x05posix\x8c\x06system\x93" + tuple_of(text("echo")) + b"R.",
        "found 'posix.system'")
pickled("calls_eval", PROTO + name("builtins", "eval") + tuple_of(text("1")) + b"R.", "found 'builtins.eval'")
pickled("names_numpy", one(name("numpy.core.multiarray", "_reconstruct") + b")R"),
        "found 'numpy.core.multiarray._reconstruct'")
pickled("names_sparse", one(name("torch._utils", "_rebuild_sparse_tensor") + b")R"),
        "'torch._utils._rebuild_sparse_tensor'")
pickled("names_with_escapes", PROTO + b"cos\x1b[31m\nsystem\n.", "found 'os?[31m.system'")
pickled("name_without_end", PROTO + b"ctorch", "in the middle of a name")
pickled("opcode_inst", PROTO + b"(ios\nsystem\n.", "0x69 (INST)")
pickled("opcode_obj", PROTO + b"(" + name("collections", "OrderedDict") + b"o.", "0x6f (OBJ)")
pickled("opcode_newobj", PROTO + name("collections", "OrderedDict") + b")\x81.", "0x81 (NEWOBJ)")
pickled("opcode_unknown", PROTO + b"\xff.", "found 0xff")
pickled("calls_a_storage", PROTO + name("torch", "FloatStorage") + b")R.",
        "expected no call of torch.FloatStorage")
pickled("calls_a_text", PROTO + text("os") + b")R.", "expected a name and a tuple")
pickled("builds_a_tensor", PROTO + tensor() + b"}b.", "expected a dictionary, found a tensor")
pickled("builds_with_a_text", PROTO + ORDERED + text("x") + b"b.", "expected a state that is a dictionary")
pickled("values_many", PROTO + b"(" + b"N" * 2500000 + b"t.", "more values than a dictionary of tensors needs")
pickled("memo_absent", PROTO + b"h\5.", "expected a memo, found none")
pickled("memo_absurd", PROTO + b"}r\xff\xff\xff\xff.", "the number of a memo is larger")
pickled("mark_absent", PROTO + b"}u.", "expected a mark on the stack, found none")
pickled("nothing_set_in_nothing", PROTO + b"((u.", "expected a value on the stack, found none")
pickled("tensors_many", PROTO + b"}(" + text("") + b"q\x00" + tensor() + b"q\x01" + b"h\x00h\x01" * 300000 + b"u.",
        "expected at most 262144 tensors")
pickled("stack_below_a_mark", PROTO + b"}(s.", "expected keys and values")
pickled("text_past_the_end", PROTO + b"X\xff\xff\xff\x7fw.", "longer than all of it")
pickled("text_of_2_to_the_64", PROTO + b"\x8d" + b"\xff" * 8 + b".", "longer than all of it")
pickled("frame_past_the_end", b"\x80\x04\x95" + b"\xff" * 8 + b"}.", "a frame is longer")
pickled("integer_of_2000_bits", PROTO + b"\x8a\xff" + bytes(255) + b".", "at most 64 bits")
pickled("keys_odd", PROTO + b"}(" + text("w") + b"u.", "expected keys and values")
pickled("marks_many", PROTO + b"(" * 100000 + b".", "expected a value on the stack")
pickled("tuples_nested", PROTO + b")" + b"\x85" * 100000 + b".", "expected a dictionary of tensors, found a tuple")
pickled("dictionary_in_itself", PROTO + b"}q\0" + text("w") + b"h\0s.",
        "key 'w': expected a tensor, found a dictionary")

# What it says.
pickled("key_a_number", dictionary((number(1), tensor())), "expected texts as keys, found an integer")
pickled("key_twice", dictionary((text("w"), tensor()), (text("w"), tensor())), "tensor 'w': is there twice")
pickled("key_with_nul", dictionary((text("w\0"), tensor())), "has a NUL")
pickled("key_long", dictionary((text("w" * 513), tensor())), "names of tensors of at most 512 bytes, found 513")
case("entry_with_a_long_name", zip_of(entries() + [Entry("archive/" + "a" * 600, b"")]),
     "the name of an entry is too long")
pickled("key_long_again", dictionary((text("w" * 100000) + b"q\0", tensor()), *[(b"h\0", b"h\1")] * 3), "data.pkl")
pickled("value_a_number", dictionary((text("epoch"), number(3))),
        "key 'epoch': expected a tensor, found an integer")
pickled("value_nested", dictionary((text("state_dict"), ORDERED)),
        "key 'state_dict': expected a tensor, found a dictionary")
pickled("storage_absent", one(tensor(where=storage("1"))), "expected an entry 'archive/data/1'")
pickled("storage_leads_up", one(tensor(where=storage("../data.pkl"))),
        "expected an entry 'archive/data/../data.pkl'")
pickled("storage_name_long", one(tensor(where=storage("0" * 500))), "expected a number as the name of its storage")
pickled("storage_too_long", one(tensor(where=storage(elements=7))),
        "expected 28 bytes in the entry 'archive/data/0', found 24")
pickled("storage_absurd", one(tensor(where=storage(elements=2**62 + 6))),
        "bytes in the entry 'archive/data/0', found 24")
pickled("storage_negative", one(tensor(where=storage(elements=-6))), "a storage of five parts")
pickled("storage_word", one(tensor(where=storage(word="module"))), "a storage of five parts")
pickled("storage_of_4_parts",
        one(tensor(where=tuple_of(text("storage"), text("0"), text("cpu"), number(6)) + b"Q")),
        "a storage of five parts")
pickled("storage_without_id", one(tensor(where=number(0))), "its data: expected a storage, found an integer")
pickled("storage_untyped", one(tensor(where=storage(elements=24, kind=name("torch.storage", "UntypedStorage")))),
        "expected a storage with a type")
pickled("strides_turned", one(tensor((3, 2), (1, 3))), "tensor 'w': expected one that is contiguous")
pickled("strides_of_0", one(tensor((2, 3), (0, 1))), "tensor 'w': expected one that is contiguous")
pickled("strides_too_few", one(tensor((2, 3), (1,))), "expected 2 strides, found 1")
pickled("strides_negative", one(tensor((2, 3), (3, -1))), "its strides: expected sizes")
pickled("shape_of_9", one(tensor((1,) * 9, (1,) * 9)), "at most 8 dimensions, found 9")
pickled("shape_negative", one(tensor((-2, 3))), "its shape: expected sizes")
pickled("shape_a_text", one(tensor((2, 3)).replace(tuple_of(number(2), number(3)), text("23"))),
        "its shape: expected a tuple, found a text")
pickled("shape_wraps", one(tensor((2**62, 4), (4, 1))), "its shape is too large")
pickled("shape_too_large", one(tensor((2, 4), (4, 1))), "expected to end within the 24 bytes of its storage")
pickled("offset_too_large", one(tensor(offset=1)), "expected to end within the 24 bytes of its storage")
pickled("offset_wraps", one(tensor(offset=2**62)), "expected to end within the 24 bytes of its storage")
pickled("offset_negative", one(tensor(offset=-1)), "its offset: expected a size")
pickled("hooks_there", one(tensor(hooks=b"}" + text("a") + number(1) + b"s")), "its hooks: expected none")
pickled("conjugate", one(tensor(more=b"}" + text("conj") + b"\x88s")),
        "its metadata: expected none, found a dictionary")
pickled("tensor_of_2_parts",
        one(name("torch._utils", "_rebuild_tensor_v2") + tuple_of(number(1), number(2)) + b"R"),
        "expected 6 parts")
pickled("parameter_in_parameter",
        one((name("torch._utils", "_rebuild_parameter") + b"(") * 2 + tensor() + (b"\x89" + ORDERED + b"tR") * 2),
        "found a parameter in a parameter")
pickled("type_no_name",
        one(tensor(where=storage(elements=24, kind=name("torch.storage", "UntypedStorage")), more=text("uint16"),
                   call="_rebuild_tensor_v3")),
        "its type: expected the name of a type")

with open(os.path.join(folder, "expected.tsv"), "w", encoding="utf-8") as file:
    file.writelines(f"{which}\t{part}\n" for which, part in expected)
