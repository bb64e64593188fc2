"""What may stand where a type is declared, by the rules; compared are types as mypy prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spmd_mypy.rules.collectives import same_dim
from spmd_mypy.rules.kinds import AxisType
from spmd_mypy.spelling import Slot, Spelled, slot_of


def accepts_slot(got: AxisType | None, want: AxisType | None) -> bool:
    """Whether a tensor of type ``got`` may stand where ``want`` is declared, on one axis."""
    if got is None or want is None or want.constant or got.factory:
        return True
    if got.constant:
        return want.letter in ("R", "I")
    if got.letter != want.letter:
        return got.letter == "V" and got.dim is None and want.letter == "P"
    return got.dim is None or want.dim is None or same_dim(got.dim, want.dim)


def pairs(got: Spelled, want: Spelled) -> Iterator[tuple[Slot, Slot]]:
    """The slots of two tensors, axis by axis; none where one has no layout."""
    got_slots, want_slots = got.slots(), want.slots()
    if got_slots is not None and want_slots is not None:
        yield from zip(map(slot_of, got_slots), map(slot_of, want_slots), strict=False)


def _open_axes(members: list[Spelled]) -> set[int] | None:
    """Axes on which some tensor of a union is unknown; None where one is unknown altogether."""
    axes: set[int] = set()
    for member in members:
        slots = member.slots()
        if slots is None:
            return None
        axes.update(i for i, slot in enumerate(slots) if slot_of(slot).kind is None)
    return axes


def _accepts_tensor(got: Spelled, want: Spelled, open_axes: set[int]) -> bool:
    """Whether a tensor fits on all but some axes."""
    return all(i in open_axes or accepts_slot(a.kind, b.kind) for i, (a, b) in enumerate(pairs(got, want)))


def _accepts_tensors(got: list[Spelled], want: list[Spelled], layouts: bool) -> bool:
    """Whether a union of tensors fits; on an axis where one member is unknown the union is unknown."""
    open_axes = _open_axes(got) if layouts else None
    return all(
        any(_same_class(t, w) and (open_axes is None or _accepts_tensor(t, w, open_axes)) for w in want) for t in got
    )


def _same_class(got: Spelled, want: Spelled) -> bool:
    return got.short == want.short or (want.short == "Tensor" and got.is_tensor)


def accepts(got: Spelled, want: Spelled, *, layouts: bool = True) -> bool:
    """Whether ``got`` may stand where ``want`` is declared; with ``layouts=False`` as if no tensor had a layout."""
    if got == want or want.name == "Any" or any(member.name == "Any" for member in got.members):
        return True  # what joins with unknown is unknown
    tensors = [m for m in got.members if m.is_tensor]
    wanted = [m for m in want.members if m.is_tensor]
    rest = _merged([m for m in got.members if not m.is_tensor])
    if not _accepts_tensors(tensors, wanted, layouts):
        return False
    return all(any(_accepts_other(m, w, layouts) for w in want.members) for m in rest)


def _merged(members: list[Spelled]) -> list[Spelled]:
    """One container of unions for the containers in a union: what joins with unknown is unknown."""
    alike: dict[tuple[str, int], list[Spelled]] = {}
    for member in members:
        alike.setdefault((member.name, len(member.args)), []).append(member)
    merged = []
    for (name, _), group in alike.items():
        columns = zip(*(member.args for member in group), strict=True)
        merged.append(group[0] if len(group) == 1 else Spelled(name, tuple(map(_union, columns))))
    return merged


def _union(types: tuple[Spelled, ...]) -> Spelled:
    members = tuple(dict.fromkeys(member for t in types for member in t.members))
    return members[0] if len(members) == 1 else Spelled("|", members)


def _accepts_other(got: Spelled, want: Spelled, layouts: bool) -> bool:
    if got == want:
        return True
    if got.short != want.short and got.short not in _NARROWER.get(want.short, ()):
        return False
    if len(got.args) != len(want.args):
        return False
    return bool(got.args) and all(accepts(a, b, layouts=layouts) for a, b in zip(got.args, want.args, strict=True))


_NARROWER: Final = {
    "Sequence": ("list", "tuple"),
    "Iterable": ("list", "tuple", "set", "Sequence", "Iterator", "Generator"),
    "Collection": ("list", "tuple", "set", "Sequence"),
    "Mapping": ("dict",),
}
