"""Mutation testing of one room: which small faults in the code does no test notice?

`make mutate ROOM=dialects SAMPLE=60` draws a seeded sample of mutants, runs the tests of each
mutated module and prints what was killed and what survived. First the tests run once without any
mutant, and it is recorded which lines each of them runs; a mutant is then tried with the tests that
run its lines, the fastest first, and the first failure ends it. It works on a copy in a temporary
folder; the working tree is never touched. A mutant changes one thing: a comparison, a boolean, a
number, a word, an operator, a condition, a returned value, or a statement that is left out.
`mutants` makes these changes.
"""

import argparse
import ast
import fnmatch
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import islice
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from coverage import CoverageData

from mutants import Finder, Mutant, mutated

if TYPE_CHECKING:
    from pytest import TestReport  # noqa: PT013

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/tracklog"
HANGING = 4
"""A process that waits for ever uses no processor time: it may take so many times its limit."""
PORTION = 40
"""Seconds of tests that one process runs, so that no limit of time ends many good tests."""
COPIED = ("src", "tests", "scripts", "contracts", "examples", "docs", "bench")
NOT_COPIED = ("node_modules", "__pycache__", ".hypothesis", ".ready")

ROOMS = sorted(
    {path.relative_to(ROOT / PACKAGE).parts[0] for path in (ROOT / PACKAGE).glob("*/*.py")}
    | {path.stem for path in (ROOT / PACKAGE).glob("[!_]*.py")}
)
"""The folders of the package, and the modules that stand beside them."""

