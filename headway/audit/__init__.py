"""Audits: laws that mechanisms claim, trials to test them on, and the search for a counter-example.

>>> from headway.audit.laws import LAWS, hold, refute
>>> from headway.audit.trials import trials
>>> from headway.ops.attention import MECHANISMS
>>> hold(MECHANISMS["softmax"], LAWS["rows_sum"], trials("softmax", 3)) < 1e-10
True
>>> refute(MECHANISMS["local"], LAWS["equivariant"], trials("local", 9)) is None
False
"""
