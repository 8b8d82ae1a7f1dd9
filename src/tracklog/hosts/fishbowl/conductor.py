"""The conductor: decides whose turn it is, and when the play is over.

What happens next depends only on the recorded events of the run. So a process that was killed and
started again continues after the last event.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import orjson

from tracklog import Body, FishbowlEvent, Log, Record, TapeMiss, TracklogError, stamp
from tracklog.hosts._endpoint import ModelFailed
from tracklog.hosts.fishbowl import FAMILY, finale, judge
from tracklog.hosts.fishbowl.agents import take_turn
from tracklog.hosts.fishbowl.governor import BudgetExceeded
from tracklog.hosts.fishbowl.manifest import REFLECTION, VERDICT
from tracklog.hosts.fishbowl.memory import Mind
from tracklog.hosts.fishbowl.models import PlayerModel, Prompt
from tracklog.hosts.fishbowl.recorded_show import RecordedShow
from tracklog.hosts.fishbowl.scenario import Scenario
from tracklog.hosts.fishbowl.state import SKIPPED, PlayState

CONDUCTOR = "conductor"
_POLL_SECONDS = 0.1


class RunContested(TracklogError):
    """Another process wrote to this run, or the run was begun with another scenario."""


class Conductor:
    """Plays one run of one scenario; the caller holds the lease of the run."""

    def __init__(
        self,
        journal: Log,
        scenario: Scenario,
        run: str,
        models: Mapping[str, PlayerModel],
        *,
        seed: str | None = None,
        clock: Callable[[], float] = time.time,
        group: int = 1,
        watch: Callable[[Body], None] = lambda _body: None,
        tape: RecordedShow | None = None,
    ) -> None:
        """`models` has a model for each player. `group` is the number of events that are written
        together; above 1 only if no model costs anything, because events may be made again.
        `watch` is called with each written event. With a `tape`, recorded visitors speak again
        at the same places.
        """
        self.journal, self.scenario, self.run = journal, scenario, run
        self.stopping = False
        """Set it to end the run before its next turn."""
        self._models, self._clock, self._group, self._watch = models, clock, group, watch
        self._tape = tape
        self._last_stamp = (0, "")
        self._names = list(scenario.players)
        self._others = {
            name: [other for other in self._names if other != name] for name in self._names
        }
        self._seed = scenario.seed if seed is None else seed
        self._key = (FAMILY, run)
        self._unwritten: list[Body] = []
        self._declined = -1
        self._last = 0
        self._latest: Body = {}
        self._reload()

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return self.state.closes > 0 and self._after_the_end() is None

    def play(self, pause: Callable[[Body], float] = lambda _body: 0.0) -> Body:
        """Play to the end, and return the payload of `run.finished`.

        `pause` returns how many seconds to wait after an event, so that people can watch. Raises
        `BudgetExceeded` if the governor ended the run.
        """
        exceeded = None
        while not self.done:
            try:
                written = self.advance()
            except BudgetExceeded as reason:
                exceeded, written = reason, True
            if written and (seconds := pause(self._latest)) > 0:
                self._wait(seconds)
        if exceeded is not None:
            raise exceeded
        return self.state.finished or {}

    def advance(self) -> bool:
        """Make the next step of the play; True if events were written."""
        before = self.state.events
        try:
            if self._group == 1:
                self._catch_up()
            self._next()
        except (BudgetExceeded, TapeMiss) as error:
            self._finish("budget" if isinstance(error, BudgetExceeded) else "user_stop")
            self._write()
            raise
        full = len(self._unwritten) >= self._group or self.state.closes > 0
        if full and self._unwritten:
            self._write()
        return self.state.events > before and not self._unwritten

    def force_verdict(self) -> bool:
        """Ask the judge, regardless of the budget; True if there is a verdict."""
        for mind in self.state.minds:
            if mind.player.role == "judge":
                self._act(mind, forced=True)
                break
        return self.state.verdict is not None

    def _next(self) -> None:
        """Make the step that follows from the events so far."""
        state = self.state
        if state.started is None:
            self._open()
        elif not state.opened:
            self._show_scene()
        elif state.closes:
            if step := self._after_the_end():
                step()
        elif self._tape and (remark := self._tape.visitor(state.events)) is not None:
            self._emit("user.injected", "visitor", remark, turn=state.turn + 1)
        elif state.verdict is not None:
            self._finish("verdict")
        elif state.stopping or self.stopping:
            self._finish("user_stop")
        elif (mind := state.owes_reflection()) and self._declined != state.events:
            self._reflect(mind)
        else:
            self._tick()

    def _after_the_end(self) -> Callable[[], object] | None:
        """The next step after `run.finished`: with `overtime`, a verdict and a second `run.finished`."""
        state = self.state
        closed = state.finished or {}
        if state.closes != 1 or closed.get("reason") != "budget" or closed.get("winner"):
            return None
        if state.verdict is not None:
            return (lambda: self._finish("verdict")) if state.verdict.get("winner") else None
        contest = self.scenario.competition.kind != "none"
        if self.scenario.overtime and contest and not state.verdict_failed:
            return self._overtime
        return None

    def _overtime(self) -> None:
        if not self.force_verdict():
            self.state.verdict_failed = True  # it gave none, and is not asked again

    def _tick(self) -> None:
        """Ask the next player, or begin the next turn."""
        state = self.state
        if state.cursor >= len(state.minds):
            if self.scenario.ticks is not None and state.turn >= self.scenario.ticks:
                self._close()
                return
            state.begin(state.turn + 1)
            state.governor.check(self._clock())
        mind = state.minds[state.cursor]
        state.cursor += 1
        if state.due(mind):
            state.governor.check(self._clock())
            self._act(mind)

    def _close(self) -> None:
        """The last turn is over: ask the judge, if there is one, and end the run."""
        if self.state.verdict_failed or not self.force_verdict():
            self._finish("tick_cap")

    def _act(self, mind: Mind, *, forced: bool = False) -> None:
        player, state = mind.player, self.state
        on_time = forced or (player.role == "judge" and state.on_time(mind))
        kinds = [VERDICT] if forced else player.content_kinds
        prompt = self._prompt(mind, kinds, None if on_time else mind.pending)
        model = self._models[player.name]
        contest, mode = self.scenario.competition, self.scenario.authority
        try:
            reply = take_turn(model, prompt, contest, self._names, mode)
            payload = reply.payload if reply else {}
            if not model.offline:
                _check_text(payload)
        except TapeMiss:
            raise
        except Exception as error:  # noqa: BLE001  # every error is recorded
            self._skip(mind, error, forced=forced)
            return
        if reply is None:
            return
        if reply.kind == VERDICT and not reply.settled:
            payload = judge.with_truth(payload, contest, self.scenario.secrets)
        meter: Body = {"_tokens": reply.tokens} if reply.tokens else {}
        if reply.cost:
            meter["_cost_usd"] = reply.cost
        if reply.calls != 1:
            meter["_calls"] = reply.calls
        self._emit(reply.kind, player.name, payload | meter, unless_closed=not forced)

    def _reflect(self, mind: Mind) -> None:
        prompt = self._prompt(mind, [REFLECTION], mind.pending)
        model = self._models[mind.player.name]
        try:
            reply = take_turn(model, prompt, self.scenario.competition, self._names)
            if reply is not None and not model.offline:
                _check_text(reply.payload)
        except TapeMiss:
            raise
        except Exception as error:  # noqa: BLE001  # every error is recorded
            self._skip(mind, error)
            return
        if reply is None:
            self._declined = self.state.events
            return
        payload = {"text": reply.payload["text"]}
        if reply.tokens:
            payload["_tokens"] = reply.tokens
        if reply.cost:
            payload["_cost_usd"] = reply.cost
        self._emit(reply.kind, mind.player.name, payload, unless_closed=True)

    def _skip(self, mind: Mind, error: Exception, *, forced: bool = False) -> None:
        """Record the error of a player, which loses its turn; the run continues."""
        name = mind.player.name
        text = error.message if isinstance(error, TracklogError) else str(error)
        payload: Body = {
            "agent": name,
            "error": getattr(error, "was", type(error).__name__),
            "text": f"{name} loses its turn: {text.encode(errors='replace').decode()}",
        }
        if forced:
            payload["forced"] = True
        self._emit(SKIPPED, CONDUCTOR, payload, unless_closed=not forced)

    def _prompt(self, mind: Mind, kinds: list[str], about: Any) -> Prompt:
        state, name, scenario = self.state, mind.player.name, self.scenario
        return Prompt(
            player=mind.player,
            kinds=kinds,
            seed=self._seed,
            goal=scenario.goal,
            scene=state.scene,
            recall=mind.recall(),
            others=self._others[name],
            about=about,
            remarks=mind.remarks,
            remarks_by_kind=mind.remarks_by_kind,
            turn=state.turn,
            secret=scenario.secrets.get(name),
            lines=scenario.repertoire.get(name, {}),
        )

    def _open(self) -> None:
        scenario = self.scenario
        cast = {
            player.name: {
                "model_endpoint": player.model_endpoint,
                "model_profile": player.model_profile,
                "model": getattr(self._models[player.name], "name", None),
            }
            for player in scenario.cast
        }
        payload: Body = {
            "seed": self._seed,
            "goal": scenario.goal,
            "scenario": scenario.name,
            "cast": cast,
            "digest": scenario.digest(),
        }
        if scenario.competition.kind != "none":
            payload["competition"] = scenario.competition.model_dump(exclude_none=True)
        self._emit("run.started", CONDUCTOR, payload)

    def _show_scene(self) -> None:
        text = self.scenario.genesis_text.replace("{seed}", self._seed)
        self._emit("world.observed", self.scenario.name, {"text": text})

    def _finish(self, reason: str) -> None:
        state = self.state
        assert state.started is not None
        governor = state.governor
        payload = finale.finish(
            reason, state.started, state.verdict, governor.turn, governor.tokens
        )
        self._emit("run.finished", CONDUCTOR, payload)

    def _emit(
        self,
        kind: str,
        actor: str,
        payload: Body,
        *,
        turn: int | None = None,
        unless_closed: bool = False,
    ) -> None:
        """Add an event to those that will be written, and apply it to the state at once."""
        if self._group > 1:
            self._add(kind, actor, payload, turn)
            return
        with turn_lock(self.journal):
            # Events that arrived while the model was asked come first, and may have changed the turn.
            self._catch_up()
            if not (unless_closed and self.state.closes):
                self._add(kind, actor, payload, turn)
                self._admit()

    def _add(self, kind: str, actor: str, payload: Body, turn: int | None = None) -> None:
        body: Body = {
            "id": f"{self.run}/{self._own + 1}",
            "run_id": self.run,
            "turn": self.state.turn if turn is None else turn,
            "kind": kind,
            "actor": actor,
            "payload": payload,
            "created_at": self._now(),
            "schema_version": 1,
        }
        FishbowlEvent.model_validate(body)  # BOWL-61: before it is appended
        self._own += 1
        self.state.step(body)
        self._unwritten.append(body)

    def _now(self) -> str:
        """The time as text; cached, because many events have the same millisecond."""
        at = self._clock()
        if int(at * 1000) != self._last_stamp[0]:
            self._last_stamp = int(at * 1000), stamp(at)
        return self._last_stamp[1]

    def _write(self) -> None:
        """Write the new events. If others wrote to the run meanwhile, drop and make them again."""
        with turn_lock(self.journal):
            if self._others_spoke():
                self._reload()
            else:
                self._admit()

    def _admit(self) -> None:
        bodies, self._unwritten = self._unwritten, []
        if not bodies:
            return
        verdicts = self.journal.admit(map(orjson.dumps, bodies), FAMILY)
        for verdict in verdicts:
            if verdict.verdict != "accepted":
                text = "; ".join(problem.message for problem in verdict.problems)
                raise RunContested(
                    f"an event of {self.run} was not recorded: {text or 'it is a duplicate'}",
                    "another process writes to this run with the same ids; start a new run",
                )
        first, last = verdicts[0].seq or 0, verdicts[-1].seq or 0
        if first != self._last + 1 and self._others_spoke(before=first):
            # Another process wrote in between: use the order of the journal. It shows them, too.
            self._reload()
            self._latest = bodies[-1]
            return
        self._last = last
        for body in bodies:
            self._latest = body
            self._watch(body)

    def _others_spoke(self, before: int | None = None) -> bool:
        journal = self.journal
        end = journal.last if before is None else before - 1
        if end <= self._last:
            return False
        if any(True for _ in journal.read(self._last, self._key, through=end)):
            return True
        self._last = end  # other runs'
        return False

    def _catch_up(self) -> None:
        """Read what others have appended to this run."""
        end = self.journal.last
        if end > self._last:
            for record in self.journal.read(self._last, self._key, through=end):
                self._receive(record)
            self._last = end

    def _receive(self, record: Record) -> None:
        body = self._step(record)
        if body is not None:
            self._latest = body
            self._watch(body)

    def _step(self, record: Record) -> Body | None:
        if record.dialect != FAMILY or record.erased is not None:
            return None  # a note on the run is no event of the play
        event = self.journal.event(record)  # an old run is read as the current version
        if event is None:
            return None
        if event.id == f"{self.run}/{self._own + 1}":
            self._own += 1
        self.state.step(event.body)
        return event.body

    def _reload(self) -> None:
        """Compute the state from the journal again; events that are not written are dropped."""
        shown = self._last
        self.state = PlayState(self.scenario)
        self._own, self._last, self._unwritten = 0, 0, []
        rows: list[Body] = []
        for record in self.journal.read(run=self._key):
            body = self._step(record)
            self._last = record.seq
            if body is not None:
                rows.append(body)
            if body is not None and shown and record.seq > shown:
                self._watch(body)
        if self._tape is not None:
            self._tape.rewind(rows)
        started = self.state.started
        if started is not None:
            self._seed = str(started.get("seed", self._seed))
            if started.get("digest", self.scenario.digest()) != self.scenario.digest():
                raise RunContested(
                    f"the run {self.run} was begun with another scenario",
                    "continue with the unchanged file, or start a new run",
                )

    def _wait(self, seconds: float) -> None:
        """Wait this many seconds, or until somebody speaks or the end is requested."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stopping:
            if self.journal.wait(self._last, min(left, _POLL_SECONDS)):
                events = self.state.events
                self._catch_up()
                if self.state.events > events:
                    return


def _check_text(payload: Body) -> None:
    """Check that the reply of a model can be written as JSON."""
    try:
        orjson.dumps(payload)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise ModelFailed(f"the reply cannot be written as JSON: {error}") from None


def turn_lock(journal: Log) -> AbstractContextManager[bool]:
    """The lock around reading and writing a turn, so that no visitor speaks in an earlier turn."""
    return journal.lease("fishbowl.turn", wait=None)