TESTS: list[tuple[str, tuple[str, ...]]] = [
    ("dialects/fishbowl/*", ("dialects fishbowl", "say round_trips host_fishbowl", "convert")),
    ("dialects/awf/*", ("dialects awf", "say round_trips transcript", "convert parity")),
    ("dialects/openwop/*", ("dialects openwop", "say round_trips host_openwop", "convert parity")),
    ("dialects/kahn*", ("dialects kahn", "say round_trips check", "convert emitters")),
    ("dialects/ralph.py", ("dialects kahn", "say round_trips check", "convert emitters")),
    ("dialects/tracklog/*", ("dialects check", "say round_trips importers", "convert parity")),
    ("dialects/checking.py", ("check dialects", "intake kahn fishbowl cli", "parity collector")),
    ("dialects/*", ("dialects kahn awf fishbowl openwop", "say round_trips check", "convert")),
    ("model/lines.py", ("check intake", "cli_journal follow importing", "collector recorder")),
    ("model/*", ("dialects check", "kahn awf intake recorder", "folds cli collector")),
    ("intake/secrets.py", ("secrets", "recorder")),
    ("intake/identities.py", ("intake", "related importing cli_journal", "collector otlp")),
    ("intake/resuming.py", ("intake", "cli_journal", "crash_law")),
    ("intake/*", ("intake", "secrets related cli_journal", "crash_law collector importing")),
    (
        "folds/*",
        ("folds", "run_cost related answers runs questions top sums", "index exporters story why"),
    ),
    ("hosts/fishbowl/*", ("host_fishbowl", "host_control tape host_fishbowl_models")),
    ("hosts/workflow/*", ("host_workflow", "host_control tape host_workflow_models")),
    (
        "hosts/openwop/*",
        (
            "host_openwop host_openwop_agents",
            "host_openwop_rows host_openwop_wire host_openwop_v2",
            "host_openwop_closed host_openwop_forks host_openwop_keys host_openwop_models tape",
        ),
    ),
    ("hosts/_endpoint.py", ("host_fishbowl_models host_workflow_models", "host_openwop_models")),
    ("hosts/*", ("host_control host_fishbowl", "host_openwop host_workflow tape")),
    ("home/*", ("plugs storages", "index cli_journal", "answers")),
    ("log.py", ("log", "numbers bytes")),
    ("names.py", ("names", "cli")),
    ("reading/*", ("story why diff", "related importing", "views exporters")),
    ("hosts/_yaml_text.py", ("yaml_text", "alerts host_workflow")),
    ("web/unpacking.py", ("collector_refusals", "guard")),
    ("web/*", ("guard collector_refusals", "collector openapi", "host_openwop")),
    ("index/indexes/postgresql/*", ("postgres_index", "index")),
    ("index/*", ("index", "answers questions", "runs related series")),
    ("answers/diff.py", ("diff", "answers")),
    ("answers/alignment.py", ("diff", "answers")),
    ("answers/story.py", ("story", "answers")),
    ("answers/phrases.py", ("story", "answers cli")),
    ("answers/why.py", ("why", "answers")),
    ("answers/causality.py", ("why", "answers questions")),
    ("answers/prices.py", ("prices", "answers runs")),
    ("answers/*marks.py", ("marks", "answers questions")),
    ("answers/spans.py", ("spans", "questions")),
    ("answers/run_*.py", ("runs spans", "answers questions", "top related")),
    ("answers/doctor.py", ("cli_journal", "backup archive")),
    ("answers/duplicates.py", ("related", "answers")),
    ("answers/related.py", ("related", "answers")),
    ("answers/top.py", ("top", "answers")),
    ("answers/*", ("series answers", "questions runs", "related top cli")),
    ("recording/fanout.py", ("fanout",)),
    ("recording/tape.py", ("tape",)),
    ("recording/recorder/*", ("recorder", "transcript fanout")),
    ("recording/*", ("transcript", "recorder")),
    ("formats/importers/otlp/*", ("otlp_mapping otlp_lines otlp_joins", "otlp importers")),
    ("formats/importers/agui/*", ("agui", "importers")),
    ("formats/importers/*", ("importers_formats importers", "agent_samples completeness")),
    ("formats/exporters/agui/*", ("agui", "exporters")),
    ("formats/exporters/*", ("exporters", "round_trips agui")),
    ("formats/providers/*", ("providers", "exec host_workflow_models")),
    ("formats/follow.py", ("follow", "last_lines")),
    ("formats/importing*", ("importing", "importers last_lines", "cli_journal kahn_archive")),
    ("formats/recognition.py", ("file_recognition", "importing importers")),
    ("formats/exec.py", ("exec",)),
    ("formats/output_recorder.py", ("exec", "providers")),
    ("formats/coverage.py", ("completeness", "importing importers")),
    ("formats/*", ("convert exporters", "round_trips agui importers", "otlp")),
    ("collector/archiving.py", ("archiving",)),
    ("collector/openapi.py", ("openapi",)),
    ("collector/otlp.py", ("otlp", "collector")),
    ("collector/stream.py", ("collector_stream", "collector")),
    (
        "collector/*",
        ("collector", "collector_refusals collector_stream", "openapi marks questions"),
    ),
    ("cli/_local_postgres.py", ("local_postgres", "store")),
    ("cli/store.py", ("store", "cli")),
    ("cli/top.py", ("top", "cli")),
    ("cli/_screen.py", ("top", "cli")),
    ("cli/_child.py", ("exec", "cli")),
    ("cli/exec.py", ("exec", "cli")),
    ("cli/_hosts/fishbowl.py", ("host_fishbowl", "cli")),
    ("cli/_hosts/workflow.py", ("host_workflow", "cli")),
    ("cli/_hosts/*", ("host_openwop", "cli host_openwop_conformance")),
    ("cli/_ta[bp]*", ("tables", "cli tape")),
    ("cli/check.py", ("check_formats", "cli check")),
    ("cli/demo.py", ("demo", "cli")),
    ("cli/archive.py", ("archive", "cli")),
    ("cli/*", ("cli tables", "cli_journal", "questions marks")),
    ("demo/*", ("demo", "cli")),
    ("testing/indexes.py", ("index",)),
    ("testing/*porters.py", ("importers_formats exporters",)),
    ("testing/*", ("stores storages",)),
    ("journal/archive/*", ("archive", "archiving archive_s3")),
    ("journal/backup.py", ("backup", "archive storages")),
    ("journal/comparing.py", ("verify archive", "stores anomalies", "proof")),
    ("journal/copying.py", ("backup archive", "storages stores", "tenants crash_law")),
    ("journal/checkpoints/*", ("checkpoints", "witness rewritten_journal prune_notes", "proof")),
    ("journal/postgres/*", ("postgres", "stores storages")),
    ("journal/[bp]*s.py", ("retention", "storages")),
    ("journal/retention.py", ("retention", "cli_journal")),
    ("journal/verify.py", ("verify", "anomalies cli_journal", "proof")),
    ("journal/stores/*", ("stores", "journal collector", "segments crash_law retention")),
    ("journal/storages/*", ("storages", "journal collector")),
    ("journal/segments/*", ("segments stores", "crash_law upgrade", "anomalies verify retention")),
    ("journal/offsets.py", ("intake", "crash_law upgrade", "follow cli_journal")),
    (
        "*",
        ("journal interrupts", "intake verify stores", "anomalies retention cli_journal collector"),
    ),
]
"""The tests of a module, in stages: a mutant that one stage kills is not tried in the next.
Names of files, without `test_` and `.py`."""


