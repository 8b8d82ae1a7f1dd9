"""The small changes that mutation testing makes: where in a module, and what stands there then.

Not mutated: docstrings, annotations (but the limits inside them are), imports, `assert`,
decorators of dataclasses, and strings with a space in them, which are messages for people.
"""

import ast
from typing import NamedTuple


class Mutant(NamedTuple):
    """One changed place in one file."""

    module: str
    line: int
    begin: int
    """In the bytes of the file."""
    end: int
    old: str
    new: str
    what: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:70] for text in (self.old, self.new))
        return f"{self.module}:{self.line}: {self.what}: {old} → {new}"


COMPARED = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
CALCULATED = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "/", ast.Mod: "/",
    ast.BitOr: "&", ast.BitAnd: "|", ast.LShift: ">>", ast.RShift: "<<", ast.Pow: "*",
}  # fmt: skip
PLAIN = ("dataclass", "cache", "lru_cache", "overload", "property")


class Finder(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, module: str, source: bytes) -> None:
        self.module, self.source = module, source
        self.mutants: list[Mutant] = []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def add(self, node: ast.AST, new: str, what: str) -> None:
        place: ast.expr = node  # type: ignore[assignment]  # whatever has a place in the source
        begin = self._starts[place.lineno - 1] + place.col_offset
        end = self._starts[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
        old = self.source[begin:end].decode()
        self.mutants.append(Mutant(self.module, place.lineno, begin, end, old, new, what))

    def text(self, node: ast.expr) -> str:
        return ast.unparse(node)

    def visit_Module(self, node: ast.Module) -> None:
        self._body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        for decorator in node.decorator_list:
            if not any(word in self.text(decorator) for word in PLAIN):
                self.visit(decorator)
        self._body(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815  # the name that ast calls

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self.visit(statement)  # all but docstrings

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._limits(node.annotation)
        if node.value is not None:
            self.visit(node.value)

    def _limits(self, annotation: ast.expr) -> None:
        """The numbers and flags of `Field(ge=0)` inside an annotation, and nothing else of it."""
        for part in ast.walk(annotation):
            if isinstance(part, ast.Call):
                for keyword in part.keywords:
                    self.visit(keyword.value)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in self.text(node.test):
            return
        self._condition(node.test)
        self._body(node.body)
        self._body(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self._condition(node.test)
        self._body(node.body)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.visit(node.iter)
        for test in node.ifs:
            self._condition(test)

    def _condition(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare | ast.UnaryOp | ast.Constant):
            self.add(test, f"(not ({self.text(test)}))", "negated condition")
        self.visit(test)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, kind in enumerate(node.ops):
            words = [self.text(node.left)]
            for n, (kind_here, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                sign = COMPARED[type(kind_here)] if n == place else _sign(kind_here)
                words += [sign, f"({self.text(right)})"]
            self.add(node, f"(({words[0]}) {' '.join(words[1:])})", f"comparison {_sign(kind)}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = "or" if isinstance(node.op, ast.And) else "and"
        parts = f" {word} ".join(f"({self.text(value)})" for value in node.values)
        self.add(node, f"({parts})", f"{word} for its opposite")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add(node, f"({self.text(node.operand)})", "not removed")
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self.add(node, f"({self.text(node.operand)})", "minus removed")
        self.visit(node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if sign := CALCULATED.get(type(node.op)):
            new = f"(({self.text(node.left)}) {sign} ({self.text(node.right)}))"
            self.add(node, new, "operator")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add(node, f"{self.text(node.target)} = {self.text(node.value)}", "+= for =")
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = self.text(node.targets[0])
        plain = not (isinstance(node.value, ast.Constant) and node.value.value is None)
        if plain and names.islower() and not names.startswith("__"):
            targets = " = ".join(map(self.text, node.targets))
            if not isinstance(node.targets[0], ast.Tuple):
                self.add(node, f"{targets} = None", "assigned None")
        self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is None:
            return
        if not isinstance(value, ast.Constant):
            self.add(node, "return None", "returned None")
        self.visit(value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom):
            empty = isinstance(node.value, ast.Yield | ast.YieldFrom)
            self.add(node, "yield from ()" if empty else "pass", "statement removed")
        self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.add(node, "pass", "raise removed")

    def visit_Break(self, node: ast.Break) -> None:
        self.add(node, "continue", "break for continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.add(node, "break", "continue for break")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._condition(node.guard)
        self._body(node.body)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, str(not value), "boolean")
        elif isinstance(value, int | float):
            self.add(node, repr(value + 1), "number")
        elif isinstance(value, str) and value and " " not in value:
            self.add(node, repr(f"XX{value}XX"), "word")


def _sign(kind: ast.cmpop) -> str:
    signs = {
        "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!=", "Is": "is",
        "IsNot": "is not", "In": "in", "NotIn": "not in",
    }  # fmt: skip
    return signs[type(kind).__name__]


def mutated(source: bytes, mutant: Mutant) -> bytes:
    """The file with that one change."""
    return source[: mutant.begin] + mutant.new.encode() + source[mutant.end :]
