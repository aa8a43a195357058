# SPDX-License-Identifier: Apache-2.0
"""Writes golden files: named arrays that tests/harness/golden.c reads.

Layout, little endian: the 8 bytes "TSGOLD1\\n", then per array a header of five fields (bytes of the
name: u32, number of ts_dtype: u32, number of dimensions: u32, reserved: u32, sizes: i64 each), the
name, and the elements in row-major order."""
import struct

import torch

DTYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3, torch.int8: 4,
          torch.uint8: 5, torch.int16: 6, torch.int32: 7, torch.int64: 8, torch.bool: 9}


def write(path, arrays):
    with open(path, "wb") as out:
        out.write(b"TSGOLD1\n")
        for name, array in arrays.items():
            tensor = torch.as_tensor(array).detach().contiguous()
            text = name.encode()
            out.write(struct.pack("<4I", len(text), DTYPES[tensor.dtype], tensor.dim(), 0))
            out.write(struct.pack(f"<{tensor.dim()}q", *tensor.shape))
            out.write(text)
            out.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
