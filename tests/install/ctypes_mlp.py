# SPDX-License-Identifier: Apache-2.0
"""Trains a small network from Python through ctypes: the library loaded into a running program.

usage: ctypes_mlp.py LIBTESSERA
"""
import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1])
POINTERS = """ts_randn ts_sum_dim ts_mse_loss ts_forward ts_mlp_new ts_module_parameters ts_tanh""".split()
for name in POINTERS:
    getattr(lib, name).restype = ctypes.c_void_p
lib.ts_error_last.restype = ctypes.c_char_p


class Shape(ctypes.Structure):
    _fields_ = [("ndim", ctypes.c_int), ("dim", ctypes.c_int64 * 8)]


class Scope(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64)]


lib.ts_scope_begin.restype = Scope
lib.ts_shape_make.restype = Shape


def must(status):
    if status:
        sys.exit(lib.ts_error_last().decode())


def shape(*dims):
    return lib.ts_shape_make(len(dims), (ctypes.c_int64 * len(dims))(*dims))


def pointer(value):
    return ctypes.c_void_p(value)


lib.ts_manual_seed(ctypes.c_uint64(1))
model = pointer(lib.ts_mlp_new((ctypes.c_int64 * 3)(4, 16, 1), 3))
optim = ctypes.c_void_p()
must(lib.ts_adamw_new(ctypes.byref(optim), pointer(lib.ts_module_parameters(model)), None))
lib.ts_optim_set_lr(optim, ctypes.c_double(0.01))
first = last = None
for step in range(200):
    scope = lib.ts_scope_begin()
    x = pointer(lib.ts_randn(shape(32, 4), None))
    y = pointer(lib.ts_tanh(pointer(lib.ts_sum_dim(x, 1, True))))
    loss = pointer(lib.ts_mse_loss(pointer(lib.ts_forward(model, x)), y))
    lib.ts_optim_zero_grad(optim)
    must(lib.ts_backward(loss))
    must(lib.ts_optim_step(optim))
    value = ctypes.c_double()
    must(lib.ts_item(loss, ctypes.byref(value)))
    first, last = first or value.value, value.value
    must(lib.ts_scope_end(scope))
lib.ts_optim_free(optim)
lib.ts_module_free(model)
sys.exit(0 if last < 0.2 * first else f"loss went from {first} to {last}")
