"""What an operation that does not communicate makes of its operands' types: ``judge``.

Every axis is judged by itself: the call's operands are put into the operation's
expression of roles (``ops``), which is evaluated with the inference of ``axis``.
Calls repeat, so plans (which argument goes where) and verdicts are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from spmd_mypy.rules import foreach, shards
from spmd_mypy.rules.axis import ZERO, Clash, Node, evaluate, fits, without_gradient
from spmd_mypy.rules.call import UNKNOWN, UNTYPED, Call, Name, OptionValue, Verdict, Violation
from spmd_mypy.rules.grammar import Condition, Expression, Parameter, Rule, parameter
from spmd_mypy.rules.kinds import CONSTANT, FACTORY, AxisType, Layout, V, dual, shard
from spmd_mypy.rules.ops import Operation, find

_KEPT: Final = 1 << 14  # verdicts and plans that are kept before starting afresh

_DISCRETE_DTYPES: Final = frozenset(
    f"torch.{name}"
    for name in (
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "short", "int", "long",
        "quint8", "qint8", "qint32", "quint4x2", "BoolTensor", "ByteTensor", "CharTensor", "ShortTensor", "IntTensor",
        "LongTensor",
    )
) | {"builtins.bool", "builtins.int"}  # fmt: skip

# What the rules make of a callable that they do not know: nonlinear in all tensors.
_DEFAULT: Final = Rule(Expression("nonlinear", ()))


class Plan(NamedTuple):
    """A rule bound to the arguments of a call.

    ``node`` has positions of arguments where the rule's expression has parameters.  Positions beyond the call's
    arguments are the literal numbers in ``numbers``, which were given as options.  ``discrete`` calls give integers or
    bools; through ``gradless`` ones goes no gradient.  ``zeros`` are operands that count as nothing where they are
    fresh, or zeros for sure.
    """

    rule: Rule
    node: Node
    numbers: tuple[AxisType | None, ...]
    targets: tuple[int, ...]
    overwrite: bool
    discrete: bool
    gradless: bool
    zeros: tuple[int, ...]


def number_kind(value: OptionValue) -> AxisType:
    """The type of a Python number: constant, and a literal 0 is nothing to a sum."""
    return ZERO if isinstance(value, (int, float, complex)) and value == 0 else CONSTANT


def _literal(text: str) -> OptionValue:
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    try:
        return float(text)
    except ValueError:
        return text


def _holds(condition: Condition, given: Mapping[str, OptionValue]) -> bool:
    value = given.get(condition.option)
    if condition.operator == "given":
        return value is not None
    if condition.option not in given:
        return False
    if isinstance(value, Name):
        value = value.fullname
    return (value == _literal(condition.value)) == (condition.operator == "=")


def _given(call: Call) -> dict[str, OptionValue]:
    """Every argument by name: options with their values, numbers with theirs, tensors as UNKNOWN."""
    given = dict(call.options)
    for argument in call.arguments:
        given[argument.param] = argument.value
    return given


def _discrete_dtype(options: Mapping[str, OptionValue]) -> bool:
    names = (value.fullname if isinstance(value, Name) else value for value in options.values())
    return any(isinstance(name, str) and name in _DISCRETE_DTYPES for name in names)


class _Binder:
    """Puts a call's arguments in the place of a rule's parameters."""

    def __init__(self, call: Call, operation: Operation | None) -> None:
        self.call = call
        renamed = dict(operation.renamed) if operation else {}
        self.positions: dict[str, list[int]] = {}
        for at, argument in enumerate(call.arguments):
            self.positions.setdefault(renamed.get(argument.param, argument.param), []).append(at)
        # A module's own tensors that the call does not give are unknown; one that is given as None is not there.
        self.unknown = [
            name
            for name in (operation.parameters if operation else ())
            if name not in self.positions and call.options.get(name, UNKNOWN) is not None
        ]
        self.bound: set[int] = set()
        self.numbers: list[AxisType | None] = []

    def find(self, parameter: Parameter) -> list[int]:
        for name in parameter.names:
            if name in self.positions:
                return self.positions[name]
        return []

    def _leaf(self, parameter: Parameter) -> list[int]:
        found = self.find(parameter)
        if any(self.call.options.get(name) is UNTYPED for name in parameter.names):
            found = [*found, self._number(None)]
        if found:
            self.bound.update(found)
            return found
        for name in parameter.names:
            if name in self.unknown:
                self.unknown.remove(name)
                return [self._number(None)]
            if self.call.options.get(name) is not None:
                return [self._number(number_kind(self.call.options[name]))]
        return self._rest() if parameter.names == ("*",) else []

    def _number(self, kind: AxisType | None) -> int:
        """A place for an operand that is no argument."""
        self.numbers.append(kind)
        return len(self.call.arguments) + len(self.numbers) - 1

    def _rest(self) -> list[int]:
        """The tensors that no parameter of the rule has taken."""
        rest = [
            at
            for at, argument in enumerate(self.call.arguments)
            if argument.layout is not None and at not in self.bound and argument.param != "out"
        ]
        self.bound.update(rest)
        return rest + [self._number(None) for _ in self.unknown]

    def bind(self, expression: Expression) -> Node:
        items: list[int | Node] = []
        for item in expression.items:
            if isinstance(item, Parameter):
                items.extend(self._leaf(item))
            else:
                node = self.bind(item)
                if node[1]:
                    items.append(node)
        return expression.role, tuple(items)

    def node(self, expression: Expression) -> Node:
        """The whole expression; tensors that the rule does not name count as nonlinear operands."""
        node = self.bind(expression)
        rest = self._rest()
        if not rest:
            return node
        return ("nonlinear", (*rest, node)) if node[1] else ("nonlinear", tuple(rest))


def _targets(binder: _Binder, rule: Rule, inplace: bool) -> tuple[tuple[int, ...], bool]:
    """The arguments that the call writes to, and whether their old value is gone."""
    out = binder.positions.get("out", [])
    if out:
        return tuple(out), True
    names = rule.overwrites or rule.writes
    found = [at for name in names for at in binder.find(parameter(name))]
    if not found and inplace:
        found = binder.find(parameter("self|tensor"))
    return tuple(found), bool(rule.overwrites)


def _plan(call: Call, operation: Operation | None) -> Plan:
    operation = operation or find(call.op)
    given = _given(call)
    rule = _DEFAULT
    inplace = call.op.endswith("_") and not call.op.endswith("__")
    if operation is not None:
        inplace = operation.inplace
        rule = next(rule for rule in operation.rules if all(_holds(test, given) for test in rule.conditions))
    inplace = inplace or given.get("inplace") is True
    binder = _Binder(call, operation)
    targets, overwrite = _targets(binder, rule, inplace)
    if rule.overwrites:
        binder.bound.update(targets)
    node = binder.node(rule.expression)
    discrete = rule.results == ("discrete",) or _discrete_dtype(call.options)
    gradless = discrete or not call.grad or rule.results in (("integer",), ("detached",))
    zeros = [at for name in rule.into for at in binder.find(parameter(name))]
    zeros += [at for at, argument in enumerate(call.arguments) if argument.layout is not None and argument.value == 0]
    return Plan(rule, node, tuple(binder.numbers), targets, overwrite, discrete, gradless, tuple(zeros))


def _kinds(call: Call, plan: Plan, axis: int) -> list[AxisType | None]:
    """The operands' types on one axis, as the rule sees them."""
    kinds: list[AxisType | None] = [
        number_kind(argument.value) if argument.layout is None else argument.layout[axis] for argument in call.arguments
    ]
    if plan.gradless:
        kinds = [without_gradient(kind) for kind in kinds]
    for at in plan.targets:
        # A fresh buffer is nothing yet, so that a sum into it is what is summed.  An unknown one is like it: what
        # does not go with the written values would be an error.
        if kinds[at] is None or kinds[at] == FACTORY:
            kinds[at] = ZERO
    for at in plan.zeros:
        if kinds[at] == FACTORY:
            kinds[at] = ZERO
    kinds.extend(plan.numbers)
    return kinds


