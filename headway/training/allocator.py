"""glibc's allocator, told to keep what it has while a model is trained.

Left alone it gives memory back to the system behind every step, and gets it again page by page in the next one, zeroed:
a fifth of the time of a small model's step (docs/log.md). The setting is the whole process's, and costs nothing but
that memory which was in use once stays with the process until it ends.
"""

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT = 2**30  # bytes at the end of the heap that are kept
SHARED = 2**25  # a block up to this size, the largest that glibc allows, lies in the heap


def keep_memory() -> bool:
    """Whether the allocator took the setting: not one of another name, nor where the user has set it already."""
    if sys.platform != "linux" or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT)) and bool(mallopt(_MMAP_THRESHOLD, SHARED))
