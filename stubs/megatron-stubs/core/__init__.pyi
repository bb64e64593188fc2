from typing import Any

from megatron.core import parallel_state as parallel_state
from megatron.core import tensor_parallel as tensor_parallel

def __getattr__(name: str) -> Any: ...  # the rest is not typed here
