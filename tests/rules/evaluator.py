"""Types of expressions by the rules alone: a small interpreter over Python's syntax tree, without mypy.

It knows names, calls, operators, attributes, subscripts and simple statements: enough for cases of a line or two, such
as ``F.softmax(a @ b, dim=-1)``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from spmd_mypy.rules.call import UNKNOWN, Argument, Call, Name, OptionValue, Violation
from spmd_mypy.rules.gradients import judge_loss
from spmd_mypy.rules.kinds import Layout
from spmd_mypy.rules.operations import judge
from tests.rules import signatures

AXES = 1

_MODULES = {
    "torch": "torch",
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "math": "math",
    "operator": "operator",
    "dist": "torch.distributed",
}
_BINARY = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "truediv", "FloorDiv": "floordiv", "Mod": "mod", "Pow": "pow",
    "MatMult": "matmul", "LShift": "lshift", "RShift": "rshift", "BitAnd": "and", "BitOr": "or", "BitXor": "xor",
}  # fmt: skip
_COMPARE = {"Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
_REFLECTED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_UNARY = {"USub": "neg", "UAdd": "pos", "Invert": "invert"}


@dataclass
class Tensor:
    """A tensor of some layout; ``outputs`` are all the outputs of the call that made it."""

    layout: Layout
    outputs: tuple[Layout, ...] = ()


@dataclass(frozen=True)
class Reference:
    """A dotted name: a module, a function, a dtype."""

    name: str


@dataclass(frozen=True)
class Made:
    """An instance of a class of ``torch.nn``."""

    name: str


@dataclass
class Number:
    """A Python number of unknown value."""


class Unsupported(Exception):
    """The interpreter does not know this syntax."""


@dataclass
class Evaluator:
    """One case: its variables, and what the rules found."""

    variables: dict[str, object]
    violations: list[Violation] = field(default_factory=list)
    grad: bool = True

    # ---- statements

    def run(self, source: str) -> object:
        """The value of an expression, or of ``out`` after statements."""
        for node in ast.parse(source).body:
            self.statement(node)
        return self.variables.get("out", self.variables.get("_"))

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr):
            self.variables["_"] = self.value(node.value)
        elif isinstance(node, ast.Assign):
            self.assign(node.targets[0], self.value(node.value))
        elif isinstance(node, ast.AugAssign):
            name = f"__i{_BINARY[type(node.op).__name__]}__"
            new = self.method(self.value(node.target), name, [self.value(node.value)], {})
            self.assign(node.target, new)
        elif isinstance(node, ast.With):
            before, self.grad = self.grad, "no_grad" not in ast.unparse(node.items[0])
            for inner in node.body:
                self.statement(inner)
            self.grad = before
        elif isinstance(node, ast.For):
            for item in self.items(self.value(node.iter)):
                self.assign(node.target, item)
                for inner in node.body:
                    self.statement(inner)
        else:
            raise Unsupported(ast.dump(node))

    def assign(self, target: ast.expr, value: object) -> None:
        if isinstance(target, ast.Name):
            self.variables[target.id] = value
        elif isinstance(target, ast.Subscript):
            base, index = self.value(target.value), self.value(target.slice)
            self.call("Tensor.__setitem__", [("self", base), ("indices", index), ("value", value)])
        elif isinstance(target, ast.Tuple):
            for inner, item in zip(target.elts, self.items(value, len(target.elts)), strict=True):
                self.assign(inner, item)
        else:
            raise Unsupported(ast.dump(target))

    # ---- expressions

    def value(self, node: ast.expr) -> object:
        method = getattr(self, "on_" + type(node).__name__, None)
        if method is None:
            raise Unsupported(ast.dump(node))
        return method(node)

    def on_Constant(self, node: ast.Constant) -> object:
        return node.value

    def on_Name(self, node: ast.Name) -> object:
        if node.id in self.variables:
            return self.variables[node.id]
        return Reference(_MODULES.get(node.id, f"builtins.{node.id}"))

    def on_List(self, node: ast.List) -> object:
        return [self.value(item) for item in node.elts]

    def on_Tuple(self, node: ast.Tuple) -> object:
        return tuple(self.value(item) for item in node.elts)

    def on_Slice(self, node: ast.Slice) -> object:
        return Reference("builtins.slice")

    def on_JoinedStr(self, node: ast.JoinedStr) -> object:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.value(part.value)
                if isinstance(value, Tensor):
                    self.method(value, "__format__", [], {})
        return "text"

    def on_Attribute(self, node: ast.Attribute) -> object:
        base = self.value(node.value)
        if isinstance(base, Reference):
            return Reference(f"{base.name}.{node.attr}")
        if isinstance(base, Tensor):
            if node.attr in ("shape", "dtype", "device", "ndim"):
                return Number() if node.attr == "ndim" else Reference(f"self.{node.attr}")
            return self.call(f"Tensor.{node.attr}", [("self", base)])
        if isinstance(base, list):  # a named tuple's field
            return base[0]
        raise Unsupported(ast.dump(node))

    def on_Subscript(self, node: ast.Subscript) -> object:
        base, index = self.value(node.value), self.value(node.slice)
        if isinstance(base, Tensor):
            if base.outputs and isinstance(index, int):
                return Tensor(base.outputs[min(index, len(base.outputs) - 1)])
            return self.call("Tensor.__getitem__", [("self", base), ("indices", index)])
        if isinstance(base, (list, tuple)) and isinstance(index, int):
            return base[index]
        return Number()

    def on_UnaryOp(self, node: ast.UnaryOp) -> object:
        value = self.value(node.operand)
        if isinstance(value, Tensor):
            if isinstance(node.op, ast.Not):
                return self.method(value, "__bool__", [], {})
            return self.method(value, f"__{_UNARY[type(node.op).__name__]}__", [], {})
        return -value if isinstance(value, (int, float)) and isinstance(node.op, ast.USub) else Number()

    def on_BinOp(self, node: ast.BinOp) -> object:
        return self.operator(_BINARY[type(node.op).__name__], self.value(node.left), self.value(node.right))

    def on_Compare(self, node: ast.Compare) -> object:
        return self.operator(
            _COMPARE[type(node.ops[0]).__name__], self.value(node.left), self.value(node.comparators[0])
        )

    def operator(self, name: str, left: object, right: object) -> object:
        if isinstance(left, Tensor):
            return self.method(left, f"__{name}__", [right], {})
        if isinstance(right, Tensor):
            reflected = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(
                name, name if name in _COMPARE else f"r{name}"
            )
            return self.method(right, f"__{reflected}__", [left], {})
        return Number()

    def on_Call(self, node: ast.Call) -> object:
        args = []
        for arg in node.args:
            args.extend(self.items(self.value(arg.value)) if isinstance(arg, ast.Starred) else [self.value(arg)])
        keywords = {keyword.arg or "": self.value(keyword.value) for keyword in node.keywords}
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value)
            if isinstance(base, Tensor):
                return self.method(base, node.func.attr, args, keywords)
            callee: object = Reference(f"{base.name}.{node.func.attr}") if isinstance(base, Reference) else base
        else:
            callee = self.value(node.func)
        if isinstance(callee, Made):
            return self.module(callee.name, args, keywords)
        if not isinstance(callee, Reference):
            raise Unsupported(ast.dump(node.func))
        return self.function(callee.name, args, keywords)

    # ---- calls

    def function(self, op: str, args: list[object], keywords: dict[str, object]) -> object:
        if op.startswith("torch.nn.") and op.rpartition(".")[2][:1].isupper() and op != "torch.nn.Parameter":
            return Made(op)
        if not any(map(_has_tensor, [*args, *keywords.values()])) and op.startswith(("builtins.", "math.")):
            return _python(op, args)
        if op.startswith("builtins."):
            names = ("iterable", "start") if op.endswith(".sum") else ("input", "other")
            return self.call(op, [*zip([*names, *[""] * len(args)], args, strict=False), *keywords.items()])
        if op.startswith(("operator.", "math.")):
            return self.call(op, [*zip("abc", args, strict=False), *keywords.items()])
        placed = signatures.bind(op, args, keywords)
        if placed is None:
            raise Unsupported(f"no signature of {op} takes this")
        return self.call(op, placed)

    def method(self, receiver: object, name: str, args: list[object], keywords: dict[str, object]) -> object:
        op = f"Tensor.{name}"
        if name.startswith("__"):
            return self.call(op, [("self", receiver), *(("other", value) for value in args)])
        placed = signatures.bind(op, [receiver, *args], keywords)
        if placed is None:
            raise Unsupported(f"no signature of {op} takes this")
        if name == "backward" and isinstance(receiver, Tensor):
            self.violations.extend(judge_loss(receiver.layout, ()))
            return None
        return self.call(op, placed)

    def module(self, op: str, args: list[object], keywords: dict[str, object]) -> object:
        return self.call(op, [("input", args[0]), *(("", value) for value in args[1:]), *keywords.items()])

    def call(self, op: str, placed: list[tuple[str, object]]) -> object:
        arguments: list[Argument] = []
        tensors: list[Tensor | None] = []
        options: dict[str, OptionValue] = {}
        for param, value in placed:
            for leaf in _leaves(value):
                tensors.append(leaf if isinstance(leaf, Tensor) else None)
                number = leaf if isinstance(leaf, (int, float)) else UNKNOWN
                layout = leaf.layout if isinstance(leaf, Tensor) else None
                arguments.append(Argument(param, layout, UNKNOWN if layout else number))
            if not _has_tensor(value):
                options[param] = _option(value)
        verdict = judge(Call(op, tuple(arguments), options, self.grad), axes=AXES)
        self.violations.extend(verdict.violations)
        for at, layout in verdict.mutations:
            if isinstance(tensor := tensors[at], Tensor):
                tensor.layout = layout
        return Tensor(verdict.results[0], verdict.results if len(verdict.results) > 1 else ())

    def items(self, value: object, count: int = 2) -> list[object]:
        if isinstance(value, (list, tuple)):
            return list(value)
        if isinstance(value, Tensor):
            if value.outputs:
                return [Tensor(layout) for layout in value.outputs]
            return [Tensor(value.layout) for _ in range(count)]
        raise Unsupported(f"cannot iterate {value!r}")


def _leaves(value: object) -> list[object]:
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    if isinstance(value, (Tensor, Number, int, float)):
        return [value]
    return []


def _has_tensor(value: object) -> bool:
    return any(isinstance(leaf, Tensor) for leaf in _leaves(value))


def _option(value: object) -> OptionValue:
    if value is None or isinstance(value, (int, float, str)):
        return value
    if isinstance(value, Reference):
        return Name(value.name)
    if isinstance(value, (list, tuple)):
        return tuple(_option(item) for item in value)
    return UNKNOWN


def _python(op: str, args: list[object]) -> object:
    if op == "builtins.float" and args and isinstance(args[0], str):
        return float(args[0])
    return Number()


def evaluate(source: str, inputs: Mapping[str, Layout]) -> tuple[object, list[Violation]]:
    """The value of a case's expression or of its ``out``, and all violations."""
    evaluator = Evaluator({name: Tensor(layout) for name, layout in inputs.items()})
    return evaluator.run(source), evaluator.violations
