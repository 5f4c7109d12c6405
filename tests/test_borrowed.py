"""`borrowed` returns views without an owner, so only parameters of entry points may be borrowed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import glbandits

SOURCE = Path(glbandits.__file__).parent


def uses(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, ast.Call]]:
    """Return every call of `borrowed`, with the innermost function around it."""
    owners: dict[ast.AST, ast.FunctionDef] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                owners[node] = function  # inner functions come later, and overwrite
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "borrowed":
            yield owners[node], node


def assigned_names(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr | None]]:
    """Return the names that a function assigns, with the value if it is a single one."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    yield from ((ast.unparse(t), v) for t, v in zip(target.elts, node.value.elts, strict=True))
                else:
                    yield ast.unparse(target), node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
            yield ast.unparse(node.target), None


def problems(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    recipes = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef) and outer.name.endswith("_recipe")
        for inner in ast.walk(outer)
        if isinstance(inner, ast.FunctionDef) and inner is not outer
    } | {node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_scan"}
    for function, call in uses(tree):
        where = f"{path.name}:{call.lineno}"
        if function not in recipes:
            yield f"{where} is not in an entry point"
        (argument,) = call.args
        if not isinstance(argument, ast.Name) or argument.id not in {a.arg for a in function.args.args}:
            yield f"{where} takes {ast.unparse(argument)}, which is no parameter of {function.name}"
            continue
        for name, value in assigned_names(function):
            if name == argument.id and (value is None or ast.unparse(value) != f"borrowed({name})"):
                yield f"{where}: {function.name} assigns its parameter {name} another array"


def test_borrowed_is_called_on_parameters_of_entry_points_only() -> None:
    found = [problem for path in SOURCE.rglob("*.py") for problem in problems(path)]
    assert found == []


def test_check_rejects_a_local_array(tmp_path: Path) -> None:
    source = tmp_path / "bad.py"
    source.write_text(
        "def play_recipe():\n    def play(arms):\n        room = np.empty(3)\n        here = borrowed(room)\n"
    )
    assert list(problems(source)) == ["bad.py:4 takes room, which is no parameter of play"]
    source.write_text(
        "def play_recipe():\n    def play(arms):\n        arms = arms.copy()\n        return borrowed(arms)\n"
    )
    assert list(problems(source)) == ["bad.py:4: play assigns its parameter arms another array"]
