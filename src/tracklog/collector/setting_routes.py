"""The routes of the settings and of the alerts."""

from functools import partial

from tracklog.collector import settings
from tracklog.collector.alerts import requests as alerts
from tracklog.collector.setting_shapes import (
    AlertState,
    ByBody,
    CheckpointState,
    CostLimits,
    NewToken,
    PriceBody,
    PriceList,
    SilenceBody,
    Silenced,
    StorageUse,
    TokenBody,
    TokenList,
)
from tracklog.web.routing import Route
from tracklog.web.token_changes import TokenRow

_JSON = frozenset({b"application/json"})
_get = partial(Route, method="GET")
_post = partial(
    Route,
    method="POST",
    takes=_JSON,
    answers={
        413: "The body is too large.",
        415: "The content type is not JSON.",
        429: "Too many requests.",
        503: "The disk or the database failed; nothing was changed.",
    },
)
_NO_TOKEN = {404: "There is no such token."}

ROUTES: tuple[Route, ...] = (
    _get(
        path="/api/alerts",
        endpoint=alerts.state,
        about="The alerts: what fires and what is about to, what fired last, the rules and the "
        "silences.",
        result=AlertState,
    ),
    _get(
        path="/api/runs/{family}/{run}/cost-limits",
        endpoint=alerts.cost_limits,
        about="The costs of a run above which rules of the alerts fire; empty if no rule looks at its cost.",
        result=CostLimits,
        answers={404: "There is no such run."},
    ),
    _post(
        path="/api/alerts/silences",
        endpoint=alerts.silence,
        about="Send nothing about matching alerts for some time, as `tracklog alerts silence` "
        "does; they are still recorded.",
        body=SilenceBody,
        result=Silenced,
    ),
    _get(
        path="/api/settings/tokens",
        endpoint=settings.tokens,
        about="The tokens of this collector, never the tokens themselves.",
        needs=("admin",),
        result=TokenList,
    ),
    _post(
        path="/api/settings/tokens",
        endpoint=settings.create_token,
        about="Make a token. It is in the answer, and cannot be asked for again. With the first "
        "token, the collector asks every client for one.",
        body=TokenBody,
        needs=("admin",),
        result=NewToken,
    ),
    _post(
        path="/api/settings/tokens/{token}/revoke",
        endpoint=settings.revoke_token,
        about="End a token at once.",
        body=ByBody,
        needs=("admin",),
        result=TokenRow,
        answers={
            **_post.keywords["answers"],
            **_NO_TOKEN,
            409: "It is the last token of an administrator.",
        },
    ),
    _get(
        path="/api/settings/prices",
        endpoint=settings.price_list,
        about="The prices of the models that were used, today.",
        result=PriceList,
    ),
    _post(
        path="/api/settings/prices",
        endpoint=settings.set_price,
        about="Set a price of this home, which is used instead of that of the list.",
        body=PriceBody,
        needs=("admin",),
        result=PriceList,
    ),
    _get(
        path="/api/settings/storage",
        endpoint=settings.storage,
        about="How much space the journal, its large values and its index take on the disk.",
        result=StorageUse,
    ),
    _get(
        path="/api/settings/checkpoints",
        endpoint=settings.checkpoints,
        about="The last checkpoint: how many records it has, who signed it, how many records are newer.",
        result=CheckpointState,
    ),
    _post(
        path="/api/settings/checkpoints",
        endpoint=settings.make_checkpoint,
        about="Sign a checkpoint of everything that is stored, as `tracklog checkpoint` does.",
        body=ByBody,
        needs=("admin",),
        result=CheckpointState,
    ),
)
