"""What every hook shares: the configuration, the layouts, and the way errors are reported."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, Expression, Import, ImportAll, ImportFrom, MypyFile
from mypy.options import Options

from spmd_mypy import codes, compat, source
from spmd_mypy.config import Config
from spmd_mypy.fullnames import RUNTIME
from spmd_mypy.hooks import assignments, branches, overloads
from spmd_mypy.hooks.acceptance import accepts
from spmd_mypy.hooks.boundaries import Boundaries, Failure
from spmd_mypy.hooks.gradmode import GradMode
from spmd_mypy.hooks.scopes import Scopes
from spmd_mypy.hooks.signatures import AUTOGRAD_METHODS, is_function
from spmd_mypy.layout import Layouts, Lookup
from spmd_mypy.rules.kinds import AxisType

_BY_SHORT: Final = {code.code.removeprefix("spmd-"): code for code in codes.ALL}


class Workbench:
    """The plugin's shared state for one build; holds nothing that outlives a change of the configuration."""

    def __init__(self, config: Config, options: Options, lookup: Lookup) -> None:
        self.config = config
        self.options = options
        self.layouts = Layouts(config, lookup)
        self.boundaries = Boundaries(options, self.without_autograd, [axis.cls for axis in config.axes], self)
        batch = not options.fine_grained_incremental
        source.begin(options.shadow_file or [], batch)
        self.watcher = compat.Watcher(self.boundaries, self.boundaries.begin, batch)
        self.gradients_on = GradMode().enabled
        self.scopes = Scopes()
        self.failures = 0  # how often ``fail`` was called
        self._importing: MypyFile | None = None  # the module last found to import SPMD types
        self._its_imports: object = None
        self._tree: MypyFile | None = None
        self._imports: object = None
        self._uses_spmd = False

    # ---- where a hook runs

    @property
    def api(self) -> Any:
        """The checker of the module that is being checked."""
        return compat.current_checker()

    def uses_spmd(self, api: Any) -> bool:
        """Whether the module being checked imports SPMD types; elsewhere constants are not inferred."""
        tree = compat.current_file(api)
        if tree is None:
            return False
        if tree is not self._tree or tree.imports is not self._imports:
            self._tree, self._imports, self._uses_spmd = tree, tree.imports, self.imports_spmd(tree)
        return self._uses_spmd

    def imports_spmd(self, tree: MypyFile) -> bool:
        """Whether a module imports SPMD types."""
        if tree is self._importing and tree.imports is self._its_imports:
            return True
        if _imports_spmd(tree):
            self._importing, self._its_imports = tree, tree.imports
            return True
        return False

    def without_autograd(self, error: Any) -> bool:
        """Whether a mypy error stands in a method that autograd runs outside its graph."""
        cls, function = getattr(error, "local_ctx", (None, None))
        if cls is None or function not in AUTOGRAD_METHODS:
            return False
        info = self.layouts.info(f"{error.module}.{cls}")
        return info is not None and is_function(info)

    def branch(self, name: str, line: int, axis: str, kind: AxisType) -> str:
        """Words for an error of mypy's own at ``line``: from which branch the variable ``name`` is ``kind``."""
        index = next((i for i, known in enumerate(self.config.axes) if known.cls == axis), None)
        return branches.by_name(self, self.api, name, line, index, kind) if index is not None else ""

    def follow(self, error: Any) -> bool:
        """Whether an assignment that mypy complains of gives something undeclared a new type, which it has then."""
        return assignments.follow(self, self.api, error)

    def refilled(self, error: Any) -> None:
        """An attribute is assigned a container of other elements, which it holds from then on."""
        assignments.refilled(self, self.api, error)

    def overloaded(self, error: Any) -> overloads.Verdict:
        """What is wrong with a call of which mypy says that no overload fits."""
        return overloads.judge(self.api, error.line, error.column, accepts, partial(accepts, layouts=False))

    def fits_none(self, error: Any) -> bool:
        """Whether a call of which mypy says that no overload fits does so whatever the layouts are."""
        return overloads.none_takes(self.api, error.line, error.column, partial(accepts, layouts=False))

    # ---- errors

    def fail(
        self, api: Any, context: Context, code: ErrorCode | str, message: str, notes: tuple[str, ...] = ()
    ) -> None:
        """Report an error, and notes that say what to write instead."""
        code = _BY_SHORT[code] if isinstance(code, str) else code
        self.failures += 1
        errors = compat.errors_of(api)
        failure = Failure(getattr(errors, "file", None), context.line, code, message, notes, context.end_line)
        self.boundaries.failed(failure)
        self.watcher.watch(errors)
        with compat.past_operator_trial(api, context):
            api.fail(message, context, code=code)
            for text in notes:
                compat.note(api, text, context, code)

    def text(self, api: Any, expression: Expression | None, fallback: str = "the operand") -> str:
        """An operand as it is written in the source."""
        if expression is None:
            return fallback
        path = getattr(api, "path", "")
        e = expression
        return source.slice_of(path, e.line, e.column, e.end_line, e.end_column) or fallback

    def axis(self, index: int) -> str:
        """The class name of an axis, for messages."""
        return self.config.axes[index].cls


def _is_ours(module: str) -> bool:
    return module == RUNTIME or module.startswith(f"{RUNTIME}.")


def _imports_spmd(tree: MypyFile) -> bool:
    if tree.fullname.startswith("torch."):  # with thousands of names, and none of ours
        return False
    for node in tree.imports:
        if isinstance(node, Import) and any(_is_ours(name) for name, _ in node.ids):
            return True
        if isinstance(node, ImportFrom | ImportAll) and _is_ours(node.id):
            return True
    return any(
        symbol.node is not None and symbol.node.fullname.startswith(f"{RUNTIME}.") for symbol in tree.names.values()
    )
