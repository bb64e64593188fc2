"""The command ``spmd``: mypy with the outputs that CI systems read, and help around it.

``check`` runs mypy, ``explain`` prints the page of an error code, ``coverage`` says how much of a file is checked,
``doctor`` looks for what keeps the plugin from working, ``init`` writes the configuration.
Plain ``mypy`` gives the same verdicts; nothing here judges code.
"""
