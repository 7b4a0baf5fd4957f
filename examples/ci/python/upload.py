# SPDX-License-Identifier: MIT
"""Uploads of a program that must not wait for its device."""
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
OUT_OF_MEMORY, NOT_READY = 2, 600


def check(result):
    if result == OUT_OF_MEMORY:
        raise MemoryError("the device has no memory left")
    if result != 0:
        raise RuntimeError(f"CUDA error {result}")


class Upload:
    """Copies the bytes to the device in the order of the stream."""

    def __init__(self, data, stream):
        self.stream, self.data, self.address = ctypes.c_void_p(stream), data, ctypes.c_uint64()
        check(cuda.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(len(data))))
        check(cuda.cuMemcpyHtoDAsync_v2(self.address, data, ctypes.c_size_t(len(data)), self.stream))

    def done(self):
        """Never waits."""
        result = cuda.cuStreamQuery(self.stream)
        if result != NOT_READY:
            check(result)
        return result == 0

    def close(self):
        check(cuda.cuMemFree_v2(self.address))
