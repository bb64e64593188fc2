"""Messages say what is wrong in the user's terms, and what to write instead; what they say to write passes."""

from __future__ import annotations

import inspect
import re
from typing import Final

import pytest

import spmd_runtime
from spmd_mypy.hooks import miscalls
from tests.mypy_runner import PRELUDE, Message, check, mismatches

IMPORTS: Final = f"""{PRELUDE}
import copy
from spmd_runtime import all_gather, all_reduce, all_to_all, broadcast, convert, reduce_scatter, reinterpret
"""
PARAMETERS: Final = (
    "p: Tensor[P[TP]], q: Tensor[P[TP]], r: Tensor[R[TP]], i: Tensor[I[TP]], v: Tensor[V[TP]], s: Tensor[S[TP, 0]], "
    "pd: Tensor[R[DP], P[TP]], sd: Tensor[R[DP], S[TP, 1]], w: Tensor[R[TP]], dp: Group[DP], tp: Group[TP], "
    "ps: list[Tensor[P[TP]]], pair: tuple[Tensor[P[TP]], int], two: tuple[Tensor[P[TP]], Tensor[R[TP]]], "
    "param: Parameter[I[TP]]"
)
# What is wrong, and what may be written instead: its collective stands so in the message, or what is given beside it.
REMEDIES: Final[dict[str, list[str | tuple[str, str]]]] = {
    # The axis is wrong: the one is named on which the tensor is what the collective starts from.
    "all_reduce(pd, DP, dst=R)": ["all_reduce(pd, TP, dst=R)"],
    'all_reduce(pd, "dp", dst=R)': ["all_reduce(pd, TP, dst=R)"],
    "reduce_scatter(pd, dp, dst=S(0))": ["reduce_scatter(pd, TP, src=P, dst=S(0))"],
    "all_gather(sd, DP, dst=R)": ["all_gather(sd, TP, src=S(1), dst=R)"],
    "dist.all_reduce(pd.clone(), group=dp)": [],
    # So is the collective, or its src or dst.
    "all_gather(p, TP, dst=R)": ["all_reduce(p, TP, dst=R)"],
    "all_gather(s, TP, src=S(1), dst=R)": ["all_gather(s, TP, src=S(0), dst=R)"],
    "convert(v, TP, src=V, dst=R)": ["all_reduce(v, TP, src=P, dst=R)", "all_gather(v, TP, src=V, dst=R)"],
    "convert(s, TP, src=V, dst=R)": ["all_gather(s, TP, src=S(0), dst=R)"],
    "convert(s, tp, src=S(0), dst=S(1))": ["all_to_all(s, tp, src=S(0), dst=S(1))"],
    "all_reduce(r, TP, src=V, dst=V)": ["convert(r, TP, src=R, dst=V)"],
    # A sum beside a cut is cut alike, unless it broadcasts.
    "p + s": ["reduce_scatter(p, TP, dst=S(0)) + s", "all_reduce(p, TP, dst=R) + s"],
    "torch.where(s > 0, s, p)": ["torch.where(s > 0, s, reduce_scatter(p, TP, dst=S(0)))"],
    "s += p": ["s += reduce_scatter(p, TP, dst=S(0))"],
    "p += s": ["q = reduce_scatter(p, TP, dst=S(0)); q += s"],
    "p + v": ["all_reduce(p, TP, dst=R) + v", "reduce_scatter(p, TP, dst=S(0)) + v"],
    "s @ p": ["s @ all_reduce(p, TP, dst=R)"],
    # In place: another value, or another target.
    "r.copy_(v)": ["r.copy_(all_reduce(v, TP, src=P, dst=R))", "r.copy_(all_gather(v, TP, src=V, dst=R))"],
    "r.add_(v)": ["r.add(v)", "r.add_(all_reduce(v, TP, src=P, dst=R))"],
    "r += v * 2": ["r + (v * 2)"],
    "r[0] = v": ["out: Tensor[V[TP]] = torch.empty_like(r)", "r[0] = all_reduce(v, TP, src=P, dst=R)"],
    "torch.mul(r, v, out=r)": [("leave out= out", "torch.mul(r, v)")],
    "i *= r": ["convert(i, TP, src=I, dst=R) * r"],
    "p.relu_()": ["all_reduce(p, TP, dst=R).relu_()", ("or dst=I", "all_reduce(p, TP, dst=I).relu_()")],
    "F.relu(p, inplace=True)": ["F.relu(all_reduce(p, TP, dst=R), inplace=True)"],
    "p.fill_(1.0)": ["torch.full_like(p, 1.0)"],
    "v.copy_(p)": ["v.copy_(all_reduce(p, TP, dst=R))", "v.copy_(reduce_scatter(p, TP, dst=S(0)))"],
    "p @ p.T": ["all_reduce(p, TP, dst=R) @ p.T"],
    "i + v": ["convert(i, TP, src=I, dst=R) + v", ("i.detach()", "i.detach() + v")],
    "i + p": ["i + all_reduce(p, TP, dst=I)"],
    "i + all_reduce(p * 2, TP, dst=R)": [("write dst=I in all_reduce (", "i + all_reduce(p * 2, TP, dst=I)")],
    # Boundaries.
    "y: list[Tensor[R[TP]]] = ps": ["y: list[Tensor[R[TP]]] = [all_reduce(x, TP, dst=R) for x in ps]"],
    "y: tuple[int, Tensor[R[TP]]] = (1, p * 2)": ["y: tuple[int, Tensor[R[TP]]] = (1, all_reduce(p * 2, TP, dst=R))"],
    "y: tuple[Tensor[R[TP]], int] = pair": ["y: tuple[Tensor[R[TP]], int] = (all_reduce(pair[0], TP, dst=R), 1)"],
    "y: Tensor[S[TP, 0]] = all_reduce(p, TP, dst=R)": ["y: Tensor[S[TP, 0]] = reduce_scatter(p, TP, src=P, dst=S(0))"],
    "y: Tensor[I[TP]] = reduce_scatter(p, TP, dst=S(0))": ["y: Tensor[I[TP]] = all_reduce(p, TP, dst=I)"],
    "y: Tensor[S[TP, 1]] = all_gather(s, TP, src=S(0), dst=R)": [
        "y: Tensor[S[TP, 1]] = all_to_all(s, TP, src=S(0), dst=S(1))"
    ],
    "y: dict[str, Tensor[R[TP]]] = {'a': p}": ["y: dict[str, Tensor[R[TP]]] = {'a': all_reduce(p, TP, dst=R)}"],
    "y: Tensor[R[TP]] = copy.deepcopy(p)": ["y: Tensor[R[TP]] = all_reduce(copy.deepcopy(p), TP, dst=R)"],
}
_COLLECTIVE: Final = re.compile(
    r"(?:all_\w+|reduce_scatter|convert|reinterpret)\([\w.()\[\]* ]+, [^()]*(?:S\(\d\)[^()]*)*\)"
)


