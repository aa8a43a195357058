# SPDX-License-Identifier: Apache-2.0
"""torch_files.py FILE: the file that the test wrote is what nested() of tests/golden/files.py makes,
as far as objects have it (tuples are lists, dtypes text)."""
import sys

import torch

o = torch.load(sys.argv[1], weights_only=True)
assert o["step"] == 7 and o["big"] == 2**40 and o["negative"] == -5 and o["lr"] == 0.125, o
assert o["name"] == "grüße 🎉" and o["nothing"] is None and o["yes"] is True and o["no"] is False
assert o["bytes"] == b"\x00\x7f\x80\xff" and o["list"] == [1, [2.5, "x"]] and o["tuple"] == [1, 2]
assert o["empty"] == {} and list(o["state"]) == [0, 1] and o["state"][0]["step"].item() == 3
m = o["model"]
base = torch.arange(12.0).reshape(3, 4)
for name, want in dict(base=base, transposed=base.t(), row=base[1], column=base[:, 2],
                       expanded=base[0, :1].expand(5), nothing=torch.zeros(0, 3),
                       scalar=torch.tensor(4.25), a=torch.tensor([1.5, -2.5])).items():
    assert m[name].shape == want.shape and m[name].equal(want), (name, m[name])
assert m["transposed"].stride() == (1, 4) and m["expanded"].stride() == (0,)
m["base"][0, 1] = 50
assert m["transposed"][1, 0] == 50, "views of one storage are one in the file too"
m["a"][0] = 9
assert m["b"][0] == 9
n = torch.arange(6)
for name, t in o["dtypes"].items():
    dtype = getattr(torch, name)
    assert t.dtype == dtype and t.shape == (2, 3), (name, t)
    want = (n % 2 == 1 if name == "bool" else torch.complex(n.double(), -n.double())
            if dtype.is_complex else n - (0 if name == "uint8" else 3))
    assert t.flatten().equal(want.to(dtype)), (name, t)
print("equal")
