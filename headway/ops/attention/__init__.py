"""Attention: every mechanism behind one function, and the matrix one would draw."""

from headway.ops.attention.attend import MECHANISMS, attend, attend_call, call_for, record_of, weights
from headway.ops.attention.call import Call, make_call
from headway.ops.attention.mechanism import CacheNeed, Mechanism

__all__ = [
    "MECHANISMS",
    "CacheNeed",
    "Call",
    "Mechanism",
    "attend",
    "attend_call",
    "call_for",
    "make_call",
    "record_of",
    "weights",
]