def found(statements: list[str]) -> dict[str, list[Message]]:
    """The messages for each statement, which stands in a function of its own."""
    source, lines = IMPORTS, {}
    for number, statement in enumerate(statements):
        source += f"def f{number}({PARAMETERS}) -> None:\n    {statement}\n"
        lines[source.count("\n")] = statement
    by_statement: dict[str, list[Message]] = {statement: [] for statement in statements}
    for message in check(source):
        by_statement[lines[message.line]].append(message)
    return by_statement


def test_every_mistake_is_one_report() -> None:
    for statement, messages in found([s for s in REMEDIES if not s.startswith("dist.")]).items():
        assert [m.severity for m in messages].count("error") == 1, (statement, messages)


def test_what_is_to_be_written_instead_is_said() -> None:
    for statement, messages in found(list(REMEDIES)).items():
        said = "\n".join(m.message for m in messages)
        for remedy in REMEDIES[statement]:
            calls = [remedy[0]] if isinstance(remedy, tuple) else _COLLECTIVE.findall(remedy) or [remedy]
            assert all(call in said for call in calls), (statement, calls, said)


def test_what_is_to_be_written_instead_passes() -> None:
    written = [remedy if isinstance(remedy, str) else remedy[1] for all_ in REMEDIES.values() for remedy in all_]
    for statement, messages in found(written).items():
        assert messages == [], (statement, messages)