def compiles(mutant: Mutant) -> bool:
    """Whether the mutated file is a program at all."""
    source = (ROOT / PACKAGE / mutant.module).read_bytes()
    try:
        compile(mutated(source, mutant), mutant.module, "exec")
    except SyntaxError:
        return False
    return True


def modules_of(room: str) -> list[str]:
    """The modules of a room, below the package."""
    paths = (ROOT / PACKAGE).rglob("*.py")
    names = sorted(str(path.relative_to(ROOT / PACKAGE)) for path in paths)
    return [name for name in names if name.startswith((f"{room}/", f"{room}.py"))]


def mutants_of(modules: Sequence[str]) -> Iterator[Mutant]:
    for module in modules:
        source = (ROOT / PACKAGE / module).read_bytes()
        finder = Finder(module, source)
        finder.visit(ast.parse(source))
        yield from sorted(set(finder.mutants))


def survivors_in(report: str, every: Sequence[Mutant]) -> Iterator[Mutant]:
    """The mutants that an earlier report calls survivors, where they stand now.

    The same change of the same module is the same mutant; of several, the one on the nearest line.
    """
    for found in re.finditer(r"^survived  ([^:]+):(\d+): (.+)$", report, re.MULTILINE):
        module, line, change = found[1], int(found[2]), found[3]
        same = [
            each
            for each in every
            if each.module == module and str(each) == f"{module}:{each.line}: {change}"
        ]
        if same:
            yield min(same, key=lambda each: (abs(each.line - line), each.begin))
        else:
            print(f"not there any more: {found[0]}", flush=True)


def stages_of(module: str) -> list[list[str]]:
    """The test files of a module, stage by stage."""
    names = next(stages for pattern, stages in TESTS if fnmatch.fnmatch(module, pattern))
    return [[_place_of(name) for name in stage.split()] for stage in names]


@cache
def _place_of(name: str) -> str:
    """The file of tests of that name, in the room where it stands."""
    found = sorted((ROOT / "tests").rglob(f"test_{name}.py"))
    (place,) = found[:1] if len(found) == 1 else (p for p in found if p.parent.name != "promises")
    return str(place.relative_to(ROOT))


