"""``spmd coverage``: how much of a file is really checked, and where types are lost.

``collect`` has mypy check the files and looks at the type of every expression, ``causes`` finds where an unknown type
comes from, ``command`` counts and prints.
"""
