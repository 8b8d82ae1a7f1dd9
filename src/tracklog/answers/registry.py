"""Every question, by name."""

from tracklog.answers import Question
from tracklog.home.plugs import Registry

MACHINERY = (
    "alignment", "buckets", "causality", "doctor", "duplicates", "phrases", "prices", "ranges",
    "registry", "related", "run_filter", "run_list", "run_marks", "run_params", "run_steps",
    "run_turns", "spends", "status", "totals",
)  # fmt: skip  # one row
"""The files of `answers` that are no question."""

_questions: Registry[Question] = Registry("tracklog.answers", Question, besides=MACHINERY)

question, questions, question_names = _questions.get, _questions.all, _questions.names