TEXTS: Final = [
    ("all_reduce(pd, DP, dst=R)", "pd is P on TP, not on DP: all_reduce(pd, TP, dst=R) (backward: all_reduce)"),
    ("all_reduce(pd, DP, dst=R)", "if DP is meant: pd is R on DP already: leave all_reduce out"),
    ("r.copy_(v)", "copy_ makes r Varying on TP in place, but r is Replicate there: others still see Replicate"),
    ("r.copy_(v)", "or use v itself where r is used"),
    ("r.data.add_(v)", "or make a new tensor: r.add(v)"),
    ("all_gather(v, TP, src=S, dst=R)", "all_gather: src=S does not say which tensor dim is cut: write src=S(0)"),
    ("reduce_scatter(p, TP, dst=spmd.S)", "dst=spmd.S does not say which tensor dim is cut: write dst=spmd.S(0)"),
    ("dist.all_reduce(pd, group=dp)", "pd is P on TP, not on DP: is another group meant?"),
    ("i * r", "i is Invariant on TP and r is Replicate: the gradient of i would differ by rank"),
    ("i * r", "if i holds integers or a mask, which have no gradient: i.detach()"),
    (
        "if p.sum() > 0: pass",
        "> is nonlinear and p.sum() is Partial on TP: each rank would apply it to its summand, not",
    ),
    ("r.sum().backward()", "backward starts at r.sum(), which is Replicate on TP, neither Invariant nor Partial"),
    ("p.relu_()", "relu_ is nonlinear and p is Partial on TP: relu of a pending sum is not the sum of relus"),
    ("dist.all_reduce(p, group=tp)", "on the result of all_reduce(p, TP, dst=R) (backward: all_reduce)"),
    # What stands in a container is named by it.
    ("nn.utils.clip_grad_norm_(ps, 1.0)", "clip_grad_norm_ is nonlinear and ps[...] is Partial on TP"),
    ("torch.cat([*ps, r])", "reduce first: all_reduce(ps[...], TP, dst=R)"),
    ("torch.stack(two)", "two[0] is Partial on TP and two[1] is not: two[1] would be summed once per rank"),
    # Long operands are shortened where they have brackets, and stay calls that can be read.
    (
        "F.gelu(F.linear(p, w).view(p.shape[0], p.shape[1], p.shape[2] * 2).contiguous())",
        "reduce first: all_reduce(F.linear(...).view(...).contiguous(), TP, dst=R) (backward: all_reduce)",
    ),
]


def test_a_hint_that_would_be_wrong_is_not_given() -> None:
    """A parameter has a gradient; what is added to a pending sum would be summed once per rank."""
    for statement, messages in found(["param * v", "i + p", "F.linear(i, v)"]).items():
        assert messages and not any("detach" in m.message for m in messages), (statement, messages)


def test_arguments_with_stars_are_not_advised_as_one() -> None:
    """``**{"a": p}``: what stands after the stars is no tensor."""
    source = f"{IMPORTS}\ndef k(*args: Tensor[R[TP]], **named: Tensor[R[TP]]) -> None: ...\n"
    source += f"def f({PARAMETERS}) -> None:\n    k(*ps)\n    k(**{{'a': p}})\n"
    messages = check(source)
    assert [m.code for m in messages] == ["spmd-arg", "spmd-arg"]
    assert all(m.message.endswith("; on TP it is P, declared R") for m in messages), messages


