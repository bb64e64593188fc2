"""The type system: kinds, per-axis inference, the tables of operations and collectives.

Imports neither mypy nor torch.  The plugin, the runtime, the tests and the
documentation all read the rules from here.
"""
