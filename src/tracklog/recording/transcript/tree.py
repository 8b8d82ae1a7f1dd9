"""Runs that called each other, as one tree; inconsistencies are reported, and cycles are cut."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracklog.model.event import Finding
from tracklog.recording.transcript.views import TranscriptRun


@dataclass(slots=True)
class RunNode:
    """One run of a tree, with the runs that it called."""

    run_id: str
    run: TranscriptRun | None
    """None where its file is missing."""
    children: list["RunNode"] = field(default_factory=list)


def tree(runs: Mapping[str, TranscriptRun]) -> tuple[list[RunNode], list[Finding]]:
    """The roots, and the inconsistencies: missing files, wrong parents, two parents, cycles."""
    findings: list[Finding] = []
    parents = _parents(runs, findings)
    nodes = {run_id: RunNode(run_id, runs.get(run_id)) for run_id in {**runs, **parents}}
    roots: list[RunNode] = []
    for run_id, node in nodes.items():
        parent = parents.get(run_id)
        if parent is None or _loops(run_id, parents):
            if parent is not None:
                findings.append(
                    Finding("link-cycle", f"{run_id} is called from inside itself", "error")
                )
                parents[run_id] = None
            roots.append(node)
        else:
            nodes[parent].children.append(node)
    return roots, findings


def _parents(runs: Mapping[str, TranscriptRun], findings: list[Finding]) -> dict[str, str | None]:
    """The caller of each run, by `child_run_id`, checked against `parent_run_id`."""
    parents: dict[str, str | None] = {}
    for run in runs.values():
        for step in run.steps:
            child = step.child_run_id
            if child is None:
                continue
            if parents.get(child) not in (None, run.run_id):
                message = f"{child} is called by {parents[child]} and by {run.run_id}"
                findings.append(Finding("link-parent", message))
                continue
            parents[child] = run.run_id
            if child not in runs:
                findings.append(Finding("link-child", f"the transcript of {child} is missing"))
    for run_id, run in runs.items():
        named, calls = run.parent_run_id, parents.get(run_id)
        if named != calls and (named in runs or calls is not None):
            message = f"{run_id} names {named} as its parent, but was called by {calls}"
            findings.append(Finding("link-parent", message))
        if calls is None and named in runs:
            parents[run_id] = named
    return parents


def _loops(run_id: str, parents: Mapping[str, str | None]) -> bool:
    seen: set[str] = set()
    at: str | None = run_id
    while at is not None and at not in seen:
        seen.add(at)
        at = parents.get(at)
    return at == run_id
