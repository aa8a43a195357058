# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/files/: small files of torch.save, safetensors, transformers and tokenizers.

Run with PyTorch, safetensors, transformers and tokenizers installed; the tests need none of them.
Sizes are tiny on purpose.
"""
import collections
import json
import pathlib
import struct
import sys

import numpy as np
import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parent / "files"
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
          torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128]


def numbers(dtype, shape):
    """0, 1, 2, ... - 3 in any dtype."""
    n = int(np.prod(shape))
    if dtype == torch.bool:
        return (torch.arange(n) % 2 == 1).reshape(shape)
    if dtype.is_complex:
        return torch.complex(torch.arange(n).double(), -torch.arange(n).double()).to(dtype).reshape(shape)
    low = 0 if dtype == torch.uint8 else -3
    return (torch.arange(n) + low).to(dtype).reshape(shape)


def nested():
    """Every kind of value that state dicts hold; tests/golden/files_test.c knows what is in it."""
    base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    tied = torch.nn.Parameter(torch.tensor([1.5, -2.5]))
    return {
        "step": 7, "big": 2**40, "negative": -5, "lr": 0.125, "name": "grüße 🎉", "nothing": None,
        "yes": True, "no": False, "bytes": b"\x00\x7f\x80\xff", "list": [1, [2.5, "x"]],
        "tuple": (1, 2), "size": torch.Size([2, 3]), "dtype": torch.bfloat16,
        "device": torch.device("cpu"), "empty": {}, "state": {0: {"step": torch.tensor(3.0)}, 1: {}},
        "model": collections.OrderedDict(
            base=base, transposed=base.t(), row=base[1], column=base[:, 2], expanded=base[0, :1].expand(5),
            nothing=torch.zeros(0, 3), scalar=torch.tensor(4.25), a=tied, b=tied),
        "dtypes": {str(d).removeprefix("torch."): numbers(d, (2, 3)) for d in DTYPES},
    }


def torch_files():
    torch.save(nested(), OUT / "nested.pt")
    torch.save(nested(), OUT / "nested4.pt", pickle_protocol=4)
    torch.save({"w": torch.ones(2)}, OUT / "old.pt", _use_new_zipfile_serialization=False)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    torch.save(model.state_dict(), OUT / "module.pt")
    torch.save(model, OUT / "whole_module.pt")  # refused: it names classes


def safetensors_files():
    save_file({str(d).removeprefix("torch."): numbers(d, (2, 3)) for d in DTYPES[:10]}
              | {"empty": torch.zeros(0, 3), "scalar": torch.tensor(4.25), "grüße": torch.ones(1)},
              OUT / "all.safetensors", metadata={"format": "pt", "made by": "\"files.py\"\n"})


def gpt2_files():
    """A tiny GPT-2 of transformers: its folder, and what it answers (golden_file's arrays)."""
    from golden_file import write
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(vocab_size=61, n_positions=24, n_embd=16, n_layer=2, n_head=4)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():  # the usual start is too even to tell heads apart
            p.add_(0.3 * torch.randn_like(p))
    model.save_pretrained(OUT / "gpt2")
    tokens = torch.randint(0, 61, (2, 10))
    start = torch.tensor([[3, 1, 4, 1, 5]])
    with torch.no_grad():
        logits = model(tokens).logits
        for _ in range(12):
            start = torch.cat([start, model(start).logits[:, -1:].argmax(-1)], 1)
    write(str(OUT / "gpt2" / "answers.bin"), {"tokens": tokens.numpy(), "logits": logits.numpy(),
                                               "greedy": start[0].numpy()})
    (OUT / "gpt2" / "generation_config.json").unlink(missing_ok=True)


TEXTS = [
    "", " ", "Hello world", "Hello  world!  \n\n  x\t\ty ", "I'll we've you're it's HE'S don't 'tis",
    "grüße, straße; naïve café 日本語 текст العربية", "🎉👩‍👩‍👧‍👦 emoji 🇩🇪!", "12345 3.14159 1,000,000 ²½Ⅷ٣",
    "a\r\nb\n\n\nc   ", "<|endoftext|>x<|endoftext|><|end|> <|endoftext", "    def f(x):\n        return x**2  # ok\n",
    "\u00a0nbsp\u2003em\u3000wide\u0085nel", "a" * 100, "!!! ... ??? --- ###\n\n###", "x\u0301 combining ﬁ ͟ ",
]
DIGITS = ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
          " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")


def tokenizer_files():
    """Two small byte-level BPE tokenizers, trained on a few lines, and what they make of TEXTS."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    lines = TEXTS * 3 + ["the quick brown fox jumps over the lazy dog, and then the other dogs",
                         "training tokens of text: the more, the better; hello worlds, helloworld"] * 4
    for name in "gpt2", "digits":
        tk = Tokenizer(models.BPE(ignore_merges=name == "digits"))
        tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if name == "gpt2" else \
            pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(DIGITS), "isolated"),
                                     pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tk.decoder = decoders.ByteLevel()
        tk.train_from_iterator(lines, trainers.BpeTrainer(
            vocab_size=420, special_tokens=["<|endoftext|>", "<|end|>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        folder = OUT / ("tokenizer_" + name)
        folder.mkdir(exist_ok=True)
        if name == "gpt2":
            tk.model.save(str(folder))  # vocab.json and merges.txt
            tk.save(str(OUT / "tokenizer_gpt2.json"), pretty=False)
        else:
            tk.save(str(folder / "tokenizer.json"), pretty=False)
        with open(OUT / f"tokenizer_{name}.txt", "w") as out:  # text in hexadecimal: numbers
            for text in TEXTS:
                out.write(text.encode().hex() + ":" + " ".join(map(str, tk.encode(text).ids)) + "\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    torch.manual_seed(1)
    parts = {"torch": torch_files, "safetensors": safetensors_files, "gpt2": gpt2_files,
             "tokenizers": tokenizer_files}
    for name in sys.argv[1:] or parts:
        parts[name]()