class Workplace:
    """A copy of the tree in which one mutant at a time lives."""

    def __init__(self, folder: Path, limit: float, stages: int = 3) -> None:
        self.folder, self.limit, self.stages = folder, limit, stages
        leave = shutil.ignore_patterns(*NOT_COPIED)
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=leave, symlinks=True)
        for name in ("contracts/ts", "console"):  # what tests of both languages compare with
            if (ROOT / name / "node_modules").exists() and (folder / name).exists():
                (folder / name / "node_modules").symlink_to(ROOT / name / "node_modules")
        for path in [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), ROOT / "Makefile", ROOT / "LICENSE"]:
            shutil.copy(path, folder)

    def try_one(self, mutant: Mutant, portions: Sequence[Sequence[str]] = ()) -> str:
        """What became of it: killed, survived, or timeout."""
        path = self.folder / PACKAGE / mutant.module
        source = path.read_bytes()
        try:
            self._write(path, mutated(source, mutant))
            for stage in portions or stages_of(mutant.module)[: self.stages]:
                outcome = self.test(stage)
                if outcome != "survived":
                    return outcome
            return "survived"
        finally:
            self._write(path, source)

    def _write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        # Compiled files are compared by size and second, which a mutant may share.
        Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)

    def trace(self, files: Sequence[str]) -> "Traces":
        """Runs all tests of these files once, and says which lines each of them runs."""
        self.test(
            files, "--maxfail=0", "-p", "mutate", "--cov=tracklog", "--cov-context=test",
            "--cov-report=", limit=20 * self.limit,
        )  # fmt: skip
        return Traces(self.folder)

    def test(self, tests: Sequence[str], *more: str, limit: float = 0) -> str:
        limit = limit or self.limit
        (self.folder / "tests.txt").write_text("\n".join(tests))
        words = [
            sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:randomly",
            "-p", "no:cacheprovider", "--hypothesis-seed=0", *more, "@tests.txt",
        ]  # fmt: skip
        paths = f"{self.folder / 'src'}:{self.folder / 'scripts'}"
        environment = {**os.environ, "PYTHONPATH": paths}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        # Processor time, so that a busy machine makes no mutant look like an endless loop.
        bound = partial(resource.setrlimit, resource.RLIMIT_CPU, (int(limit),) * 2)
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                words, cwd=self.folder, env=environment, start_new_session=True,
                preexec_fn=bound,  # noqa: PLW1509  # it calls one function of C
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip
            ended = _wait(process.pid, HANGING * limit)
            # They lead a session of their own. While the leader is not waited for its number is
            # not given to anybody else, so nobody but them and what they started is ended.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            said.seek(0)
            self.said = said.read().decode(errors="replace")
        if not ended or process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return "timeout"
        return "killed" if process.returncode else "survived"


PASSED = "passed.jsonl"


def pytest_runtest_logreport(report: "TestReport") -> None:
    """Called by pytest, where this file is its plugin: notes how long each passed test took."""
    if report.when == "call" and report.passed:
        with Path(PASSED).open("a") as file:
            file.write(json.dumps([report.nodeid, report.duration]) + "\n")


