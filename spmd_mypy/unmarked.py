"""mypy's messages as they read without the plugin: the type variables that the plugin adds to torch leave no trace.

The plugin makes ``torch.Tensor`` and the module containers generic, so mypy prints ``Tensor[SpmdLayout]`` in a method's
type, ``ModuleList[Module]`` where a list holds any module, and ``def [SpmdLayout] (...)`` for a constructor.  Nobody
wrote these arguments: they go, and with them the complaints that only they brought about.
"""

from __future__ import annotations

from typing import Any, Final

from spmd_mypy.patterns import lazily
from spmd_mypy.source import line_of, slice_of

LAYOUT: Final = "SpmdLayout"
ELEMENT: Final = "SpmdElement"
# A message with none of these needs no second look.
_MARKS: Final = (LAYOUT, ELEMENT, "Module]", "List[Any]", "Dict[Any]")

_BOUND: Final = r"(?:(?: <:|:) [\w.]+)?(?: = [\w.]+)?"
_OURS: Final = rf"(?:{LAYOUT}|{ELEMENT}){_BOUND}"
_SUBSTITUTIONS: Final = tuple(
    (lazily(pattern), replacement)
    for pattern, replacement in (
        (rf"def \[{_OURS}\] ", "def "),
        (rf"def \[{_OURS}, ", "def ["),
        (rf"\b(Tensor|Parameter|Buffer)\[{LAYOUT}\]", r"\1"),
        (
            rf"\b(ModuleList|ModuleDict|Sequential|ParameterList|ParameterDict)"
            rf"\[(?:{ELEMENT}|(?:torch\.nn\.modules\.module\.)?Module|Any)\]",
            r"\1",
        ),
    )
)
# A container that may hold anything and one that holds modules are two types; printed, they are one.
_TWICE: Final = lazily(r"\b(ModuleList|ModuleDict|Sequential|ParameterList|ParameterDict)(?: \| \1)+(?![\w\[.])")
_THROUGH_CLASS: Final = "Access to generic instance variables via class is ambiguous"
_TENSOR_ATTRIBUTE: Final = lazily(r"(?:\w+\.)*(?:Tensor|Parameter|Buffer)\.\w+")
# ``torch.linalg.cholesky = safe_cholesky``: to mypy alone this function of torch's is Any (see ``hooks.untyped``).
_OPTIONAL: Final = r"(?:\w+: Any = \.\.\., )*"
_DOCUMENTED: Final = lazily(rf'variable has type "def \({_OPTIONAL}\*Any, {_OPTIONAL}\*\*Any\) -> Any"\)')
_LAMBDA: Final = lazily(r"\s*(?:torch\.)?(?:linalg|fft|special)\.\w+ = lambda\b")
# Where torch defines the containers, their bodies do not fit the type variable that they were given.
_CONTAINERS: Final = "torch/nn/modules/container.py"


def unmark(message: str) -> str:
    """``message`` without the type variables that nobody wrote."""
    if not any(mark in message for mark in _MARKS):
        return message
    for pattern, replacement in _SUBSTITUTIONS:
        message = pattern.sub(replacement, message)
    return _TWICE.sub(r"\1", message)


def brought_about(file: str, error: Any) -> bool:
    """Whether mypy complains only because the plugin made a class of torch generic."""
    if error.message == _THROUGH_CLASS:
        text = slice_of(file, error.line, error.column, error.end_line, error.end_column)
        return text is not None and _TENSOR_ATTRIBUTE.fullmatch(text) is not None
    if error.message.startswith("Incompatible types in assignment") and _DOCUMENTED.search(error.message):
        return True
    if error.message == "Cannot infer type of lambda":
        return _LAMBDA.match(line_of(file, error.line)) is not None
    return ELEMENT in error.message and file.replace("\\", "/").endswith(_CONTAINERS)
