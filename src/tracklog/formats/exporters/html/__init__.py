"""html: the run as one self-contained page."""

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256

from tracklog.formats.exporters import Exporter, ExportRun, Option, Options, every, full_lines, utc
from tracklog.formats.exporters.html.elements import class_of, duration, text
from tracklog.formats.exporters.html.style import CSS
from tracklog.formats.exporters.html.transcript import Transcript
from tracklog.formats.exporters.html.waterfall import waterfall
from tracklog.formats.loss import Fate
from tracklog.model.fact import Decided, Ended, Linked


def write(run: ExportRun, options: Options) -> Iterator[bytes]:
    for part in _page(run, lines=options["lines"] == "yes"):
        yield part.encode("utf-8", "replace")


def _page(run: ExportRun, *, lines: bool) -> Iterator[str]:
    digest = b64encode(sha256(CSS.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = text(_title(run))
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} · tracklog</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
    )
    yield f"<header>\n{_head(run, 'h1')}</header>\n<main>\n"
    findings: list[tuple[int | None, str, str, str]] = []
    for number, each in enumerate(run):
        if number:
            yield f'<section class="below" id="r{number}">\n{_head(each, "h2")}'
        else:
            yield from waterfall(run.spans()) if run.spans else ()
            yield _contents(run)
        yield from _transcript(each, findings, lines=lines)
        yield "</section>\n" if number else ""
    yield from _findings(findings)
    yield from _marks(run)
    yield "</main>\n<footer><p>"
    yield f"Written by tracklog from the records of {text(run.family)}:{text(run.id)}."
    yield " Every event can be linked to as <code>#e</code> and its number.</p></footer>\n"
    yield "</body>\n</html>\n"


def _title(run: ExportRun) -> str:
    return str(run.summary.get("title") or run.id)


def _head(run: ExportRun, tag: str) -> str:
    row = run.summary
    status = str(row.get("status") or "working")
    software = run.opening.get("software") or {}
    names = [software.get("name"), software.get("version")]
    names = [" ".join(str(each) for each in names if each), *(row.get("dialects") or ())]
    line = " · ".join(["flight record", *filter(None, names)])
    parts = [f'<p class="over">{text(line)}</p>\n']
    parts.append(f"<{tag}>{text(_title(run))}</{tag}>\n")
    if _title(run) != run.id:
        parts.append(f'<p class="run mono">{text(run.id)}</p>\n')
    parts.append("<dl>\n")
    pill = f'<span class="pill {class_of(status)}">{text(status)}</span>'
    parts.append(_stat("status", pill))
    for name, value in _stats(run):
        parts.append(_stat(name, text(value)))
    parts.append("</dl>\n")
    if run.proof:
        head = run.proof.get("head") or {}
        place = f"{head.get('through')}:{head.get('chain')}"
        line = f"Proven against the journal's chain, head <code>{text(place)}</code>."
        parts.append(f'<p class="proof"><span class="ok">✓</span> {line}</p>\n')
    elif tag == "h1":
        parts.append('<p class="proof">Not proven: the page was written without a proof.</p>\n')
    return "".join(parts)


def _stat(name: str, value: str) -> str:
    return f"<div><dt>{name}</dt><dd>{value}</dd></div>\n"


def _stats(run: ExportRun) -> Iterator[tuple[str, str]]:
    row = run.summary
    if row.get("outcome") is not None:
        yield "outcome", str(row["outcome"])
    if row.get("score") is not None:
        yield "score", f"{row['score']:g}"
    if row.get("seconds") is not None:
        yield "duration", duration(float(row["seconds"]))
    if row.get("cost_usd") is not None:
        yield "cost", f"${row['cost_usd']:,.4f}".rstrip("0").rstrip(".")
    if row.get("tokens") is not None:
        yield "tokens", f"{row['tokens']:,}"
    if row.get("tool_calls"):
        failed = f", {row['tool_failures']:,} failed" if row.get("tool_failures") else ""
        yield "tool calls", f"{row['tool_calls']:,}{failed}"
    if row.get("agents"):
        yield "agents", ", ".join(map(str, row["agents"]))
    if row.get("first_seq"):
        yield "records", f"{row['first_seq']} – {row['last_seq']}"
    if row.get("first_at") or row.get("first_received"):
        began = utc(row.get("first_at")) or str(row.get("first_received"))
        yield "began", f"{began[:10]} {began[11:19]} UTC"