class Traces:
    """Which of the tests that pass without a mutant run a line of the code."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        passed = folder / PASSED
        rows = passed.read_text().splitlines() if passed.exists() else []
        self.seconds: dict[str, float] = dict(map(json.loads, rows))
        self._data = CoverageData(str(folder / ".coverage"))
        self._data.read()

    def portions_of(self, mutant: Mutant, most: float) -> list[list[str]]:
        """The tests that run its lines, fastest first, in portions; none if it runs at import.

        At most so many seconds of them: what is not killed by then counts as not noticed.
        """
        contexts = self._data.contexts_by_lineno(str(self.folder / PACKAGE / mutant.module))
        source = (self.folder / PACKAGE / mutant.module).read_bytes()
        names = {
            context.partition("|")[0]
            for line in _lines_of(source, mutant)
            for context in contexts.get(line, ())
        }
        portions: list[list[str]] = [[]]
        used = begun = 0.0
        for name in sorted(names & self.seconds.keys(), key=lambda each: self.seconds[each]):
            if used - begun > PORTION:
                portions.append([])
                begun = used
            portions[-1].append(name)
            used += self.seconds[name] + 0.02
            if used > most:
                break
        return [portion for portion in portions if portion]


def _lines_of(source: bytes, mutant: Mutant) -> range:
    """The lines of the statement in which it stands, without the statements inside of it."""
    found = range(mutant.line, mutant.line + 1)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        last = (node.end_lineno or node.lineno) + 1
        if not node.lineno <= mutant.line < last:
            continue
        body: list[ast.stmt] = getattr(node, "body", [])
        end = body[0].lineno if body else last
        if mutant.line < end:
            found = range(node.lineno, end)
    return found


def _wait(pid: int, seconds: float) -> bool:
    """Whether a process ended in time; it can still be waited for afterwards."""
    until = time.monotonic() + seconds
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("room", choices=ROOMS)
    parser.add_argument("--sample", type=int, default=60, help="how many mutants; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--limit", type=float, default=200, help="seconds of processor time per stage of tests"
    )
    parser.add_argument("--only", default="*", help="modules, as a pattern: dialects/kahn*")
    parser.add_argument("--stages", type=int, default=3, help="how many stages of tests at most")
    parser.add_argument("--again", type=Path, help="only what survived in this earlier report")
    parser.add_argument("--verbose", action="store_true", help="also print what was killed")
    parser.add_argument(
        "--trust", action="store_true",
        help="that the tests pass without a mutant: all tests of a stage are run for each one",
    )  # fmt: skip
    parser.add_argument(
        "--most", type=float, default=300, help="seconds of tests per mutant at most"
    )
    parser.add_argument("--list", action="store_true", help="print the sample and stop")
    options = parser.parse_args()
    modules = [each for each in modules_of(options.room) if fnmatch.fnmatch(each, options.only)]
    every = list(mutants_of(modules))
    count = len(every)
    random.Random(options.seed).shuffle(every)  # noqa: S311  # no secret
    if options.again:
        drawn = list(survivors_in(options.again.read_text(), every))
    else:
        drawn = list(islice(filter(compiles, every), options.sample or None))
    print(f"{options.room}: {count} mutants, {len(drawn)} drawn", flush=True)
    if options.list:
        print(*drawn, sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="tracklog-mutate-") as folder:
        return _run(options, drawn, Path(folder))


def _run(options: argparse.Namespace, drawn: list[Mutant], folder: Path) -> int:
    places: Queue[Workplace] = Queue()
    for n in range(options.jobs):
        places.put(Workplace(folder / str(n), options.limit, options.stages))
    first = places.get()
    needed = sorted(
        {
            name
            for each in drawn
            for stage in stages_of(each.module)[: options.stages]
            for name in stage
        }
    )
    traces: Traces | None = None
    if not options.trust:
        begun = time.monotonic()
        traces = first.trace(needed)
        if not traces.seconds:
            print(first.said[-3000:], "\nno test passes without any mutant", file=sys.stderr)
            return 2
        took = time.monotonic() - begun
        print(f"{len(traces.seconds)} tests pass without a mutant, in {took:.0f} s", flush=True)
    places.put(first)
    outcomes: Counter[str] = Counter()

    def try_one(mutant: Mutant) -> None:
        place = places.get()
        try:
            portions = traces.portions_of(mutant, options.most) if traces else ()
            outcome = place.try_one(mutant, portions)
        finally:
            places.put(place)
        outcomes[outcome] += 1
        if outcome != "killed" or options.verbose:
            print(f"{outcome}  {mutant}", flush=True)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(try_one, drawn))
    killed = len(drawn) - outcomes["survived"]
    print(
        f"{options.room}: seed {options.seed}, {len(drawn)} mutants, {outcomes['killed']} killed,"
        f" {outcomes['timeout']} timed out, {outcomes['survived']} survived:"
        f" {100 * killed / max(1, len(drawn)):.0f} % killed"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
