"""Generated journals: runs of every dialect, recorded, imported, revised, copied, erased.

`journals` makes a list of what is done to a home, one thing after the other; `made` does it.
"""

from dataclasses import replace
from hashlib import sha256

from hypothesis import strategies as st

from support import sampling
from tracklog.dialects import tracklog as native
from tracklog.formats import registry as formats
from tracklog.formats.importers import head_of, uncompressed_name
from tracklog.formats.importing import Importing
from tracklog.formats.recognition import recognition
from tracklog.home.home import Home
from tracklog.model.fact import Began, Called, Ended, Linked, Noted, Returned, Said, Spent


def line(run, n, fact, *, mapping=None, clock=None, family=None, key=None, content=""):
    """A native line: live, or, with a mapping, read from the n-th record of a file."""
    record, path = key or f"{run}-record-{n}", "/a/file.jsonl"
    origin = {"writer": "live", "fidelity": "observed"}
    if mapping is not None:
        raw = sha256((record + content).encode()).hexdigest()
        origin = {"writer": "importer", "fidelity": "reconstructed", "mapping": mapping}
        origin |= {"path": path, "offset": n, "raw": raw}
        origin |= {"record": record} if n % 2 else {}
    body = native.body_of(fact)
    id = sha256(repr((run, n, mapping, body)).encode()).hexdigest()[:32]
    at = None if clock is None else f"2026-05-05T{9 + clock // 60:02}:{clock % 60:02}:00Z"
    return native.line(
        fact, id=id, run=run, at=at, origin=origin, **({"family": family} if family else {})
    )


RUNS = ("alpha", "beta", "gamma")
words = st.sampled_from(["Fix it", "[Request interrupted by user]", "Done.", ""])
calls = st.sampled_from(["c1", "c2", "c3"])
copied = st.booleans().filter(bool) | st.just(False) | st.just(False)


def said(role, text, **more):
    return Said(role=role, blocks=({"type": "text", "text": text},), model="gpt-5", **more)


facts = st.one_of(
    st.builds(Began, what=st.just("run"), model=st.just("gpt-5"), task=st.none() | words),
    st.builds(said, st.sampled_from(["user", "assistant", "thought"]), words),
    st.builds(Called, tool=st.sampled_from(["Read", "Bash"]), call_id=calls,
              provider_call_id=st.none() | st.sampled_from(["p1", "c2"]), copied=copied),
    st.builds(Returned, call_id=calls, ok=st.sampled_from([True, False, None]),
              error=st.none() | st.just("no"), status=st.none() | st.just("cancelled"),
              copied=copied),
    st.builds(Spent, key=st.sampled_from(["m1", "m2", "m3"]), model=st.just("gpt-5"),
              usage=st.fixed_dictionaries({"input_tokens": st.integers(0, 9), "output_tokens": st.integers(0, 9)}),
              cost_usd=st.none() | st.just(0.25), copied=copied),
    st.builds(Ended, what=st.just("run"), passed=st.sampled_from([True, False, None])),
)  # fmt: skip

SPAN = f"{7:032x}/{7:016x}"
"""The key of a record that may be sent again with another content."""
IMPORTS = sampling.ROOT / "importers"


def _is_source(path):
    """Whether a file is imported by itself, and not as a part of another."""
    found = recognition(formats.importers(), uncompressed_name(path), head_of(path))
    return found.importer is not None and not found.companion


SOURCES = sorted(
    path
    for path in IMPORTS.rglob("*.json*")
    if path.suffix in (".json", ".jsonl")
    and not path.name.endswith(".meta.json")
    and _is_source(path)
)
FILES = [path for path in SOURCES if path.stat().st_size < 20_000]
imports = st.sampled_from(FILES)
growing = st.tuples(
    st.sampled_from([path for path in FILES if path.suffix == ".jsonl"]), st.floats(0, 1)
)
"""A file that is imported while it is written, and the part of it that was there then."""
sources = st.lists(st.tuples(facts, st.none() | st.integers(0, 500)), min_size=1, max_size=8)
"""What a file tells, fact by fact, with or without a time."""
samples = st.sampled_from(sampling.of("good"))


