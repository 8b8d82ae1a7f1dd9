"""Errors of the protocol: the codes, their statuses, and the closed envelope."""

from collections.abc import Mapping
from typing import Any

STATUS = {
    "validation_error": 400,
    "idempotency_key_invalid": 400,
    "protocol_version_mismatch": 400,
    "unsupported_force_engine_version": 400,
    "unsupported_mock_provider": 400,
    "unsupported_stream_mode": 400,
    "webhook_url_rejected": 400,
    "interrupt_token_invalid": 401,
    "unauthenticated": 401,
    "forbidden": 403,
    "force_engine_version_forbidden": 403,
    "id_tenant_mismatch": 403,
    "mock_provider_forbidden": 403,
    "not_found": 404,
    "run_not_found": 404,
    "workflow_not_found": 404,
    "interrupt_not_found": 404,
    "subscription_not_found": 404,
    "method_not_allowed": 405,
    "protocol_version_unsupported": 406,
    "idempotency_key_mismatch": 409,
    "interrupt_already_resolved": 409,
    "run_already_active": 409,
    "run_state_conflict": 409,
    "run_terminal": 409,
    "version_conflict": 409,
    "interrupt_expired": 410,
    "payload_too_large": 413,
    "request_too_large": 413,
    "unsupported_media_type": 415,
    "misdirected_request": 421,
    "capability_required": 422,
    "correlation_mismatch": 422,
    "engine_version_mismatch": 422,
    "fork_out_of_range": 422,
    "fork_point_invalid": 422,
    "client_version_unsupported": 426,
    "rate_limited": 429,
    "event_type_unmapped": 500,
    "internal_error": 500,
    "service_unavailable": 503,
    "unavailable": 503,
}
FIRST = ("validation_error", "unauthenticated", "forbidden", "not_found", "internal_error")
CODES = {status: code for code, status in reversed(STATUS.items())} | {
    STATUS[code]: code for code in FIRST
}
"""A code for each status."""
CODES |= {413: "request_too_large", 422: "capability_required", 503: "unavailable"}


class Failure(Exception):
    """A request that ends here: the closed error envelope, and nothing beside it."""

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, dict(details or {})
        self.headers = dict(headers or {})

    @property
    def envelope(self) -> dict[str, Any]:
        """The body of the response."""
        data: dict[str, Any] = {"error": self.code, "message": self.message}
        return {**data, "details": self.details} if self.details else data


def unauthenticated() -> Failure:
    """The refusal of a request without a key, or with one that is not accepted."""
    data = {"WWW-Authenticate": "Bearer"}
    return Failure("unauthenticated", "a valid bearer key is needed", None, data)
