"""The stubs for Megatron: its own names, typed as ``spmd_runtime.megatron``, with overloads on its flags."""

from __future__ import annotations

import ast
from pathlib import Path

import spmd_runtime.megatron
from tests.mypy_runner import PRELUDE, check_files, compare

STUBS = Path(__file__).parents[2] / "stubs" / "megatron-stubs"

SOURCE = (
    PRELUDE
    + """\
from megatron.core import tensor_parallel
from megatron.core.parallel_state import get_tensor_model_parallel_group
from megatron.core.tensor_parallel import gather_from_sequence_parallel_region as gather
from megatron.core.tensor_parallel.mappings import copy_to_tensor_model_parallel_region as copy_to
from megatron.core.tensor_parallel.mappings import reduce_from_tensor_model_parallel_region as reduce_from
from spmd_runtime.megatron import reduce_scatter_to_sequence_parallel_region as reduce_scatter

def f(s: Tensor[S[TP, 0]], i: Tensor[I[TP]], p: Tensor[P[TP]], flag: bool, unknown: dist.ProcessGroup) -> None:
    reveal_type(gather(s))  # R: Tensor[R[TP]]
    reveal_type(gather(s, False))  # R: Tensor[I[TP]]
    reveal_type(gather(s, tensor_parallel_output_grad=True))  # R: Tensor[R[TP]]
    reveal_type(copy_to(i, group=get_tensor_model_parallel_group()))  # R: Tensor[R[TP]]
    reveal_type(copy_to(i, group=unknown))  # R: torch._tensor.Tensor
    reveal_type(reduce_from(p))  # R: Tensor[I[TP]]
    reveal_type(reduce_scatter(p))  # R: Tensor[S[TP, 0]]
    reveal_type(tensor_parallel.all_gather_last_dim_from_tensor_parallel_region(i.new_empty(2)))  # R: Tensor[R[TP]]
    reduce_from(i)  # E: spmd-arg
    copy_to(p)  # E: spmd-arg
"""
)


def test_megatrons_names_are_typed() -> None:
    """The stub files as a package on the path, which is how mypy sees an installed one."""
    files = {f"megatron/{p.relative_to(STUBS).as_posix()}": p.read_text() for p in STUBS.rglob("*.pyi")}
    result = check_files({"main_module.py": SOURCE, **files}, targets=["main_module.py"])
    wrong = compare(SOURCE, [m for m in result.messages if m.file == "main_module.py"], "main_module.py")
    assert not wrong, "\n".join(wrong)
    assert not [m for m in result.messages if m.file.startswith("megatron")], result.output


def signatures(text: str) -> list[str]:
    """The overloads of a module's functions, as text."""
    functions = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    return [
        f"{n.name}({ast.unparse(n.args)}) -> {ast.unparse(n.returns)}"
        for n in functions
        if n.decorator_list and n.returns
    ]


def test_stubs_and_runtime_have_the_same_signatures() -> None:
    runtime = Path(spmd_runtime.megatron.__file__).read_text()
    stub = (STUBS / "core" / "tensor_parallel" / "mappings.pyi").read_text()
    assert signatures(runtime) == signatures(stub)
    assert len(signatures(stub)) == 25
