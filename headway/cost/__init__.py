"""The price of a model before it runs, and the proof after it ran.

A price is a tree of operations (`part`), composed over a configuration (`layers`, `models`) from formulas that stand
beside the operations themselves, or read off a trace where the module is somebody else's (`trace`).
"""