def _marks(run: ExportRun) -> Iterator[str]:
    """What people noted about the run and its records."""
    rows = [(entry, mark) for entry in run.lines() for mark in entry.marks]
    withdrawn = {mark.withdraws for _, mark in rows if mark.withdraws is not None}
    held = [
        (entry, mark)
        for entry, mark in rows
        if mark.withdraws is None and not withdrawn.intersection(entry.names)
    ]
    if not held:
        return
    yield '<section class="marks">\n<h2 id="marks">Marks of people</h2>\n<ul class="list">\n'
    for entry, mark in held:
        where = f" on #{mark.record}" if mark.record else ""
        words = [
            *([f"tag {mark.tag}"] if mark.tag is not None else ()),
            *([f"score {mark.score:g}"] if mark.score is not None else ()),
            *([str(mark.note)] if mark.note is not None else ()),
            *([] if mark.seen is None else ["seen" if mark.seen else "not seen"]),
        ]
        by = ", ".join(filter(None, (mark.by, mark.claimed_by and f"as {mark.claimed_by}")))
        yield f"<li>{text(', '.join(words))}{where} "
        yield f'<span class="soft">{text(by)} {text(entry.at[:16].replace("T", " "))}</span></li>\n'
    yield "</ul>\n</section>\n"


def _contents(run: ExportRun) -> str:
    """The runs below, with links."""
    rows = [
        f'<li><a href="#r{number}">{text(_title(each))}</a> '
        f'<span class="soft">{text(each.summary.get("status") or "")}</span></li>\n'
        for number, each in enumerate(run)
        if number
    ]
    return (
        f'<h2>Runs below</h2>\n<ul class="list">{"".join(rows)}</ul>\n'
        if rows
        else "<h2>Records</h2>\n"
    )


def _transcript(
    run: ExportRun, findings: list[tuple[int | None, str, str, str]], *, lines: bool
) -> Iterator[str]:
    page = Transcript(_title(run), run)
    for entry in page.ahead(run.records()):
        findings += [(entry.seq, *finding) for finding in entry.findings]
        yield page.article(entry, lines=lines)
    findings += [(None, *finding) for finding in run.findings]


def _findings(findings: list[tuple[int | None, str, str, str]]) -> Iterator[str]:
    if not findings:
        return
    yield '<h2 id="findings">Findings</h2>\n<ul class="list">\n'
    for seq, name, message, level in findings:
        where = f'<a href="#e{seq}">#{seq}</a> ' if seq else ""
        yield f'<li><b class="{class_of(level)}">{text(name)}</b> {where}{text(message)}</li>\n'
    yield "</ul>\n"


def fates(options: Options) -> dict[str, Fate]:
    carried: Fate = "carried" if options["lines"] == "yes" else "dropped"
    shown = {
        "Said": "role blocks agent model to stop_reason",
        "Called": "tool input agent",
        "Returned": "output error tool exit_code",
        "Moved": "from to agent step reason",
        "Began": "what task agent step model software host cwd git counts",
        "Asked": "question_id text what options schema expires agent",
        "Answered": "question_id answer by agent",
        "Noted": "label kind text data agent step",
        "Spent": "usage cost_usd model provider agent step",
    }
    shown_fates: dict[str, Fate] = {
        f"{fact}.{name}": "kept" for fact, names in shown.items() for name in names.split()
    }
    shown_fates |= every("kept", (Ended, Decided, Linked))
    shown_fates |= dict.fromkeys(("Ended.fidelity", "Decided.fidelity", "Linked.fidelity"), carried)
    return full_lines(carried) | shown_fates | {"at": "kept", "sub-run": "kept"}


exporter = Exporter(
    name="html",
    about="One self-contained page, to read, print and send.",
    media_type="text/html; charset=utf-8",
    suffix=".html",
    write=write,
    fates=fates,
    proof="inside",
    options={
        "lines": Option("Each line as it is, folded below its event.", ("yes", "no"), "yes"),
    },
)
