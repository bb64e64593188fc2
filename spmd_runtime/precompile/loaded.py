"""A loaded step: checks its inputs, runs the compiled graph, puts the results together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from spmd_runtime.mesh import lookup
from spmd_runtime.precompile import compat, kernels
from spmd_runtime.precompile.errors import InputError, PrecompileError
from spmd_runtime.precompile.manifest import Variant
from spmd_runtime.precompile.specs import Leaf, TensorSpec, structure_error

KERNELS = "kernels"


class LoadedStep:
    """What ``load`` gives: call it as the step was called at the build.

    ``variants`` names the compiled variants; the one that fits the inputs runs.  Results carry no gradient.
    """

    def __init__(self, variants: Sequence[Variant], folder: Path, groups: Mapping[str, dist.ProcessGroup]) -> None:
        self._runners = [Runner(variant, folder) for variant in variants]
        self._current = self._runners[0]
        self._groups = dict(groups)

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the variants that this rank may run."""
        return tuple(runner.variant.name for runner in self._runners)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one step; raises InputError, naming the input, where the inputs are not what the step was built for."""
        leaves, tree = pytree.tree_flatten((args, kwargs))
        runner = self._choose(leaves, tree)
        for axis, group in self._groups.items():
            if lookup(axis).group is not group:
                raise PrecompileError(
                    f"axis {axis!r} is bound to another group than when the step was loaded; load it anew"
                )
        return runner.run(leaves)

    def revive(self) -> None:
        """Have all variants ready to run; after that their files are not needed."""
        for runner in self._runners:
            runner.revive()

    def _choose(self, leaves: list[Any], tree: pytree.TreeSpec) -> Runner:
        """The variant that the inputs fit, the one of the last call first."""
        if self._current.misfit(leaves, tree) is None:
            return self._current
        misfits = []
        for runner in self._runners:
            found = runner.misfit(leaves, tree)
            if found is None:
                self._current = runner
                return runner
            misfits.append((runner.variant.name, found))
        if len(misfits) == 1:
            raise misfits[0][1]
        raise InputError(
            "the inputs fit no variant of the step:\n" + "\n".join(f"  {name}: {error}" for name, error in misfits)
        )


class Runner:
    """One variant."""

    def __init__(self, variant: Variant, folder: Path) -> None:
        self.variant = variant
        self._folder = folder
        self._compiled: Callable[..., Any] | None = None
        self._expected = [_expected(leaf) for leaf in variant.signature.leaves]
        self._positions = [
            i for i, leaf in enumerate(variant.signature.leaves) if leaf.spec is not None and leaf.same_as is None
        ]
        self._writes = [i for i in self._positions if variant.signature.leaves[i].name in variant.mutated]
        self._apart = not self._writes  # whether no input is known to share memory with one that is written

    def revive(self) -> Callable[..., Any]:
        """The compiled function: unpickled and linked, never compiled."""
        if self._compiled is None:
            libraries = {key: self._folder / KERNELS / f"{key}.so" for key in self.variant.kernels}
            cache = self._folder / "cache"
            with compat.cache_directory(cache), kernels.shipped(libraries):
                kernels.use_triton_helpers(self._folder, cache)
                self._compiled = compat.revive((self._folder / self.variant.name / "step.bin").read_bytes())
        return self._compiled

    def run(self, leaves: list[Any]) -> Any:
        """The step's result for inputs that fit."""
        if not self._apart:
            self._check_memory(leaves)
        compiled = self._compiled or self.revive()
        results = compiled(*[leaves[i] for i in self._positions])
        found = [results[value] if kind == "tensor" else value for kind, value in self.variant.outputs]
        return pytree.tree_unflatten(found, self.variant.tree)

    def misfit(self, leaves: list[Any], tree: pytree.TreeSpec) -> InputError | None:
        """What is wrong with the inputs, None where they fit."""
        if tree != self.variant.signature.tree:
            return structure_error(tree, self.variant.signature.tree)
        sizes: dict[str, int] = {}
        for i, (value, expected) in enumerate(zip(leaves, self._expected, strict=True)):
            if expected is None or not isinstance(value, torch.Tensor):
                error = self._misfit_plain(i, value, leaves)
            elif (value.shape, value.stride(), value.dtype, value.device) == expected:
                continue
            else:
                error = self._misfit_tensor(self.variant.signature.leaves[i], value, sizes)
            if error is not None:
                return InputError(error)
        return None

    def _misfit_plain(self, i: int, value: Any, leaves: list[Any]) -> str | None:
        leaf = self.variant.signature.leaves[i]
        if leaf.spec is None:
            same = type(value) is type(leaf.constant) and value == leaf.constant
            return None if same else f"input {leaf.name} is {value!r}, and the step was built for {leaf.constant!r}"
        if leaf.same_as is not None:
            other = self.variant.signature.leaves[leaf.same_as].name
            return None if value is leaves[leaf.same_as] else f"input {leaf.name} must be the same tensor as {other}"
        return f"input {leaf.name} is a {type(value).__qualname__}, and the step was built for a tensor"

    def _misfit_tensor(self, leaf: Leaf, value: torch.Tensor, sizes: dict[str, int]) -> str | None:
        spec = leaf.spec
        assert spec is not None
        if value.dtype != spec.dtype:
            return _unlike(leaf.name, "dtype", value.dtype, spec.dtype)
        if value.device != _device(spec):
            return _unlike(leaf.name, "device", value.device, _device(spec))
        if (error := self._misfit_shape(leaf.name, spec, value, sizes)) is not None:
            return error
        wanted = spec.strides(sizes)
        if any(n > 1 and a != b for n, a, b in zip(value.shape, value.stride(), wanted, strict=True)):
            return (
                _unlike(leaf.name, "strides", tuple(value.stride()), wanted) + "; call .contiguous() or build for them"
            )
        return None

    def _misfit_shape(self, name: str, spec: TensorSpec, value: torch.Tensor, sizes: dict[str, int]) -> str | None:
        shape = tuple(value.shape)
        if len(shape) != len(spec.shape):
            return _unlike(name, "shape", shape, spec.shape)
        for dim, length in zip(spec.shape, shape, strict=True):
            if isinstance(dim, int):
                if dim != length:
                    return _unlike(name, "shape", shape, spec.shape)
                continue
            low, high = self.variant.ranges[dim]
            if not low <= length <= high:
                return f"input {name} has {dim} = {length}, and the step was built for {low} to {high}"
            if sizes.setdefault(dim, length) != length:
                return f"input {name} has {dim} = {length}, but another input has {dim} = {sizes[dim]}"
        return None

    def _check_memory(self, leaves: list[Any]) -> None:
        """Once: an input that the step writes into must not share memory with another one."""
        spans = [(i, *_span(leaves[i])) for i in self._positions if leaves[i].numel()]
        for i, start, end in spans:
            for j, other, other_end in spans:
                if i != j and i in self._writes and start < other_end and other < end:
                    names = [self.variant.signature.leaves[k].name for k in (i, j)]
                    raise InputError(
                        f"the step writes into {names[0]}, which shares memory with {names[1]}; pass a copy"
                    )
        self._apart = True


def _expected(leaf: Leaf) -> Any:
    """What a tensor is compared with first, None where it takes a closer look."""
    if leaf.spec is None or leaf.same_as is not None:
        return None
    spec = leaf.spec
    if spec.dims:
        return ()
    return torch.Size(spec.sized({})), spec.strides({}), spec.dtype, _device(spec)


def _device(spec: TensorSpec) -> torch.device:
    device = torch.device(spec.device)
    return torch.device(device.type, 0) if device.type != "cpu" and device.index is None else device


def _span(x: torch.Tensor) -> tuple[int, int]:
    extent = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) + 1
    return x.data_ptr(), x.data_ptr() + extent * x.element_size()


def _unlike(name: str, what: str, given: object, wanted: object) -> str:
    return f"input {name} has {what} {given}, and the step was built for {wanted}"
