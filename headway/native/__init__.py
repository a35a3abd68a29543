"""Compiled kernels, and the same functions in plain torch where there is no compiler.

`source/` is C++ without torch's headers. It is compiled at first use for the instruction set of the machine, kept in
the user's cache, and called by ctypes (`build`). HEADWAY_NATIVE=0 switches it off.
"""
