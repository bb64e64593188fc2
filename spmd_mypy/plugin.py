"""What mypy loads: put ``plugins = ["spmd_mypy.plugin"]`` into the mypy configuration.

Only what every run needs lies here: the configuration and what caches depend on.  The hooks are loaded with the first
look-up, which a run that finds everything in its cache never makes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mypy.errors import CompileError
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import FunctionLike, Type

from spmd_mypy import __version__, codes, flags
from spmd_mypy.config import ConfigError, load

if TYPE_CHECKING:
    from spmd_mypy.dispatch import Dispatch

# Who works on the plugin keeps the installed packages' caches from one change of it to the next.
KEEP_INSTALLED: Final = "SPMD_MYPY_KEEP_INSTALLED"


def _digest() -> str:
    """A digest of the plugin's own files: mypy only looks at this one, caches must follow all."""
    digest = hashlib.sha256(__version__.encode())
    top = os.path.dirname(__file__)
    for folder, inner, files in os.walk(top):
        if folder == top and "cli" in inner:  # the command decides nothing
            inner.remove("cli")
        inner.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(file.read())
    return digest.hexdigest()[:16]


class SpmdPlugin(Plugin):
    """The plugin: hands every look-up to ``dispatch.Dispatch``."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        try:
            self.config = load(options.config_file)
        except ConfigError as error:
            raise CompileError([f"spmd-mypy: {error}"]) from None
        flags.decide(options, self.config.flags)
        assert codes.ALL  # mypy checks the names in disable_error_code once the plugins are loaded
        self._data = [_digest(), repr(self.config)]
        self._keep_installed = bool(os.environ.get(KEEP_INSTALLED))
        self._dispatch: Dispatch | None = None

    @property
    def dispatch(self) -> Dispatch:
        """The tables of hooks, made when first asked for."""
        if self._dispatch is None:
            from spmd_mypy.dispatch import Dispatch  # noqa: PLC0415 - a warm run does without

            self._dispatch = Dispatch(self.config, self.options, self.lookup_fully_qualified)
            # mypy asks tens of thousands of times: from now on it asks the tables themselves.
            for name, lookup in self._dispatch.lookups().items():
                setattr(self, name, lookup)
        return self._dispatch

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        """What a cache depends on: the plugin's code and configuration."""
        if self._keep_installed and "site-packages" in ctx.path:
            return self._data[1:]
        return self._data

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """Annotations."""
        return (self._dispatch or self.dispatch).get_type_analyze_hook(fullname)

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Functions."""
        return (self._dispatch or self.dispatch).get_function_hook(fullname)

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """Signatures of functions."""
        return (self._dispatch or self.dispatch).get_function_signature_hook(fullname)

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        """Signatures of methods."""
        return (self._dispatch or self.dispatch).get_method_signature_hook(fullname)

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """Methods and operators."""
        return (self._dispatch or self.dispatch).get_method_hook(fullname)

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Attributes of instances."""
        return (self._dispatch or self.dispatch).get_attribute_hook(fullname)

    def get_class_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """Attributes of classes."""
        return (self._dispatch or self.dispatch).get_class_attribute_hook(fullname)

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Classes of torch that become generic."""
        return (self._dispatch or self.dispatch).get_customize_class_mro_hook(fullname)

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Classes that derive from one of torch's."""
        return (self._dispatch or self.dispatch).get_base_class_hook(fullname)


def plugin(version: str) -> type[Plugin]:
    """mypy's entry point."""
    return SpmdPlugin
