"""A thin ctypes binding of the public C API for models: include/redoubt/{tensor,context,model}.h, nothing of its own."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

import numpy as np

DTYPES = ("float64", "float32", None, "float16", "int8", "uint8", "int32", "int64", "bool")  # rdt_dtype; bf16 has no NumPy
MAX_RANK = 8
VERDICTS = ("CLEAN", "RECOMPUTED", "CORRECTED", "UNCHECKED", "DETECTED")


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("rank", c_int),
                ("shape", c_int64 * MAX_RANK), ("stride", c_int64 * MAX_RANK)]


class Policy(ctypes.Structure):
    _fields_ = [("scheme", c_char_p), ("on_fault", c_int), ("lambda_", c_double), ("scrub_every", c_int),
                ("avoid_cores", c_char_p), ("keep_weights", c_int), ("suspect_rate", c_double),
                ("min_coverage", c_double)]


class IoInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_int), ("shape", c_int64 * MAX_RANK)]


class Memory(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in ("constants", "packed", "activations", "live", "outputs")]


class RunResult(ctypes.Structure):
    _fields_ = [("verdict", c_int), ("nodes", c_int64 * 5), ("checks", c_int64), ("suspects", c_int64), ("faults", c_int64),
                ("unchecked", c_int64), ("seconds", c_double), ("seconds_check", c_double)]


def view(array):
    """A Tensor over an array, which must outlive it."""
    t = Tensor(array.ctypes.data, DTYPES.index(array.dtype.name), array.ndim)
    t.shape[:array.ndim] = array.shape
    t.stride[:array.ndim] = [s // array.itemsize for s in array.strides]
    return t


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.rdt_context_error.restype = c_char_p
        self.c.rdt_context_error.argtypes = [c_void_p]
        self.c.rdt_status_name.restype = c_char_p
        for name in ("rdt_model_input_count", "rdt_model_output_count"):
            getattr(self.c, name).restype = c_size_t
            getattr(self.c, name).argtypes = [c_void_p]
        self.c.rdt_context_create.argtypes = [POINTER(c_void_p), c_int]
        self.c.rdt_context_set_policy.argtypes = [c_void_p, POINTER(Policy)]
        self.c.rdt_context_destroy.argtypes = [c_void_p]
        self.c.rdt_context_destroy.restype = None
        self.c.rdt_model_load.argtypes = [c_void_p, c_char_p, POINTER(c_void_p)]
        self.c.rdt_model_free.argtypes = [c_void_p]
        self.c.rdt_model_free.restype = None
        self.c.rdt_model_input_info.argtypes = [c_void_p, c_size_t, POINTER(IoInfo)]
        self.c.rdt_model_plan.argtypes = [c_void_p, POINTER(Tensor), c_size_t]
        self.c.rdt_model_run.argtypes = [c_void_p, POINTER(Tensor), c_size_t, POINTER(RunResult)]
        self.c.rdt_model_memory_info.argtypes = [c_void_p, POINTER(Memory)]
        self.c.rdt_model_output.argtypes = [c_void_p, c_size_t, POINTER(Tensor)]


class Model:
    """One model in a context of its own; a context manager."""

    def __init__(self, library, path, scheme="auto", threads=0, scrub_every=16):
        self.c, self.context, self.model = library.c, c_void_p(), c_void_p()
        self.result = RunResult()
        self.must(self.c.rdt_context_create(byref(self.context), threads))
        self.must(self.c.rdt_context_set_policy(self.context, Policy(scheme.encode(), 0, 6.0, scrub_every, None, 0)))
        self.must(self.c.rdt_model_load(self.context, str(path).encode(), byref(self.model)))
        self.names = []
        for i in range(self.c.rdt_model_input_count(self.model)):
            info = IoInfo()
            self.must(self.c.rdt_model_input_info(self.model, i, byref(info)))
            self.names.append(info.name.decode())

    def must(self, status):
        if status != 0:
            text = self.c.rdt_context_error(self.context) if self.context else b""
            raise RuntimeError(f"{self.c.rdt_status_name(status).decode()}: {text.decode()}")

    def bind(self, feed):
        """Inputs for run(); the arrays must stay where they are."""
        return (Tensor * len(self.names))(*[view(feed[name]) for name in self.names])

    def plan(self, bound):
        self.must(self.c.rdt_model_plan(self.model, bound, len(self.names)))

    def memory(self):
        """Of a planned network, in bytes."""
        held = Memory()
        self.must(self.c.rdt_model_memory_info(self.model, byref(held)))
        return held

    def run(self, bound):
        """Seconds are in self.result; returns the verdict."""
        self.must(self.c.rdt_model_run(self.model, bound, len(self.names), byref(self.result)))
        return VERDICTS[self.result.verdict]

    def outputs(self):
        arrays = []
        for i in range(self.c.rdt_model_output_count(self.model)):
            t = Tensor()
            self.must(self.c.rdt_model_output(self.model, i, byref(t)))
            shape, dtype = tuple(t.shape[:t.rank]), np.dtype(DTYPES[t.dtype])
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            arrays.append(np.frombuffer(ctypes.string_at(t.data, size), dtype).reshape(shape).copy())
        return arrays

    def close(self):
        if self.model:
            self.c.rdt_model_free(self.model)
        if self.context:
            self.c.rdt_context_destroy(self.context)
        self.model = self.context = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
