"""The result of a collective that is still under way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from typing_extensions import TypeVar

T_co = TypeVar("T_co", covariant=True)


class Pending(Generic[T_co]):
    """What ``async_op=True`` gives: ``wait()`` is the tensor, and nothing else can be done with it.

    ``finish`` waits for the communication and builds the result; it is called once.
    """

    __slots__ = ("_finish", "_result")

    def __init__(self, finish: Callable[[], T_co]) -> None:
        self._finish: Callable[[], T_co] | None = finish
        self._result: T_co | None = None

    def wait(self) -> T_co:
        """Wait for the communication; returns the tensor, the same one every time."""
        if self._finish is not None:
            self._result = self._finish()
            self._finish = None
        return self._result  # type: ignore[return-value]  # set by now; T_co itself may be optional

    def __repr__(self) -> str:
        return "Pending(under way)" if self._finish is not None else "Pending(done)"

    if not TYPE_CHECKING:  # a type checker would take every attribute for one of type NoReturn

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(f"{_REFUSAL} (asked for .{name})")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        raise TypeError(f"{getattr(func, '__name__', func)}: {_REFUSAL}")


_REFUSAL = "the collective is still under way; call .wait() on the Pending first, which gives the tensor"
