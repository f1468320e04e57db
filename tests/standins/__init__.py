"""Stand-ins for IRON, one a generation: the signatures of the public sources, and their refusals.

A call that a generation would reject is rejected here, by Python or by the checks repeated from the
source. What a program did is kept in a `Recording`, the same for all of them.
"""
