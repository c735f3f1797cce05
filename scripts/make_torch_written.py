#!/usr/bin/env python3
"""Writes tests/unit/torch_written.h: small files that PyTorch itself wrote, as arrays of bytes.

usage: make_torch_written.py > tests/unit/torch_written.h       (needs PyTorch)
"""
import io
from collections import OrderedDict

import torch
from torch.utils.serialization import config


def views():
    matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    made = OrderedDict()
    made["embedding.weight"] = torch.nn.Parameter(matrix)
    made["head.weight"] = matrix
    made["row"] = matrix[1]
    made["scalar"] = matrix[1, 2]
    made["none"] = torch.zeros(0, 5)
    made._metadata = OrderedDict([("", {"version": 1}), ("embedding", {"version": 1, "assign": None})])
    return made


def types():
    return {"half": torch.tensor([1, -2, 1 / 3], dtype=torch.float16).reshape(1, 3, 1),
            "brain": torch.tensor([1, -2], dtype=torch.bfloat16),
            "ids": torch.tensor([-1, 1 << 40]),
            "flags": torch.tensor([True, False, True])}


def written(what, **options):
    stream = io.BytesIO()
    torch.save(what, stream, **options)
    return stream.getvalue()


config.save.storage_alignment = 16 # small files
files = {
    "torch_views": written(views()),
    "torch_types": written(types(), pickle_protocol=5),
    "torch_new_types": written({"u16": torch.tensor([1, 65535], dtype=torch.uint16),
                                "f8": torch.tensor([1.0, -2.0, 0.0]).to(torch.float8_e4m3fn)}),
    "torch_turned": written({"turned": torch.arange(6.0).reshape(2, 3).t()}),
    "torch_legacy": written({"w": torch.zeros(1)}, _use_new_zipfile_serialization=False),
    "torch_foreign": written({"where": torch.device("cpu")}),
}
print("/* torch_written.h - files that PyTorch wrote, made by scripts/make_torch_written.py with PyTorch "
      f"{torch.__version__.split('+')[0]}. */")
print("#ifndef UNIT_TORCH_WRITTEN_H\n#define UNIT_TORCH_WRITTEN_H")
for name, content in files.items():
    print(f"\nstatic const unsigned char {name}[{len(content)}] = {{")
    for at in range(0, len(content), 28):
        print("  " + ",".join(str(byte) for byte in content[at:at + 28]) + ",")
    print("};")
print("\n#endif")