def _shard(call: Call, plan: Plan, kinds: list[AxisType | None]) -> AxisType:
    """V, or the shard that it still is: through pointwise operations beside equal shards, and renumbered by views."""
    dims = {kind.dim for kind in kinds if kind is not None and kind.letter == "V"}
    dim = dims.pop() if len(dims) == 1 else None
    if dim is None:
        return V
    if plan.rule.pointwise:
        return shard(dim)
    return shards.renumber(plan.rule.renumber, dim, call.options)


def _random(node: Node) -> bool:
    return node[0] == "random" or any(_random(item) for item in node[1] if not isinstance(item, int))


class _Axis:
    """The judgement of a call on one axis."""

    def __init__(self, call: Call, plan: Plan, axis: int, rng: str) -> None:
        self.call = call
        self.plan = plan
        self.axis = axis
        self.violations: list[Violation] = []
        self.kinds = _kinds(call, plan, axis)
        self.new = self._evaluate()
        self._randomness(rng)
        self.targets = {at: self._written(at) for at in plan.targets}

    def _refuse(self, reason: str, culprits: tuple[int, ...], written: AxisType | None = None) -> None:
        self.violations.append(Violation(reason, self.axis, culprits, written))

    def _evaluate(self) -> AxisType | None:
        try:
            kind, first = evaluate(self.plan.node, self.kinds)
        except Clash as clash:
            self._refuse(self._reason(clash), self._arguments(clash.culprits))
            return None
        if kind is None or kind.letter in ("R", "I"):
            return kind
        if kind.letter == "P":
            if not self.plan.discrete:
                return kind
            self._refuse("discrete", self._arguments((first,)))
            return None
        return _shard(self.call, self.plan, self.kinds)

    def _arguments(self, culprits: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(at for at in culprits if 0 <= at < len(self.call.arguments))

    def _reason(self, clash: Clash) -> str:
        if clash.reason != "affine":
            return clash.reason
        other = clash.culprits[1]
        number = other >= len(self.call.arguments) or self.call.arguments[other].layout is None
        return "number" if number else "affine"

    def _randomness(self, rng: str) -> None:
        """Drawn numbers make no constant; with a generator per rank they make nothing equal."""
        if self.new is None or self.new.letter in ("V", "P") or not _random(self.plan.node):
            return
        typed = [at for at, kind in enumerate(self._declared()) if kind is not None and not kind.constant]
        if typed and rng == "per-rank":
            self._refuse("per_rank", tuple(typed))
        if not typed or rng == "per-rank":
            self.new = None

    def _declared(self) -> list[AxisType | None]:
        return [None if argument.layout is None else argument.layout[self.axis] for argument in self.call.arguments]

    def _written(self, at: int) -> AxisType | None:
        """The type of a target afterwards."""
        layout = self.call.arguments[at].layout
        old = layout[self.axis] if layout is not None else None
        if self.violations:
            return old
        new = FACTORY if self.new is ZERO else self.new
        if old is None:
            # A part that is written leaves the rest unknown, unless nothing else goes with it.
            certain = self.plan.overwrite or (new is not None and new.letter in ("V", "P"))
            return new if certain else None
        if old.constant:
            return new
        if fits(old, self.new):
            return old
        source = [other for other in range(len(self.call.arguments)) if other not in self.plan.targets]
        self._refuse("inplace", (at, *source[:1]), new)
        return old

    def result(self, at: int, word: str) -> AxisType | None:
        """The type of output ``at``, for which the row says ``word``."""
        if self.violations or word == "unknown":
            return None
        if self.targets:
            written = list(self.targets.values())
            return written[min(at, len(written) - 1)]
        return self._value(word)

    def _value(self, word: str) -> AxisType | None:
        kind = self.new
        if kind is ZERO or word == "factory" and all(argument.layout is None for argument in self.call.arguments):
            return FACTORY
        if word in ("discrete", "unsummed") and kind is not None and kind.letter == "P":
            return None  # integers beside a pending sum
        if word in ("discrete", "integer", "detached", "factory"):
            return self._fresh(without_gradient(kind))
        if word == "leaf":
            return None if kind is not None and kind.constant else kind
        return self._fresh(kind)

    def _fresh(self, kind: AxisType | None) -> AxisType | None:
        """A fresh constant stays fresh through views and casts."""
        if kind == CONSTANT and self.plan.rule.view:
            tensors = [kind for kind in self._declared() if kind is not None]
            if all(kind.factory for kind in tensors):
                return FACTORY
        return kind


def _judge(call: Call, operation: Operation | None, axes: int, rng: str) -> Verdict:
    if call.op.startswith(foreach.PREFIX):
        parts = foreach.elements(call)
        if parts:
            judged = [(_judge(part, operation, axes, rng), where) for part, where in parts]
            return foreach.merged(judged, written=call.op.endswith("_"))
    plan = _plan(call, operation)
    judged = [_Axis(call, plan, axis, rng) for axis in range(axes)]
    if plan.rule.results == ("dual",):
        results = _duals(call, judged)
    else:
        results = tuple(tuple(axis.result(at, word) for axis in judged) for at, word in enumerate(plan.rule.results))
    violations = tuple(violation for axis in judged for violation in axis.violations)
    mutations = tuple((at, tuple(axis.targets[at] for axis in judged)) for at in plan.targets)
    return Verdict(results, violations, mutations)


def _duals(call: Call, judged: list[_Axis]) -> tuple[Layout, ...]:
    return tuple(
        tuple(dual(kind) for kind in argument.layout)
        for argument in call.arguments
        if argument.param == "inputs" and argument.layout is not None
    )


_verdicts: dict[object, Verdict] = {}


def _key(call: Call, operation: Operation | None, axes: int, rng: str) -> object:
    options = tuple(call.options.items()) if call.options else ()
    return call.op, call.arguments, options, call.grad, operation, axes, rng


def judge(call: Call, *, operation: Operation | None = None, axes: int = 0, rng: str = "synced") -> Verdict:
    """The verdict on a call, axis by axis.

    ``operation`` is the row of a project's own operation (``ops.custom``) instead of the table's.
    ``axes`` is the number of axes where no argument has a layout (``torch.zeros(8)``); ``rng`` is the
    configuration's word on random numbers, "synced" or "per-rank".  Any operation may be asked for: one that the
    table does not know is taken as nonlinear in all its tensors.
    """
    for argument in call.arguments:
        if argument.layout is not None:
            axes = len(argument.layout)
            break
    key = _key(call, operation, axes, rng)
    verdict = _verdicts.get(key)
    if verdict is None:
        if len(_verdicts) >= _KEPT:
            _verdicts.clear()
        verdict = _verdicts[key] = _judge(call, operation, axes, rng)
    return verdict
