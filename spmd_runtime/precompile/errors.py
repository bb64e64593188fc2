"""What can go wrong with a precompiled step, one class for each thing that a caller may want to tell apart."""

from __future__ import annotations


class PrecompileError(RuntimeError):
    """Base class: a step could not be built, loaded or run; the message says why and what to do."""


class CaptureError(PrecompileError):
    """The step cannot be captured as one graph: data-dependent Python, a missing fake kernel, a foreign tensor."""


class DisagreementError(PrecompileError):
    """Captured as two ranks, the step is not the same: it would hang or be wrong on one of them."""


class BrokenArtifactError(PrecompileError):
    """Files of the artifact are missing, cut short, edited or swapped, or no authentic manifest vouches for them."""


class UntrustedArtifactError(BrokenArtifactError):
    """There is no key to authenticate the artifact with, and nobody said to trust its directory."""


class StaleArtifactError(PrecompileError):
    """The artifact was built for another machine, library, mesh or model code; ``differences`` names each item."""

    def __init__(self, message: str, differences: dict[str, tuple[object, object]]) -> None:
        super().__init__(message)
        self.differences = differences


class PeerError(PrecompileError):
    """Another rank has a different artifact, or refused its own; the message names the rank."""


class InputError(PrecompileError):
    """The step was called with other inputs than it was built for; the message names the input."""
