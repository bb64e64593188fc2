"""The plugin's hooks, one module per concept."""