def test_texts() -> None:
    messages = found(list(dict.fromkeys(statement for statement, _ in TEXTS)))
    for statement, text in TEXTS:
        assert any(text in m.message for m in messages[statement]), (statement, messages[statement])


SPELLINGS: Final = [
    ("Tensor[S(0)]", "not the value S(0): write S[TP, 0]"),
    ("Tensor[V[DP], spmd.S(-1)]", "not the value spmd.S(-1): write S[TP, -1]"),
    ("'Tensor[S(0)]'", "not the value S(0): write S[TP, 0]"),
    ("Tensor[V(DP)]", "not the value V(DP): write V[DP]"),
    ('Tensor[V["tp"]]', 'in types an axis is its class: write V[TP], not V["tp"]'),
    ('Tensor[S["tp", 0]]', "write S[TP, ...]"),
    ("Tensor[V[tp]]", "write V[TP], not V[tp]"),
    ('Tensor["tp"]', 'write Tensor[V[TP]], not Tensor["tp"]'),
    ('Group["tp"]', 'write Group[TP], not Group["tp"]'),
    ("Tensor[TP]", "not the axis alone: R[TP], I[TP], V[TP], P[TP] or S[TP, 0]"),
    ("Tensor[S[0]]", "0 is not a mesh axis; the axis stands first: S[TP, 0], say"),
    ("Tensor[V[DP, TP]]", "V takes one axis, and a tensor one type for each: Tensor[V[DP], V[TP]], say"),
    ("Tensor[V[TP] | R[TP]]", "for either write Tensor[V[TP]] | Tensor[R[TP]]"),
]


def test_an_operand_behind_other_characters_is_right_or_not_named() -> None:
    """mypy's columns are off behind characters beyond ASCII; a message must not name another operand by them."""
    source = f"""{IMPORTS}
def f(head: Tensor[P[TP]], tail: Tensor[R[TP]]) -> None:
    x = "äöü"; torch.relu(head)
    y = "→→→→→→→→→→→→", torch.relu(
        head)
    torch.relu(head), "äöü"
"""
    texts = [message.message for message in check(source) if message.severity == "error"]
    assert len(texts) == 3
    assert all(" head is Partial" in text or " input is Partial" in text for text in texts), texts


def test_misspelled_types() -> None:
    source = IMPORTS.replace("from __future__ import annotations\n", "")
    first = source.count("\n") + 1
    source += "".join(f"def f{n}(x: {spelling}) -> None: ...\n" for n, (spelling, _) in enumerate(SPELLINGS))
    source += "def g() -> None:\n    Act = Tensor[V[DP], S(0)]\n"
    messages = [m for m in check(source) if m.severity == "error"]
    places = [
        *enumerate(SPELLINGS, first),
        (source.count("\n"), ("Act", "in types write S[TP, 0], not the value S(0)")),
    ]
    for line, (spelling, text) in places:
        here = [m for m in messages if m.line == line]
        assert [m.code for m in here] == ["spmd-annotation"], (spelling, here)
        assert text in here[0].message, here


ONCE: Final = f"""{IMPORTS}
def scale(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return x * 2
def again(p: Tensor[P[TP]], q: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]]) -> None:
    scale(copy.deepcopy(v))  # E: spmd-arg
    for f in (scale, scale):
        p = f(p)  # E: spmd-arg
    for _ in range(3):
        F.gelu(q)  # E: spmd-partial
        q = all_reduce(q, TP, dst=R)  # E: spmd-collective
    torch._foreach_add_([r, r], [v, v])  # E: spmd-inplace
    torch._foreach_add_(  # E: spmd-inplace
        [r],
        [v],
    )
"""


def test_one_mistake_is_one_report() -> None:
    assert mismatches({"once": ONCE}) == []
    lines = [m.line for m in check(ONCE) if m.severity == "error"]
    assert len(lines) == len(set(lines))


