"""Names of dtypes."""

from typing import Final

# As they are called elsewhere, with torch's name.
ALIASES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "half": "float16", "float": "float32"}
