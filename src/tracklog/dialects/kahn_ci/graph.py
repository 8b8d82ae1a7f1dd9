"""The rules of a graph that its schema cannot express."""

from tracklog.model.event import Body, Finding


def lint_graph(graph: Body) -> list[Finding]:
    """K32: the rules of a graph that its schema cannot express."""
    findings: list[Finding] = []
    edges: dict[str, list[str]] = {}
    for node in graph["nodes"]:
        if node["id"] in edges:
            findings.append(
                Finding("node-id-reused", f"two nodes are called {node['id']}", "error")
            )
        edges[node["id"]] = [*edges.get(node["id"], ()), *node["depends_on"]]
    for name, parents in edges.items():
        findings += [
            Finding(
                "unknown-dependency", f"{name} depends on {parent}, which is not there", "error"
            )
            for parent in parents
            if parent not in edges
        ]
    if all(node["depends_on"] for node in graph["nodes"]):
        findings.append(Finding("no-root", "no node without dependencies", "error"))
    if cycle := _cycle(edges):
        findings.append(Finding("cycle", f"a cycle: {' -> '.join(cycle)}", "error"))
    return findings


def _cycle(edges: dict[str, list[str]]) -> list[str]:
    """A cycle in the dependencies; [] where there is none."""
    waits = {name: sum(parent in edges for parent in set(edges[name])) for name in edges}
    children: dict[str, list[str]] = {name: [] for name in edges}
    for name, parents in edges.items():
        for parent in set(parents) & edges.keys():
            children[parent].append(name)
    free = [name for name, count in waits.items() if not count]
    while free:
        name = free.pop()
        del waits[name]
        for child in children[name]:
            waits[child] -= 1
            if not waits[child]:
                free.append(child)
    if not waits:
        return []
    # Each remaining node depends on another remaining node, so the path must reach one twice.
    way: dict[str, None] = {}
    following = min(waits)
    while following not in way:
        way[following] = None
        following = next(each for each in edges[following] if each in waits)
    names = list(way)
    return [*names[names.index(following) :], following]
