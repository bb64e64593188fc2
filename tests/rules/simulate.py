"""Ranks in one process: does what the rules claim of a call hold in numbers?

A :class:`Sample` is a call with float64 tensors.  For each assignment of types to its tensors, inputs are drawn
for some ranks -- R and I equal, V different, P random summands -- the operation runs on each rank, and the
verdict is checked against what a single device computes on what the inputs denote:

* R, I and constant outputs are equal on all ranks, and to the single device's; the ranks' P outputs sum to its;
* backward, with the cotangent that the output's type has: an I input gets the same gradient on each rank, the
  gradients of an R input sum to the single device's, and a P input gets the single device's gradient on each rank;
* an operand that a call writes to afterwards is what the verdict says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import torch
from torch import Tensor

from spmd_mypy.rules.call import UNKNOWN, Argument, Call, Name, OptionValue, Verdict
from spmd_mypy.rules.kinds import BY_LETTER, AxisType
from spmd_mypy.rules.operations import judge

LETTERS = "RIVP"

# Operands that native code trusts: what it does with other values is undefined.
TRUSTED = frozenset({"pivots", "LU_pivots"})


@dataclass
class Sample:
    """A call to try: ``arguments`` are (parameter, value) pairs in the order of ``run``'s arguments.

    ``run`` takes the values and gives the result; ``options`` of the call are the values that hold no tensor.
    """

    op: str
    arguments: list[tuple[str, object]]
    run: Callable[[list[object]], object]
    tensors: list[Tensor] = field(init=False)
    params: list[str] = field(init=False)
    gradable: list[bool] = field(init=False)

    def __post_init__(self) -> None:
        pairs = [(param, leaf) for param, value in self.arguments for leaf in leaves(value)]
        self.tensors = [leaf for _, leaf in pairs]
        self.params = [param for param, _ in pairs]
        self.gradable = [leaf.dtype.is_floating_point or leaf.dtype.is_complex for leaf in self.tensors]


@dataclass(frozen=True)
class Outcome:
    """What a run gave: the tensors that came out, the inputs after the call, and the leaves that gradients reach."""

    outputs: list[Tensor]
    inputs: list[Tensor]
    roots: list[Tensor]


class Unsuitable(Exception):
    """The operation does not run on what was drawn, or gives nothing to check."""


def leaves(value: object) -> Iterator[Tensor]:
    """The tensors in a nested value, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)


def replaced(value: object, tensors: Iterator[Tensor]) -> object:
    """A nested value with its tensors replaced, in order."""
    if isinstance(value, Tensor):
        return next(tensors)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(replaced(item, tensors) for item in value)
    return value


# ---- the call as the rules see it


