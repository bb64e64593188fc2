"""Which axes a process group or a device mesh has: group identity is nominal.

A mesh's dims are known by their names: ``mesh["tp"]``, ``mesh.get_group("tp")``, ``mesh_dim_names=("dp", "tp")``.
A group that another package returns gets its axis from ``[tool.spmd-mypy.groups]``.  What is not known stays
torch's own class, without a word.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import CallExpr, Expression, TupleExpr
from mypy.plugin import AttributeContext, FunctionContext, MethodContext
from mypy.types import AnyType, Instance, NoneType, ProperType, TupleType, Type, UnionType, get_proper_type

from spmd_mypy import compat
from spmd_mypy.fullnames import GROUP, MESH, PROCESS_GROUP
from spmd_mypy.hooks.arguments import option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.collectives import given
from spmd_mypy.layout import unknown_type
from spmd_mypy.rules.call import OptionValue

Axes = tuple[int, ...]

DEVICE_MESH: Final = "torch.distributed.device_mesh.DeviceMesh"
INIT_DEVICE_MESH: Final = "torch.distributed.device_mesh.init_device_mesh"
NEW_GROUP: Final = "torch.distributed.distributed_c10d.new_group"
_FLATTEN: Final = "_"  # joins the names of flattened dims, as torch does


class Groups:
    """Reads and gives the axes of groups and meshes."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.config = bench.config
        self.layouts = bench.layouts

    # ---- reading

    def axes(self, api: Any, t: Type, expression: Expression | None) -> Axes | None:
        """The axes of a ``group`` argument: a group, a mesh, a mesh with a dim, or a name; None where not known."""
        t = get_proper_type(t)
        if isinstance(t, UnionType):  # a group or None: where it is given, it is that
            members = [m for m in map(get_proper_type, t.items) if not isinstance(m, NoneType)]
            return self.axes(api, members[0], None) if len(members) == 1 else None
        if isinstance(t, Instance):
            if t.type.fullname == GROUP and t.args:
                return self._read(t.args[0])
            if t.type.fullname == MESH:
                dims = self._dims(t)
                return None if None in dims else tuple(axis for dim in dims if dim for axis in dim)
        if isinstance(t, TupleType) and len(t.items) == 2 and isinstance(expression, TupleExpr):
            return self._dim(t.items[0], option(api, expression.items[1]))
        if isinstance(expression, CallExpr) and len(expression.args) == 1:  # GroupName("tp"), str("tp")
            expression = expression.args[0]
        name = option(api, expression) if expression is not None else None
        return self.named(name) if isinstance(name, str) else None

    def _read(self, t: Type) -> Axes | None:
        """Axes given as an axis class or as a tuple of them."""
        t = get_proper_type(t)
        if isinstance(t, TupleType):
            parts = [self._read(item) for item in t.items]
            return None if None in parts else tuple(axis for part in parts if part for axis in part)
        index = self.config.by_fullname(t.type.fullname) if isinstance(t, Instance) else None
        return None if index is None else (index,)

    def named(self, name: str) -> Axes | None:
        """The axes of the mesh dim ``name``; ``"dp_cp"`` is dp and cp flattened, where both are configured."""
        index = self.config.by_name(name)
        if index is not None:
            return (index,)
        parts = [self.config.by_name(part) for part in name.split(_FLATTEN)]
        found = tuple(part for part in parts if part is not None)
        return found if len(found) == len(parts) > 1 else None

    def _dims(self, t: Type) -> list[Axes | None]:
        """The axes of each dim of a mesh; empty where its dims are not known."""
        t = get_proper_type(t)
        argument = (
            get_proper_type(t.args[0]) if isinstance(t, Instance) and t.type.fullname == MESH and t.args else None
        )
        return [self._read(item) for item in argument.items] if isinstance(argument, TupleType) else []

    def _dim(self, mesh: Type, which: OptionValue) -> Axes | None:
        """The axes of one dim of a mesh, by name or number; without either, of its only dim."""
        if isinstance(which, str):
            return self.named(which)
        dims = self._dims(mesh)
        if isinstance(which, int) and -len(dims) <= which < len(dims):
            return dims[which]
        return dims[0] if which is None and len(dims) == 1 else None

    # ---- giving

    def _tuple(self, items: list[Type]) -> Type:
        info = self.layouts.info("builtins.tuple")
        return TupleType(items, Instance(info, [unknown_type()])) if info is not None else unknown_type()

    def _axes_type(self, axes: Axes | None) -> Type:
        if axes is None:
            return unknown_type()
        infos = [self.layouts.info(self.config.axes[axis].fullname) for axis in axes]
        items: list[Type] = [Instance(info, []) for info in infos if info is not None]
        return items[0] if len(items) == 1 else self._tuple(items)

    def group(self, axes: Axes | None, default: Type) -> Type:
        """The type of a group over ``axes``; ``default`` where they are not known."""
        info = self.layouts.info(GROUP)
        return Instance(info, [self._axes_type(axes)]) if info is not None and axes is not None else default

    def mesh(self, dims: list[Axes | None], default: Type) -> Type:
        """The type of a mesh with these dims."""
        info = self.layouts.info(MESH)
        if info is None or all(dim is None for dim in dims):
            return default
        return Instance(info, [self._tuple([self._axes_type(dim) for dim in dims])])

    def _names(self, value: OptionValue) -> list[Axes | None]:
        names = value if isinstance(value, tuple) else (value,)
        return [self.named(name) if isinstance(name, str) else None for name in names]

    # ---- hooks

    def item(self, ctx: MethodContext) -> Type:
        """``mesh["tp"]``, ``mesh["dp", "cp"]``."""
        if not self.bench.uses_spmd(ctx.api) or not ctx.args or not ctx.args[0]:
            return ctx.default_return_type
        return self.mesh(self._names(option(ctx.api, ctx.args[0][0])), ctx.default_return_type)

    def get_group(self, ctx: MethodContext) -> Type:
        """``mesh.get_group("tp")``, ``mesh["tp"].get_group()``, ``mesh.get_group(0)``."""
        if not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        which = option(ctx.api, ctx.args[0][0]) if ctx.args and ctx.args[0] else None
        return self.group(self._dim(ctx.type, which), ctx.default_return_type)

    def flatten(self, ctx: MethodContext) -> Type:
        """``mesh["dp", "cp"]._flatten("dp_cp")``: one dim over all of the mesh's axes."""
        dims = self._dims(ctx.type)
        if not dims or None in dims:
            return ctx.default_return_type
        return self.mesh([tuple(axis for dim in dims if dim for axis in dim)], ctx.default_return_type)

    def init_device_mesh(self, ctx: FunctionContext) -> Type:
        """``init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))``, and ``DeviceMesh(...)`` likewise."""
        names = given(ctx, "mesh_dim_names")
        if names is None or not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        value = option(ctx.api, names.expression)
        return (
            self.mesh(self._names(value), ctx.default_return_type)
            if isinstance(value, tuple)
            else ctx.default_return_type
        )

    @staticmethod
    def new_group(ctx: FunctionContext) -> Type:
        """``tp: Group[TP] = dist.new_group(ranks)``: as declared, though torch 2.14 says it may be none."""
        expected = compat.expected_type(ctx.api)
        wanted = get_proper_type(expected) if expected is not None else None
        return wanted if isinstance(wanted, Instance) and wanted.type.fullname == GROUP else ctx.default_return_type

    def configured(self, fullname: str) -> int | None:
        """The axis that the configuration gives to a function, method or attribute."""
        return self.config.groups.get(fullname)

    def call(self, axis: int, ctx: FunctionContext | MethodContext) -> Type:
        """A function or method that the configuration gives an axis."""
        return self._configured(axis, ctx.default_return_type, ctx.api)

    def attribute(self, axis: int, ctx: AttributeContext) -> Type:
        """An attribute that the configuration gives an axis."""
        return self._configured(axis, ctx.default_attr_type, ctx.api)

    def _configured(self, axis: int, default: Type, api: Any) -> Type:
        t: ProperType = get_proper_type(default)
        if isinstance(t, UnionType):
            items = [self._configured(axis, item, api) for item in t.items]
            return UnionType.make_union(items)
        group = isinstance(t, Instance) and t.type.fullname in PROCESS_GROUP
        untyped = isinstance(t, AnyType) and self.bench.uses_spmd(api)
        return self.group((axis,), default) if group or untyped else default