MISCALLS: Final = [
    ("all_reduce(p, TP)", "all_reduce needs dst: R (backward: all_reduce) or I (backward: nothing)"),
    ("all_reduce(p, dst=R)", "all_reduce needs an axis, or its group, as the second argument"),
    ("all_reduce(p, TP, P, R)", "takes src and dst by name: all_reduce(p, TP, src=P, dst=R)"),
    (
        "all_reduce(p, group=tp, dst=R)",
        "has no argument group: the group is the second argument, all_reduce(p, tp, ...)",
    ),
    ("all_gather(s, TP, dim=0, dst=R)", "has no argument dim: src=S(0) or dst=S(0) says along which dim"),
    ("all_reduce(p, TP, dst=R, op=dist.ReduceOp.MAX)", "has no argument op: a sum is all that it does"),
    ("all_reduce(3.0, TP, dst=R)", "all_reduce takes a tensor, and 3.0 is a float"),
    ("all_reduce([p, q], TP, dst=R)", "takes a tensor, and [p, q] is a list; of several at once: all_reduce_coalesced"),
    ("reduce_scatter(p, TP(), dst=S(0))", "reduce_scatter takes the axis as a class: TP, not TP()"),
    ("all_reduce(p, (DP, TP), dst=R)", "all_reduce goes over one axis, and (DP, TP) are several"),
    ("all_reduce(p, 0, dst=R)", "all_reduce takes an axis, its name or its group, and 0 is an int"),
    ('reduce_scatter(p, TP, dst="V")', 'reduce_scatter takes the type itself: dst=V, not dst="V"'),
    ("all_gather(s, TP, src=0, dst=R)", "all_gather takes R, I, V, P or S(i) for src, and 0 is an int"),
    ('all_reduce(p, TP, dst=R, out_dtype="bf16")', "takes a torch.dtype for out_dtype: torch.bfloat16, not 'bf16'"),
    ("spmd.redistribute(v, TP, dst=R)", "redistribute needs src, the type that the tensor has"),
    ("reduce_scatter(p, TP, dst=S[TP, 0])", "dst=S[TP, 0] is a type for annotations: write dst=S(0)"),
]


def test_a_call_that_fits_no_overload_says_what_is_wrong_with_it() -> None:
    messages = found([statement for statement, _ in MISCALLS])
    for statement, text in MISCALLS:
        (message,) = messages[statement]
        assert (message.code, message.severity) == ("spmd-collective", "error")
        assert text in message.message


@pytest.mark.parametrize("op", sorted(miscalls.ARGUMENTS))
def test_the_arguments_of_a_collective(op: str) -> None:
    assert set(miscalls.ARGUMENTS[op]) == set(inspect.signature(getattr(spmd_runtime, op)).parameters)


INTERNAL: Final = f"""{IMPORTS}
from typing import Generic, TypeVar
from spmd_runtime.types import SpmdType
K = TypeVar("K", bound=SpmdType[TP])
class Holder(Generic[K]): ...
def one(x: Tensor[K], y: Tensor[K]) -> Tensor[K]:
    return x
def leak(x: Tensor[P[TP]], tp: Group[TP], flag: bool, h: Holder[R[TP]], v: Tensor[V[TP]]) -> None:
    y = x.clone()
    if flag:
        handle = dist.all_reduce(y, group=tp, async_op=True)
    y * 2
    y.foo
    reveal_type(y)
    a: Holder[P[TP]] = h
    b: Holder[V[DP]]
    c: int = one
    z = torch.zeros(3)
    d: int = z if flag else v
    one("a", z)
    reveal_type(h)
"""


@pytest.mark.parametrize("name", ["InFlight", "Constant", "Replicate[", "Partial[", "Varying[", "[tuple[", "SpmdType["])
def test_no_internal_name_shows(name: str) -> None:
    shown = [m.message for m in check(INTERNAL) if name in m.message and '"SpmdType[TP]"' not in m.message]
    assert shown == []
