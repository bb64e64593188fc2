"""mypy's own complaints about arguments, returns and assignments, where layouts are what differs.

A filter sees every error that mypy is about to record.  It drops what the rules accept (V where P is declared, a
fresh constant anywhere, what is unknown), gives the rest a code of ours, prints the types as users write them, and says
what to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from mypy.errorcodes import ErrorCode
from mypy.options import Options

from spmd_mypy import codes
from spmd_mypy.hooks import miscalls, nominal, overloads
from spmd_mypy.hooks.acceptance import accepts, accepts_slot, pairs
from spmd_mypy.hooks.complaints import code_for, compared, items, part_of, quoted_last
from spmd_mypy.hooks.misspelled import Misspelled
from spmd_mypy.hooks.said import Said
from spmd_mypy.patterns import lazily
from spmd_mypy.rules.conversions import conversions, redirected
from spmd_mypy.rules.kinds import AxisType
from spmd_mypy.source import entry_value, line_of, lines_of, shortened, text_between
from spmd_mypy.spelling import Slot, Spelled, is_kind, kind_of, prettify, prettify_classes, prettify_kinds
from spmd_mypy.unmarked import brought_about, unmark

# Frequent, and without a type in them; most are never shown.
_NEVER_OURS: Final = frozenset({"explicit-override", "mutable-override", "import-untyped", "no-untyped-def"})
_STARRED: Final = lazily(r'incompatible type "\*')
_FOREACH: Final = lazily(r"\b_foreach_\w+\(")
_PLAIN_TARGET: Final = lazily(r"\s*(\w+)\s*=(?!=)")
_CONTAINERS: Final = lazily(r'has type "(ModuleList|ModuleDict|Sequential|ParameterList|ParameterDict)\[')
_REDEFINE: Final = (
    'set "allow_redefinition = true" in the mypy configuration to let a name take a new type when it is re-assigned, '
    "or use a new name"
)


def _one_value(spelled: Spelled) -> Spelled:
    """The type with R written for I."""
    name = "Replicate" if spelled.short == "Invariant" else spelled.name
    return Spelled(name, tuple(map(_one_value, spelled.args)))


_SHARD: Final = lazily(r"\b(?:S|Shard)\[[\w.\"']+,\s*-?\d+\s*\]")


def _shard_in_alias(file: str, error: Any) -> bool | None:
    """``Act = Tensor[S[TP, 0]]``: as an expression mypy asks for Literal[0]; as the type that it is, it is fine."""
    if not error.message.startswith("Invalid type: try using Literal["):
        return None
    return True if _SHARD.search(line_of(file, error.line)) else None


# ---- the filter


class Failure(NamedTuple):
    """An error that a hook has reported, with its notes."""

    file: str | None
    line: int
    code: ErrorCode
    message: str
    notes: tuple[str, ...]
    end_line: int | None = None


class Flow(Protocol):
    """What is known of variables where an error stands."""

    def branch(self, name: str, line: int, axis: str, kind: AxisType) -> str:
        """Words that say which branch makes the variable ``name`` what it is."""

    def follow(self, error: Any) -> bool:
        """Whether an assignment gives something undeclared a new type, which it has from then on."""

    def refilled(self, error: Any) -> None:
        """An attribute is assigned a container of other elements, which it holds from then on."""

    def overloaded(self, error: Any) -> overloads.Verdict:
        """What is wrong with a call of which mypy says that no overload fits."""

    def fits_none(self, error: Any) -> bool:
        """Whether it fits none for sure, whatever the layouts are."""


class Boundaries:
    """The error filter: ``keep(file, error)`` edits an error in place, or returns True to drop it."""

    def __init__(
        self,
        options: Options,
        without_autograd: Callable[[Any], bool] | None = None,
        axes: Sequence[str] = (),
        flow: Flow | None = None,
    ) -> None:
        """``without_autograd`` says of an error whether it stands where no gradient flows (an autograd.Function).

        ``axes`` are the names of the configured axes' classes; ``flow`` knows what happens to variables.
        """
        self._flow = flow
        self._nominals = nominal.concerned(axes)
        self._misspelled = Misspelled(axes)
        self._kind = kind_of(axes)
        self._redefinition = bool(getattr(options, "allow_redefinition", False))
        self._without_autograd = without_autograd
        self._file = ""
        self._dropped: Any = None
        self._fine: set[tuple[str, str]] = set()  # complaints in words that were found to be none
        self._failed: Failure | None = None
        self._last_failed: Failure | None = None
        self._overloaded: Any = None
        self._said = Said()

    def begin(self) -> None:
        """mypy starts to record errors: what was said before is not said any more."""
        self._file, self._dropped, self._overloaded, self._failed, self._last_failed = "", None, None, None, None
        self._said.clear()

    def failed(self, failure: Failure) -> None:
        """Remember an error that a hook reports: while mypy tries overloads it is kept from being recorded."""
        self._failed = self._last_failed = failure

    def __call__(self, file: str, error: Any) -> bool:
        if error.code is not None and error.code.code in _NEVER_OURS:
            return False
        if file != self._file:  # what was said of a line is not said of another file's
            self._file, self._dropped, self._overloaded = file, None, None
            self._said.clear()
        try:
            if brought_about(file, error):
                self._dropped = error
                return True
            error.message = unmark(error.message)
            if self._failed and (error.line, error.message) == (self._failed.line, self._failed.message):
                self._failed = None  # recorded after all
            if self._filter(file, error):
                return True
            again = self._said.again(error)
            if again:
                self._dropped = error
            return again
        except Exception:  # a message of an unforeseen shape stays as mypy wrote it
            return False

    def _filter(self, file: str, error: Any) -> bool:
        parent = getattr(error, "parent_error", None)
        if self._dropped is not None and (parent is self._dropped or self._explains(error)):
            return True
        steps = (self._overload, self._foreach, self._nominal, self._type_variable, self._refilled, _shard_in_alias)
        for step in (*steps, self._misspelled.keep):
            verdict = step(file, error)
            if verdict is not None:
                return verdict
        if "[tuple[" in error.message or "[Any]" in error.message:
            verdict = self._layouts(file, error)
            if verdict:
                return True
        if "[A_co" in error.message:
            error.message = prettify_classes(error.message)
        if self._kind.search(error.message):
            error.message = prettify_kinds(error.message)
        return False

    def _overload(self, file: str, error: Any) -> bool | None:
        """A collective has overloads: where a hook's error failed them all, that error is what to say."""
        failed = self._failed and self._failed[:2] == (file, error.line)
        none = error.message.startswith(overloads.NO_VARIANT) and not failed
        if miscalls.announced(error):
            return True
        if none and (wrong := miscalls.explain(file, error)):
            error.code, error.message, self._dropped = codes.COLLECTIVE, wrong, error
            return False
        if error.message.startswith(overloads.NO_VARIANT) and failed and not self._takes_none(error):
            assert self._failed is not None
            self._overloaded, error.code, error.message = error, self._failed.code, self._failed.message
            return False
        variants = error.message.startswith(("Possible overload variant", "    def "))
        if variants and error.severity == "note" and self._overloaded is not None:
            return self._variant(error) if self._overloaded.line == error.line else None
        return None

    def _takes_none(self, error: Any) -> bool:
        """Whether the call fits no overload for sure: that the hook failed it, too, is not what matters then."""
        if self._flow is None or not self._flow.fits_none(error):
            return False
        self._failed = None
        return True

    def _nominal(self, file: str, error: Any) -> bool | None:
        """Classes of ours by name, where no layout is in play."""
        if self._nominals.search(error.message) is None:
            return None
        verdict = nominal.keep(file, error)
        self._dropped = error if verdict else self._dropped
        return verdict

    def _refilled(self, file: str, error: Any) -> bool | None:
        """``model.layers = nn.ModuleList([Other()])``: nobody has declared of what the container is."""
        types = _CONTAINERS.findall(error.message) if error.code is not None and error.code.code == "assignment" else []
        if len(types) != 2 or types[0] != types[1]:
            return None
        self._dropped = error
        if self._flow is not None:
            self._flow.refilled(error)
        return True

    def _foreach(self, file: str, error: Any) -> bool | None:
        """``torch._foreach_add_([x], [y])``: where a hook refuses the lists, mypy asks for numbers, too."""
        failed = self._last_failed
        if failed is None or failed.file != file or error.code is None or error.code.code != "list-item":
            return None
        within = failed.line <= error.line <= (failed.end_line or failed.line)
        return True if within and _FOREACH.search(" ".join(lines_of(file)[failed.line - 1 : error.line])) else None

    @staticmethod
    def _type_variable(file: str, error: Any) -> bool | None:
        """A type variable for one axis that may not take this kind."""
        if error.code is None or error.code.code != "type-var" or not is_kind(quoted_last(error.message)):
            return None
        error.code, error.message = codes.ARG, prettify_kinds(error.message)
        return False

    def _layouts(self, file: str, error: Any) -> bool:
        """A complaint in which tensors are printed: drop it, or give it our code and say what to call."""
        code = error.code.code if error.code is not None else ""
        if (code, error.message) in self._fine:
            self._dropped = error
            return True
        if error.message.startswith(overloads.NO_VARIANT):
            return self._no_variant(error)
        advice = ""
        if types := compared(error, code):
            got, want = types
            if self._accepted(error, code, got, want):
                self._dropped = error
                return True
            ours = code_for(error, code)
            if ours is not None and accepts(got, want, layouts=False):
                if code == "assignment" and self._redefinition and self._flow is not None and self._flow.follow(error):
                    self._dropped = error
                    return True
                error.code = ours
                advice = self._advice(file, error, code, got, want)
        error.message = prettify(error.message) + advice
        return False

    def _no_variant(self, error: Any) -> bool:
        """A call of which mypy says that no overload fits: its code is ours where the layouts are at fault."""
        verdict = overloads.Verdict.OTHER if self._flow is None else self._flow.overloaded(error)
        if verdict is overloads.Verdict.NOTHING:
            self._dropped = error
            return True
        if verdict is overloads.Verdict.LAYOUTS:
            error.code = codes.ARG
        error.message = prettify(error.message)
        return False

    def _accepted(self, error: Any, code: str, got: Spelled, want: Spelled) -> bool:
        """Whether the rules have nothing against what mypy complains about."""
        if code == "assert-type":
            return _same(got, want)
        if code_for(error, code) is None:
            return False
        if accepts(got, want):
            self._fine.add((code, error.message))
            return True
        # Where no gradient flows, R and I both just say that the ranks have the same value.
        unbound = code == "return-value" and self._without_autograd is not None and self._without_autograd(error)
        return unbound and accepts(_one_value(got), _one_value(want))

    def _variant(self, error: Any) -> bool:
        """mypy's list of overloads below an error of ours: our notes instead."""
        if not self._failed or not self._failed.notes:
            return True
        error.message, self._failed = self._failed.notes[0], self._failed._replace(notes=self._failed.notes[1:])
        return False

    def _explains(self, error: Any) -> bool:
        """Whether a note belongs to the error just dropped: mypy adds hints on invariance without saying to what."""
        return (
            error.severity == "note"
            and error.line == self._dropped.line
            and any(
                hint in error.message
                for hint in ("is invariant -- see", "which is covariant", "overload variant", "    def ")
            )
        )

    def _advice(self, file: str, error: Any, code: str, got: Spelled, want: Spelled) -> str:
        difference = first_difference(got, want)
        if difference is None:
            return ""
        have, need = difference
        assert have.kind is not None and need.kind is not None
        text = f"; on {have.axis} it is {have.kind}, declared {need.kind}"
        written = text_between(file, error.line, error.column, error.end_line, error.end_column) or "x"
        written = entry_value(written) if code == "dict-item" else written.removeprefix("yield ")
        name = shortened(written)
        starred = _STARRED.search(error.message)
        # Else the text is a tuple or list around it.
        whole = all(member.is_tensor for member in got.members) and not starred
        advice = None
        if code == "assignment" and self._redefinition and (variable := _assigned_again(file, error)):
            return f"{text}; {variable} keeps the type that it is declared with: give this value a name of its own"
        if whole:
            advice = redirected(written, have.kind, need.kind) or conversions(have.kind, need.kind, have.axis, name)
        elif (
            not starred
            and (part := part_of(written, [first_difference(*pair) is not None for pair in items(got, want)]))
            is not None
        ):
            advice = conversions(have.kind, need.kind, have.axis, part.name)
            advice = f"{part.words}{advice}" if advice else None
        if advice:
            text += f": {advice}"
        if self._flow is not None and len(got.members) > 1 and whole:
            text += self._flow.branch(name, error.line, have.axis, have.kind)
        if code == "assignment" and not self._redefinition:
            text += f"; {_REDEFINE}"
        return text


