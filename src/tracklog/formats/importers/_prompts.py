"""Read the history of a command line: the prompts that a user typed, in all conversations."""

from tracklog.formats.importers import Raw, Reader, run_id, utc_time, word
from tracklog.model.fact import Noted


class PromptReader(Reader):
    """Reads one prompt per record: a note on the run of its conversation, which has the message."""

    tool: str
    """The name of the importer."""
    text: str
    """The key of the prompt. The other two are those of its time and of its conversation."""
    time: str
    conversation: str

    def identify(self, raw: Raw) -> str | None:  # noqa: ARG002  # each record names its own run
        return run_id(self.tool, "history")

    def record(self, raw: Raw) -> None:
        value = raw.value
        if not isinstance(value, dict):
            self.out.unknown("history", self.out.about(raw, bare=True))
            return
        at = utc_time(value.get(self.time))
        fields = self.out.about(raw, bare=at is None)
        used = (self.text, self.time, self.conversation)
        rest = {k: v for k, v in fields.items() if k not in used and v not in ({}, None)}
        note = Noted(
            label="typed", kind="history", text=word(fields.get(self.text)), data=rest or None
        )
        native = word(fields.get(self.conversation))
        self.out.write(note, at=at, run=run_id(self.tool, native) if native else None)
        self.out.report.mapped["history"] += 1
