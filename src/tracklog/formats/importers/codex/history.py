"""The prompts that were typed into Codex, which stores them separately."""

from tracklog.formats.importers import Raw, Reader, moment, run_id, word
from tracklog.formats.importers.codex.record import NAME
from tracklog.model.fact import Noted

FILE = "history.jsonl"
KEYS = {"session_id", "ts", "text"}


class CodexHistoryReader(Reader):
    """Reads one prompt per record: a note on the run of its thread; the rollout has the message."""

    def identify(self, raw: Raw) -> str | None:  # noqa: ARG002  # each says whose it is
        return run_id(NAME, "history")

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.out.unknown("history", self.out.about(raw, bare=True))
            return
        at = moment(value.get("ts"))
        said = self.out.about(raw, bare=at is None)
        thread = word(said.get("session_id"))
        rest = {key: each for key, each in said.items() if key not in KEYS}
        noted = Noted(label="typed", kind="history", text=word(said.get("text")), data=rest or None)
        self.out.write(noted, at=at, run=run_id(NAME, thread) if thread else None)
        self.out.report.mapped["history"] += 1