def option(value: object) -> OptionValue:
    """A Python value as the rules get it from source text."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    if isinstance(value, torch.dtype):
        return Name(str(value))
    if isinstance(value, (list, tuple)):
        return tuple(option(item) for item in value)
    return UNKNOWN


def _numbers(param: str, value: object) -> Iterator[Argument]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _numbers(param, item)
    elif isinstance(value, (bool, int, float, complex)):
        yield Argument(param, None, value)


def call_of(sample: Sample, types: Sequence[AxisType | None]) -> tuple[Call, list[int]]:
    """The call with those types on its one axis, and where its tensors stand among the arguments."""
    arguments: list[Argument] = []
    where: list[int] = []
    options: dict[str, OptionValue] = {}
    rest = iter(types)
    for param, value in sample.arguments:
        tensors = list(leaves(value))
        for _ in tensors:
            where.append(len(arguments))
            arguments.append(Argument(param, (next(rest),)))
        arguments.extend(_numbers(param, value))
        if not tensors:
            options[param] = option(value)
    return Call(sample.op, tuple(arguments), options), where


# ---- drawing


def _varying(x: Tensor, rank: int, generator: torch.Generator) -> Tensor:
    if rank == 0 or x.numel() == 0:
        return x
    if x.dtype.is_floating_point or x.dtype.is_complex:
        # A scalar in (1/2, 1) keeps an operation's domain: positive, triangular, a probability.
        return x * (0.5 + 0.5 * torch.rand((), generator=generator, dtype=torch.float64)).to(x.dtype)
    if x.dtype == torch.bool:
        return ~x if rank == 1 else x
    return x.flatten().roll(rank).flip(0).reshape(x.shape)


def _summands(x: Tensor, ranks: int, generator: torch.Generator) -> list[Tensor]:
    if x.dtype == torch.bool or x.layout != torch.strided:
        raise Unsuitable("bools and sparse tensors are not drawn as summands")
    if x.dtype.is_floating_point or x.dtype.is_complex:
        parts = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for _ in range(ranks - 1)]
    else:
        parts = [torch.randint(-2, 3, x.shape, generator=generator).to(x.dtype) for _ in range(ranks - 1)]
    return [x - sum(parts[1:], parts[0]), *parts]


def draw(x: Tensor, letter: str, ranks: int, generator: torch.Generator) -> list[Tensor]:
    """A tensor for each rank which denotes ``x``: V has it on rank 0 only."""
    if letter == "P":
        return _summands(x, ranks, generator)
    if letter == "V":
        return [_varying(x, rank, generator) for rank in range(ranks)]
    return [x] * ranks


# ---- running


_PROBLEMS = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, AssertionError)
_ABOUT_GRADIENTS = re.compile(
    r"differentia|requires?.grad|derivative|autograd|leaf Variable|created explicitly by the user"
)
_NOT_DIFFERENTIABLE = re.compile(r"not differentiable with respect to argument '(\w+)'")


def _forward(sample: Sample, tensors: Sequence[Tensor], seed: int) -> Outcome:
    roots = [x.detach().clone().requires_grad_(grad) for x, grad in zip(tensors, sample.gradable, strict=True)]
    inputs = [root.clone() if root.requires_grad else root for root in roots]
    torch.manual_seed(seed)
    rest = iter(inputs)
    values = [replaced(value, rest) for _, value in sample.arguments]
    return Outcome(list(leaves(sample.run(values))), inputs, roots)


def run(sample: Sample, tensors: Sequence[Tensor], seed: int) -> Outcome:
    """Run the call on copies of those tensors, with gradients where it lets them have any."""
    while True:
        try:
            return _forward(sample, tensors, seed)
        except _PROBLEMS as problem:
            if not _give_up_gradients(sample, str(problem)):
                raise Unsuitable(str(problem)) from problem


def _give_up_gradients(sample: Sample, problem: str) -> bool:
    """Take the gradient from what the message says has none; from everything where it does not say."""
    if not _ABOUT_GRADIENTS.search(problem):
        return False
    named = _NOT_DIFFERENTIABLE.search(problem)
    names = {named[1]} | ({"self", "input"} if named[1] in ("self", "input") else set()) if named else set()
    guilty = [at for at, param in enumerate(sample.params) if param in names and sample.gradable[at]]
    guilty = guilty or [at for at, gradable in enumerate(sample.gradable) if gradable]
    for at in guilty:
        sample.gradable[at] = False
    return bool(guilty)


_TOLERANCE = {
    torch.float64: 1e-7,
    torch.complex128: 1e-7,
    torch.float16: 2e-2,
    torch.bfloat16: 5e-2,
    torch.complex32: 2e-2,
}


def _dense(x: Tensor) -> Tensor:
    x = x.detach()
    return x if x.layout == torch.strided else x.to_dense()


def close(one: Tensor, other: Tensor, tolerance: float = 0.0) -> bool:
    """Equal up to rounding, at the precision of the values or a given one, whichever is less."""
    one, other = _dense(one), _dense(other)
    if one.shape != other.shape:
        return False
    if not one.dtype.is_floating_point and not one.dtype.is_complex:
        return bool(torch.equal(one, other))
    tolerance = max(tolerance, _TOLERANCE.get(one.dtype, 1e-4))
    largest = torch.nan_to_num(other.abs(), posinf=0.0).max().item() if other.numel() else 0.0
    return torch.allclose(one, other.to(one.dtype), tolerance, tolerance * max(1.0, largest), equal_nan=True)


def _total(parts: Sequence[Tensor]) -> Tensor:
    dense = [_dense(part) for part in parts]
    if dense[0].dtype == torch.bool:
        raise Unsuitable("bools do not sum")
    try:
        return sum(dense[1:], dense[0])
    except NotImplementedError as problem:
        raise Unsuitable(str(problem)) from problem


# ---- checking claims


@dataclass
class Run:
    """A call on all ranks, and on a single device with what its inputs denote.

    ``apart`` are runs, one per rank, with each rank's V and what the other inputs denote: what V outputs should be.
    """

    letters: str
    ranks: list[Outcome]
    single: Outcome
    apart: list[Outcome]


def simulate(sample: Sample, letters: str, ranks: int, seed: int) -> Run:
    """Draw inputs of those types and run the call everywhere."""
    if any(letter in "VP" and param in TRUSTED for letter, param in zip(letters, sample.params, strict=True)):
        raise Unsuitable("undefined behaviour")
    generator = torch.Generator().manual_seed(7919 * seed)  # samples are drawn with small seeds
    drawn = [draw(x, letter, ranks, generator) for x, letter in zip(sample.tensors, letters, strict=True)]
    outcomes = [run(sample, [per_rank[rank] for per_rank in drawn], seed) for rank in range(ranks)]
    apart = outcomes
    if "V" in letters and "P" in letters:
        columns = [
            per_rank if letter == "V" else [x] * ranks
            for x, per_rank, letter in zip(sample.tensors, drawn, letters, strict=True)
        ]
        apart = [run(sample, [column[rank] for column in columns], seed) for rank in range(ranks)]
    return Run(letters, outcomes, run(sample, sample.tensors, seed), apart)


def value_holds(kind: AxisType, per_rank: Sequence[Tensor], single: Tensor, apart: Sequence[Tensor]) -> bool:
    """Whether values on the ranks are of a type, and denote what they should."""
    if kind.letter == "V":
        return all(close(one, other) for one, other in zip(per_rank, apart, strict=True))
    if kind.letter == "P":
        return close(_total(per_rank), single)
    return all(close(one, single) for one in per_rank)


def output_holds(kind: AxisType, attempt: Run, at: int) -> bool:
    """``value_holds`` of an output."""
    columns = ([outcome.outputs[at] for outcome in outcomes] for outcomes in (attempt.ranks, attempt.apart))
    per_rank, apart = columns
    return value_holds(kind, per_rank, attempt.single.outputs[at], apart)


def written_holds(kind: AxisType, attempt: Run, at: int) -> bool:
    """``value_holds`` of an input after the call."""
    columns = ([outcome.inputs[at] for outcome in outcomes] for outcomes in (attempt.ranks, attempt.apart))
    per_rank, apart = columns
    return value_holds(kind, per_rank, attempt.single.inputs[at], apart)


def _differentiable(x: Tensor) -> bool:
    return x.requires_grad and (x.dtype.is_floating_point or x.dtype.is_complex)


def _cotangents(kinds: Sequence[AxisType], attempt: Run, seed: int) -> list[list[Tensor]]:
    """A cotangent per output and rank, of the dual type: equal for I and P, summands for R, any for V."""
    generator = torch.Generator().manual_seed(7919 * seed + 1)
    ranks = len(attempt.ranks)

    def drawn(y: Tensor) -> Tensor:
        dtype = torch.complex128 if y.dtype.is_complex else torch.float64
        g = torch.randn(y.shape, generator=generator, dtype=dtype)
        return g.to(y.dtype) if y.dtype.is_floating_point or y.dtype.is_complex else g

    result = []
    for at, kind in enumerate(kinds):
        if kind.letter == "V":
            result.append([drawn(outcome.outputs[at]) for outcome in attempt.ranks])
        elif kind.letter == "R" and not kind.constant:
            result.append(_summands(drawn(attempt.single.outputs[at]), ranks, generator))
        else:
            result.append([drawn(attempt.single.outputs[at])] * ranks)
    return result


def _gradients(outcome: Outcome, cotangents: Sequence[Tensor], without: Sequence[bool]) -> list[Tensor | None]:
    """The gradients of all inputs; outputs marked in ``without`` are left out."""
    outputs = zip(outcome.outputs, cotangents, without, strict=True)
    pairs = [(y, g) for y, g, skip in outputs if _differentiable(y) and not skip]
    roots = [root for root in outcome.roots if root.requires_grad]
    if not pairs or not roots:
        return [None for _ in outcome.roots]
    ys, gs = [y for y, _ in pairs], [g for _, g in pairs]
    return [_gradient(ys, root, gs) if root.requires_grad else None for root in outcome.roots]


def _gradient(ys: Sequence[Tensor], root: Tensor, gs: Sequence[Tensor]) -> Tensor | None:
    """The gradient of one input; None also where torch does not implement it."""
    try:
        return torch.autograd.grad(ys, root, gs, allow_unused=True, retain_graph=True)[0]
    except (RuntimeError, NotImplementedError) as problem:
        if "derivative" not in str(problem) and "not implemented" not in str(problem):
            raise Unsuitable(str(problem)) from problem
        return None


def _zero(g: Tensor | None) -> bool:
    return g is None or not bool(_dense(g).any())


def _gradient_holds(
    letter: str, per_rank: Sequence[Tensor | None], single: Tensor | None, local: bool, tolerance: float
) -> bool:
    """Whether an input of a type gets the right gradient; ``local`` outputs are V, with a loss per rank."""
    if all(_zero(g) for g in (*per_rank, single)) or letter == "V":
        return True
    if single is not None and not _finite(single):
        return True  # nothing can be said
    given = [torch.zeros_like(single) if g is None and single is not None else g for g in per_rank]
    if any(g is None for g in given):
        return False
    grads = [g for g in given if g is not None]
    if letter == "R":
        # Of local losses the gradient is their gradients' sum, which is what R's Partial gradient stands for.
        return local or (single is not None and close(_total(grads), single, tolerance))
    return not local and single is not None and all(close(g, single, tolerance) for g in grads)


def gradients_hold(claim: Sequence[AxisType], attempt: Run, seed: int) -> bool:
    """Whether every input gets the gradient that its type says, if the outputs are of the claimed types."""
    constant = [kind.constant for kind in claim]
    if any(constant) and not _no_gradient(constant, attempt, seed):
        return False
    cotangents = _cotangents(claim, attempt, seed)
    per_rank = [
        _gradients(outcome, [g[rank] for g in cotangents], constant) for rank, outcome in enumerate(attempt.ranks)
    ]
    summed = [kind.letter == "R" and not kind.constant for kind in claim]
    whole = [_total(g) if total else g[0] for total, g in zip(summed, cotangents, strict=True)]
    single = _gradients(attempt.single, whole, constant)
    local = any(kind.letter == "V" for kind in claim)
    tolerance = max((_TOLERANCE.get(y.dtype, 1e-4) for y in attempt.single.outputs if _differentiable(y)), default=0.0)
    return all(
        _gradient_holds(letter, [gradients[at] for gradients in per_rank], single[at], local, tolerance)
        for at, letter in enumerate(attempt.letters)
    )


def _no_gradient(constant: Sequence[bool], attempt: Run, seed: int) -> bool:
    """Whether outputs that are claimed constant pass no gradient on."""
    ones = [torch.ones_like(y) for y in attempt.single.outputs]
    return all(_zero(g) for g in _gradients(attempt.single, ones, [not is_constant for is_constant in constant]))


def claim_of(verdict: Verdict, outputs: Sequence[Tensor]) -> list[AxisType | None]:
    """The claimed type of each output: one per output, the last for those that follow."""
    kinds = [layout[0] for layout in verdict.results]
    return [kinds[min(at, len(kinds) - 1)] for at in range(len(outputs))]


def refuted(sample: Sample, letters: str, ranks: int, seed: int) -> str:
    """What of an accepting verdict does not hold; empty where all of it does."""
    verdict, where = verdict_on(sample, letters)
    attempt = simulate(sample, letters, ranks, seed)
    claims = claim_of(verdict, attempt.single.outputs)
    for at, kind in enumerate(claims):
        if kind is not None and not output_holds(kind, attempt, at):
            return f"output {at} is not {kind}"
    for argument, layout in verdict.mutations:
        at = where.index(argument)
        if layout[0] is not None and not written_holds(layout[0], attempt, at):
            return f"the written operand {sample.params[at]} is not {layout[0]}"
    known = [kind for kind in claims if kind is not None]
    if len(known) == len(claims) and not gradients_hold(known, attempt, seed):
        return "a gradient is not of the dual type"
    return ""


def acceptable(sample: Sample, letters: str, ranks: int, seed: int) -> str:
    """The letter of a result type with which a rejected call would have been right on this draw, or nothing."""
    verdict, where = verdict_on(sample, letters)
    attempt = simulate(sample, letters, ranks, seed)
    outputs = attempt.single.outputs
    if not outputs or not all(_finite(y) for y in outputs):
        raise Unsuitable("nothing to compare")
    for argument, _ in verdict.mutations:
        at = where.index(argument)
        if not written_holds(BY_LETTER[letters[at]], attempt, at):
            return ""
    for letter in "V" if "V" in letters else "RIP":
        claim = [BY_LETTER[letter]] * len(outputs)
        try:
            right = all(output_holds(kind, attempt, at) for at, kind in enumerate(claim))
            if right and gradients_hold(claim, attempt, seed):
                return letter
        except (RuntimeError, IndexError, Unsuitable):
            continue  # other shapes or another number of outputs on some rank; bools, which do not sum
    return ""


def _finite(x: Tensor) -> bool:
    if x.is_quantized:
        raise Unsuitable("quantised")
    return bool(torch.isfinite(_dense(x)).all())


def assignments(count: int, limit: int, generator: torch.Generator) -> Iterator[str]:
    """Assignments of types to tensors: all of them, or a random part with the telling ones."""
    if 4**count <= limit:
        yield from map("".join, product(LETTERS, repeat=count))
        return
    telling = {letter * count for letter in LETTERS}
    telling |= {"R" * at + letter + "R" * (count - at - 1) for at in range(count) for letter in "VP"}
    telling |= {"P" * at + "R" + "P" * (count - at - 1) for at in range(count)}
    chosen = sorted(telling)
    while len(chosen) < limit:
        picks = torch.randint(0, 4, (count,), generator=generator).tolist()
        chosen.append("".join(LETTERS[pick] for pick in picks))
    order = torch.randperm(len(chosen), generator=generator).tolist()
    yield from dict.fromkeys(chosen[at] for at in order[:limit])


def verdict_on(sample: Sample, letters: str) -> tuple[Verdict, list[int]]:
    """The rules' verdict on the call with those types, and where its tensors stand among the arguments."""
    call, where = call_of(sample, [BY_LETTER[letter] for letter in letters])
    return judge(call, axes=1), where
