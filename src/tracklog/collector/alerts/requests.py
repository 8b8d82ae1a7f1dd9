"""Alerts over HTTP: what fires, what fired, the rules and the silences; `worker.py` evaluates them."""

from collections import deque
from typing import TYPE_CHECKING

from starlette.responses import Response

from tracklog.answers import key_of
from tracklog.collector.alerts import evaluator
from tracklog.collector.alerts.rules import Rule, Silence
from tracklog.collector.alerts.tables import run_values
from tracklog.collector.setting_shapes import (
    AlertChangeRow,
    AlertRuleRow,
    AlertState,
    CostLimit,
    CostLimits,
    IncidentRow,
    Silenced,
    SilenceRow,
)
from tracklog.folds import number
from tracklog.journal.frame import stamp
from tracklog.web import bodies
from tracklog.web.guard import LOCAL
from tracklog.web.trouble import Trouble, json_response

if TYPE_CHECKING:
    from tracklog.collector.alerts.incidents import Incident
    from tracklog.collector.app import Collector
    from tracklog.web.routing import RoutedRequest

_WANTED = 'send {"match": {"rule": "waiting"}, "minutes": 30, "because": "a meeting", "by": "ada"}'
_CHANGES = 50
_LONGEST_SILENCE = 60 * 24 * 31  # minutes


async def state(collector: "Collector", call: "RoutedRequest") -> Response:  # noqa: ARG001  # an endpoint
    """What fires and what fired, the rules and the silences."""
    return json_response(await collector.runner.run(lambda: _state(collector)))


async def silence(collector: "Collector", call: "RoutedRequest") -> Response:
    """Record a silence."""
    body = await bodies.json_object(call.receive, call.headers, collector.held, _WANTED)
    match, minutes = body.get("match"), number(body.get("minutes"))
    if not isinstance(match, dict) or not match:
        raise Trouble(400, "/match names no field", _WANTED)
    if not all(isinstance(each, str) and 0 < len(each) <= 256 for each in match.values()):
        raise Trouble(400, "/match has a pattern that is no text of 1 to 256 characters", _WANTED)
    if minutes is None or not 0 < minutes <= _LONGEST_SILENCE:
        raise Trouble(400, "/minutes is not valid", "a number above 0, at most a month")
    by = call.identity.name if call.identity is not LOCAL else body.get("by")
    texts = {"by": by, "because": body.get("because")}
    for name, text in texts.items():
        if not isinstance(text, str) or not 0 < len(text) <= 256:
            raise Trouble(400, f"/{name} is no text of 1 to 256 characters", _WANTED)

    def record() -> Silenced:
        until = stamp(collector.home.clock() + minutes * 60)
        rule = Silence.model_validate({"match": match, "until": until, **texts})
        return {"seq": evaluator.silence(collector.home, rule), "until": until}

    recorded = await collector.runner.run(record)
    collector.hub.poke()
    return json_response(recorded)


async def cost_limits(collector: "Collector", call: "RoutedRequest") -> Response:
    """The costs above which rules fire about a run."""
    run = f"{call.names['family']}:{call.names['run']}"
    return json_response(await collector.runner.ask(lambda: _cost_limits(collector, run)))


def _cost_limits(collector: "Collector", run: str) -> CostLimits:
    home = collector.home
    key = key_of(home, run)
    rules = collector.alerter.rules.rules if collector.alerter is not None else []
    own = [rule for rule in rules if rule.of == "runs" and "cost" in rule.when]
    values = run_values(home, key, home.clock()) if own else {}
    found = [(rule.name, rule.limit("cost", values)) for rule in own]
    limits: list[CostLimit] = [{"rule": name, "usd": usd} for name, usd in found if usd is not None]
    return {"limits": sorted(limits, key=lambda each: each["usd"])}


def _state(collector: "Collector") -> AlertState:
    home = collector.home
    now = home.clock()
    notes = list(evaluator.notes(home))
    changes = deque(map(_change, evaluator.entries(home, 5000)))
    silences = [
        Silence.model_validate(note.data) for note in notes if note.label == evaluator.SILENCE
    ]
    alerter = collector.alerter
    rules = alerter.rules.rules if alerter is not None else []
    looks = alerter.evaluator if alerter is not None else None
    if alerter is not None:
        silences = [*alerter.rules.silences, *silences]
    named = {rule.name: rule for rule in rules}
    held = [each for each in silences if each.until.timestamp() > now]
    known = [] if looks is None else [each for each in looks.incidents if each.rule in named]
    return {
        "evaluated": looks is not None,
        "rules": [_rule(rule, changes) for rule in rules],
        "incidents": [_incident(each, named[each.rule], held, now) for each in known]
        if looks is not None
        else _recorded(changes),
        "changes": list(changes)[: -_CHANGES - 1 : -1],
        "silences": [_silence(each) for each in held],
    }


def _rule(rule: Rule, changes: "deque[AlertChangeRow]") -> AlertRuleRow:
    fired = [
        each["at"] for each in changes if (each["rule"], each["state"]) == (rule.name, "firing")
    ]
    return {
        "name": rule.name,
        "of": rule.of,
        "when": ", ".join(f"{name} {_words(wanted)}" for name, wanted in rule.when.items()),
        "seconds": rule.after,
        "severity": rule.severity,
        "to": list(rule.to),
        "last_fired": fired[-1] if fired else None,
    }


def _words(wanted: object) -> str:
    if isinstance(wanted, list):
        return " or ".join(map(_words, wanted))
    text = str(wanted).lower() if isinstance(wanted, bool) else str(wanted)
    return text if text[:1] in "<>!" else f"is {text}"


def _incident(each: "Incident", rule: Rule, silences: list[Silence], now: float) -> IncidentRow:
    values = {"severity": rule.severity, "rule": rule.name, "key": each.key}
    quiet = next((one for one in silences if one.covers(values, now)), None)
    return {
        "id": each.id,
        "rule": each.rule,
        "key": each.key,
        "of": rule.of,
        "state": "firing" if each.firing else "pending",
        "since": stamp(each.since),
        "severity": rule.severity,
        "summary": each.summary,
        "silenced": None if quiet is None else f"{quiet.by}: {quiet.because}",
    }


def _recorded(changes: "deque[AlertChangeRow]") -> list[IncidentRow]:
    """What fires by the journal, where another process looks at the rules, or none."""
    open_: dict[tuple[str, str], IncidentRow] = {}
    for change in changes:
        key = (change["rule"], change["key"])
        if change["state"] == "resolved":
            open_.pop(key, None)
        else:
            since = open_[key]["since"] if key in open_ else change["at"]
            open_[key] = {
                "id": change["id"],
                "rule": change["rule"],
                "key": change["key"],
                "of": "",
                "state": "firing",
                "since": since,
                "severity": change["severity"],
                "summary": change["summary"],
                "silenced": change["silenced"],
            }
    return list(open_.values())


def _change(entry: evaluator.AlertEntry) -> AlertChangeRow:
    change = entry.change
    return {
        "at": stamp(change.at),
        "id": change.id,
        "rule": change.rule,
        "key": change.key,
        "state": change.state,
        "severity": change.severity,
        "summary": change.summary,
        "to": list(change.to),
        "sent": list(entry.sent),
        "silenced": change.silenced,
    }


def _silence(each: Silence) -> SilenceRow:
    until = stamp(each.until.timestamp())
    return {"match": each.match, "until": until, "by": each.by, "because": each.because}
