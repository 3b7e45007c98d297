"""The texts of errors and of the command line in the Python sources, and which of them a catalogue needs.

An error's text is an argument of an error class, or of a function that passes it on to one. `Module` follows both, so
that catalogue.py finds every template and tests/project/test_error_texts.py every text that cannot be translated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from jupyter_tpu.errors import all_errors

PACKAGE = Path(__file__).parents[1] / "jupyter_tpu"
# The agent's are not translated; the emulator speaks for Google; the last two define `Text` and `_`.
ELSEWHERE = ("agent", "emulator", "wire", "errors.py", "i18n.py")
MODULES = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if (
        path.relative_to(PACKAGE).parts[0] not in ELSEWHERE
        and re.search(r"jupyter_tpu\.(errors|i18n)", path.read_text(encoding="utf-8"))
    )
    or path.parent.name in ("commands", "arguments")
)
_PARTS = ("message", "exists", "hint")
_ERRORS = {error.__name__: {0: "message", **{part: part for part in _PARTS}} for error in all_errors().values()}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module's calls that make an error: those of an error class, and of its own functions that pass a text on."""

    tree: ast.Module
    makers: dict[str, dict[int | str, str]] = field(default_factory=lambda: dict(_ERRORS))

    def __post_init__(self) -> None:
        size = -1
        while size < (size := sum(map(len, self.makers.values()))):
            for call, parts in list(self.errors):
                self._follow(call, parts)

    def _follow(self, call: ast.AST, parts: dict[str, ast.expr]) -> None:
        """Note that the function around this call passes its own parameters on to it."""
        function = self.scopes.get(call)
        names = [each.arg for each in function.args.posonlyargs + function.args.args] if function else []
        for part, text in parts.items():
            if function and isinstance(text, ast.Name) and text.id in names:
                shown = self.makers.setdefault(function.name, {})
                shown.update({names.index(text.id): part, text.id: part})

    @cached_property
    def functions(self) -> dict[str, Function]:
        return {each.name: each for each in ast.walk(self.tree) if isinstance(each, Function)}

    @cached_property
    def scopes(self) -> dict[ast.AST, Function]:
        """The innermost function around each node."""
        found: dict[ast.AST, Function] = {}
        for node in ast.walk(self.tree):  # a node comes before its children
            if isinstance(node, Function):
                found[node] = node
            if node in found:
                found.update(dict.fromkeys(ast.iter_child_nodes(node), found[node]))
        return found

    @property
    def errors(self) -> Iterator[tuple[ast.AST, dict[str, ast.expr]]]:
        """Yield each call that makes an error, and each assignment to a part of one, with the texts by their part."""
        for node in ast.walk(self.tree):
            match node:
                case ast.Call():
                    shown = self.makers.get(name_of(node), {})
                    given = [*enumerate(node.args), *((each.arg, each.value) for each in node.keywords)]
                    parts = {shown.get(key, key): text for key, text in given if key in shown or key in _PARTS[1:]}
                    yield node, {str(part): text for part, text in parts.items()}
                case ast.Assign(targets=[ast.Attribute(attr="exists" | "hint" as part)]):
                    yield node, {part: node.value}

    def sources(self, text: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> Iterator[ast.expr]:
        """Yield the expressions that a text may come from, through variables and functions of this module."""
        if text in seen:
            return
        seen |= {text}
        match text:
            case ast.IfExp():
                found = [text.body, text.orelse]
            case ast.BoolOp():
                found = text.values
            case ast.NamedExpr() | ast.Await():
                found = [text.value]
            case ast.Name():
                scope = self.scopes.get(text)
                found = (_values(ast.walk(scope), text.id) if scope else []) or _values(self.tree.body, text.id)
            case ast.Call(func=ast.Name(id=name)) if name in self.functions:
                nodes = (node for node in ast.walk(self.functions[name]) if isinstance(node, ast.Return))
                found = [each.value for each in nodes if each.value and self.scopes[each] is self.functions[name]]
            case _:
                found = []
        if not found:
            yield text
        for each in found:
            yield from self.sources(each, seen)


def name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _values(nodes: Iterable[ast.AST], name: str) -> list[ast.expr]:
    """Return what these nodes assign to a variable."""
    assigned = (node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign))
    return [
        node.value
        for node in assigned
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if node.value and isinstance(target, ast.Name) and target.id == name
    ]


def is_composed(text: ast.expr) -> bool:
    """Whether it is an f-string, or joined or formatted otherwise."""
    match text:
        case ast.JoinedStr() | ast.BinOp(op=ast.Add() | ast.Mod()):
            return True
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "strip")):
            return True
    return False


def arguments_of(texts: list[ast.expr]) -> dict[str, set[str]]:
    """Return the values of all `Text` calls by the name of the argument."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for each in text.keywords if isinstance(text, ast.Call) and name_of(text) == "Text" else ():
            found.setdefault(str(each.arg), set()).add(ast.dump(each.value))
    return found


@cache
def module_of(path: Path) -> Module:
    return Module(ast.parse(path.read_text(encoding="utf-8")))


def error_templates(path: Path) -> dict[str, int]:
    """Return the templates of a module's errors and of all its `Text`s, with the line where each stands."""
    module = module_of(path)
    found: dict[str, int] = {}
    makers = {"Text": 0, "_": 0, **_template_makers(module)}
    for call in ast.walk(module.tree):
        if isinstance(call, ast.Call) and name_of(call) in makers and len(call.args) > makers[name_of(call)]:
            _add_constant(call.args[makers[name_of(call)]], found)
    for _, parts in module.errors:
        for text in parts.values():
            for source in module.sources(text):
                _add_constant(source, found)
    if path.relative_to(PACKAGE).parts[0] in ("cli", "commands", "models.py"):
        for text in _help_texts(module.tree):
            _add_constant(text, found)
    # Other modules use these in errors: NOTHING_CREATED = "Nothing was created."
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and _is_sentence(node.value.value):
            _add_constant(node.value, found)
    return found


def _help_texts(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the help of commands and options, the names of the doctor's checks, and the headers of tables."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="help" | "description" | "here"):
                yield node.value
            case ast.keyword(arg="examples", value=ast.Dict()):
                yield from node.value.values
            case ast.Call(func=ast.Name(id="optional_node")):
                yield from node.args
            case ast.Call(func=ast.Name(id="Finding")):
                yield from (each.value for each in node.keywords if each.arg in ("check", "text", "fix"))
            case ast.Dict(keys=[ast.Constant(value="help")], values=[text]):
                yield text
            case ast.Assign(targets=[ast.Name(id="_HEADER")], value=ast.Tuple()):
                yield from node.value.elts


def _template_makers(module: Module) -> dict[str, int]:
    """Return the module's functions with a parameter `template`, and its position."""
    parameters = {name: [each.arg for each in function.args.args] for name, function in module.functions.items()}
    return {name: names.index("template") for name, names in parameters.items() if "template" in names}


def _is_sentence(value: object) -> bool:
    return isinstance(value, str) and " " in value and value.endswith(".")


def _add_constant(text: ast.expr, found: dict[str, int]) -> None:
    if isinstance(text, ast.Constant) and isinstance(text.value, str) and re.search("[A-Za-z]", text.value):
        found.setdefault(text.value, text.lineno)