def _assigned_again(file: str, error: Any) -> str | None:
    """The name that is assigned to without a declaration on this line; its declaration stands elsewhere."""
    found = _PLAIN_TARGET.match(line_of(file, error.line))
    return found[1] if found else None


def _same(got: Spelled, want: Spelled) -> bool:
    """Whether two types print alike to users: constants are R, and say nothing on axes that are left out."""
    if got.is_tensor and want.is_tensor and got.short == want.short:
        return all(
            a.kind == b.kind or (a.kind is not None and a.kind.constant and (b.kind is None or b.kind.letter == "R"))
            for a, b in pairs(got, want)
        ) and (got.slots() is not None) == (want.slots() is not None)
    if got.short != want.short or len(got.args) != len(want.args):
        return False
    return all(_same(a, b) for a, b in zip(got.args, want.args, strict=True))


def first_difference(got: Spelled, want: Spelled) -> tuple[Slot, Slot] | None:
    """The first axis on which a tensor in ``got`` does not fit its place in ``want``."""
    for wanted in want.members:
        for member in got.members:
            if member.is_tensor and wanted.is_tensor:
                for a, b in pairs(member, wanted):
                    if not accepts_slot(a.kind, b.kind):
                        return a, b
            elif len(member.args) == len(wanted.args):
                for x, y in zip(member.args, wanted.args, strict=True):
                    found = first_difference(x, y)
                    if found is not None:
                        return found
    return None
