"""The texts of errors can be translated: a text with values is a `Text`, whose template stands in the source."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

from error_texts import MODULES, Module, arguments_of, is_composed, module_of, name_of


def sources() -> dict[Path, Module]:
    # not when this module is imported: each worker of pytest-xdist imports it, and reading all sources takes seconds
    return {path: module_of(path) for path in MODULES}


def test_a_text_of_an_error_is_not_composed() -> None:
    composed = {
        f"{path}:{source.lineno}: {ast.unparse(source)}"
        for path, module in sources().items()
        for _, parts in module.errors
        for text in parts.values()
        for source in module.sources(text)
        if is_composed(source)
    }
    assert not composed, "use Text(template, name=value), see jupyter_tpu.errors"


def test_the_texts_of_an_error_agree_about_their_arguments() -> None:
    for path, module in sources().items():
        for call, parts in module.errors:
            arguments = [arguments_of(list(module.sources(text))) for text in parts.values()]
            for one, other in itertools.combinations(arguments, 2):
                differ = [name for name in one.keys() & other.keys() if one[name].isdisjoint(other[name])]
                assert not differ, f"{path}:{call.lineno}"


def test_a_template_stands_in_the_source_and_uses_its_arguments() -> None:
    for path, module in sources().items():
        check_templates(path, module)


def check_templates(path: Path, module: Module) -> None:
    # A function with a parameter of this name makes texts too.
    places = {name: [each.arg for each in function.args.args] for name, function in module.functions.items()}
    makers = {"Text": 0, **{name: names.index("template") for name, names in places.items() if "template" in names}}
    for call in ast.walk(module.tree):
        if not isinstance(call, ast.Call) or name_of(call) not in makers:
            continue
        template = call.args[makers[name_of(call)]]
        is_passed_on = isinstance(template, ast.Name) and template.id == "template"
        if is_passed_on or not call.keywords:  # a `Text` without arguments gets them later
            continue
        assert isinstance(template, ast.Constant), f"{path}:{call.lineno}: xgettext cannot find this template"
        fields = set(re.findall(r"\{(.*?)\}", template.value))
        arguments = {each.arg for each in call.keywords}
        assert fields == arguments or (name_of(call) != "Text" and arguments <= fields), f"{path}:{call.lineno}"