@st.composite
def journals(draw):
    """What is done to a home, one after the other: (what, argument…)."""
    done = []
    for run in draw(st.lists(st.sampled_from(RUNS), min_size=1, max_size=3, unique=True)):
        source = draw(sources)
        mappings = draw(st.sampled_from([(None,), ("1",), ("1", "2"), ("2", "1"), ("9", "10")]))
        for mapping in mappings:
            mine = source if mapping in (None, "1", "9") else draw(st.permutations(source))
            for fact, clock in mine:
                place = source.index((fact, clock))
                done.append(("line", line(run, place, fact, mapping=mapping, clock=clock)))
    if draw(st.booleans()):
        fork = Linked(kind=draw(st.sampled_from(["fork", "sub-run", "resume"])), parent="alpha")
        done.append(("line", line("beta", 90, fork)))
    if draw(st.booleans()):
        back = Noted(label="withdrawn", data={"from": "alpha-record-1"})
        done.append(("line", line("alpha", 91, back, mapping="1", key="back")))
    if draw(st.booleans()):
        one = Linked(kind="alias", system="claude", alias="one conversation")
        done.append(("line", line("alpha", 92, one)))
        done.append(("line", line("twin", 93, one, family="awf")))
        for n, (fact, clock) in enumerate(draw(sources)):
            done.append(("line", line("twin", n, fact, clock=clock, family="awf")))
    if draw(st.booleans()):
        for content, fact in enumerate(draw(st.lists(facts, min_size=1, max_size=3))):
            sent = line("alpha", 95, fact, mapping="1", key=SPAN, content=str(content))
            done.append(("line", sent))
    done += [("sample", sample) for sample in draw(st.lists(samples, max_size=2))]
    done = draw(st.permutations(done)) if draw(st.booleans()) else done
    for path in draw(st.lists(imports, max_size=1)):
        done += [("import", (path, mapping)) for mapping in draw(st.permutations(["1", "2"]))]
    done += [("grow", each) for each in draw(st.lists(growing, max_size=1))]
    for seq in draw(st.lists(st.integers(1, 12), max_size=2)):
        done.insert(draw(st.integers(0, len(done))), ("erase", seq))
    return done


def made(folder, journal):
    """A home in which all of that was done."""
    home = Home(folder, durability="os")
    for what, part in journal:
        DEEDS[what](home, part)
    return home


def _admit(home, part):
    [verdict] = home.intake.admit([part], "tracklog")
    assert verdict.verdict != "refused", verdict


def _admit_sample(home, part):
    home.intake.admit(sampling.lines_of(part), sampling.dialect_of(part))


def _import(home, part):
    imported(home, *part)


def _erase(home, part):
    record = next(iter(home.journal.read(part - 1, 1)), None)
    if record is not None and record.seq == part:
        home.erase(f"{record.family}:{record.run}", part, reason="a secret", by="me")


def _grow(home, part):
    """Imports the first bytes of a file, and again when it is complete."""
    path, share = part
    content = path.read_bytes()
    copy = home.path.parent / f"{home.path.name}-files" / path.relative_to(IMPORTS)
    copy.parent.mkdir(parents=True, exist_ok=True)
    for part in (content[: int(len(content) * share)], content):
        copy.write_bytes(part)
        Importing(home).bring([copy])


DEEDS = {
    "line": _admit,
    "sample": _admit_sample,
    "import": _import,
    "grow": _grow,
    "erase": _erase,
}


def imported(home, path, mapping=None):
    """Brings a file into a home, under another version of its mapping if asked."""
    importing = Importing(home)
    if mapping is not None:
        importer = importing.importer_of(path)
        changed = {each.name: each for each in formats.importers()}
        changed[importer.name] = replace(importer, mapping=mapping)
        importing = Importing(home, changed.values())
    return importing.bring([path])
