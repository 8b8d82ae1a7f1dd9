"""How each command-line agent is set up: one row per program, used by `command_lines.py`.

`<model>` and `<collector>` stand for the addresses of the model server and of the collector.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

CHANNELS = ("hooks", "otlp", "import")
COLUMNS = ("runs", "calls", "failed", "open", "tokens", "cached", "prompt", "words", "end")
NONE: Mapping[str, str] = MappingProxyType({})
NO_TOKENS = "no event of its hooks has tokens"
NO_TITLE = "there is no record of the model call for the title"
NO_END = "there is no record for the end of a session"


class Program(NamedTuple):
    """What is installed, how it is started without an account, and what it does not tell."""

    package: str
    arguments: tuple[str, ...]
    """Before the prompt."""
    variables: Mapping[str, str]
    files: Mapping[str, str] = NONE
    """By their place in the user's folder."""
    otlp_variables: Mapping[str, str] = NONE
    otlp_files: Mapping[str, str] = NONE
    """Text that is added to a file for telemetry."""
    not_carried: Mapping[tuple[str, str], str] = MappingProxyType({})
    """By channel and column, the reason."""
    call_spans: tuple[str, ...] = ()
    """The spans of each model call, if the program may end before it has sent all of them."""


PROGRAMS = {
    "claude": Program(
        "@anthropic-ai/claude-code",
        ("--allowedTools=Bash", "-p"),
        {
            "ANTHROPIC_BASE_URL": "<model>",
            "ANTHROPIC_API_KEY": "none",
            "DISABLE_AUTOUPDATER": "1",
        },
        otlp_variables={
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "<collector>",
            "OTEL_LOG_USER_PROMPTS": "1",
            "OTEL_LOG_TOOL_DETAILS": "1",
        },
        not_carried={
            ("hooks", "tokens"): NO_TOKENS,
            ("hooks", "cached"): NO_TOKENS,
            ("otlp", "end"): NO_END,
            ("import", "tokens"): NO_TITLE,
            ("import", "cached"): NO_TITLE,
            ("import", "end"): NO_END,
        },
    ),
    "codex": Program(
        "@openai/codex",
        (
            "exec",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--dangerously-bypass-hook-trust",
        ),
        {"MODEL_KEY": "none"},
        {
            ".codex/config.toml": 'model = "gpt-5"\nmodel_provider = "fake"\n'
            '[model_providers.fake]\nname = "fake"\nbase_url = "<model>/v1"\n'
            'wire_api = "responses"\nenv_key = "MODEL_KEY"\n'
        },
        otlp_files={
            ".codex/config.toml": "[otel]\nlog_user_prompt = true\n[otel.exporter.otlp-http]\n"
            'endpoint = "<collector>/v1/logs"\nprotocol = "binary"\n'
        },
        not_carried={
            ("hooks", "failed"): "the response of a failed command is an empty text",
            ("hooks", "tokens"): NO_TOKENS,
            ("hooks", "cached"): NO_TOKENS,
            ("otlp", "words"): "no log record has the words of the model",
            ("otlp", "end"): NO_END,
            ("import", "end"): NO_END,
        },
    ),
    "gemini": Program(
        "@google/gemini-cli",
        ("--approval-mode=yolo", "-m", "gemini-2.5-flash", "-p"),
        {
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "GOOGLE_GEMINI_BASE_URL": "<model>",
        },
        {
            ".gemini/settings.json": json.dumps(
                {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            )
        },
        otlp_variables={
            "GEMINI_TELEMETRY_ENABLED": "true",
            "GEMINI_TELEMETRY_TARGET": "local",
            "GEMINI_TELEMETRY_OTLP_PROTOCOL": "http",
            "GEMINI_TELEMETRY_OTLP_ENDPOINT": "<collector>",
        },
        not_carried={
            ("hooks", "tokens"): NO_TOKENS,
            ("hooks", "cached"): NO_TOKENS,
            ("otlp", "end"): NO_END,
            ("import", "end"): NO_END,
        },
    ),
    "copilot": Program(
        "@github/copilot",
        ("--allow-all-tools", "-p"),
        {
            "COPILOT_PROVIDER_BASE_URL": "<model>/v1",
            "COPILOT_MODEL": "fake-model",
            "COPILOT_OFFLINE": "true",
        },
        otlp_variables={
            "COPILOT_OTEL_ENABLED": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": "<collector>",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
        },
        not_carried={
            ("hooks", "tokens"): NO_TOKENS,
            ("hooks", "cached"): NO_TOKENS,
            ("hooks", "words"): "no event of its hooks has the words of the model",
        },
    ),
    "opencode": Program(
        "opencode-ai",
        ("run",),
        {},
        {
            ".config/opencode/opencode.json": json.dumps(
                {
                    "experimental": {"openTelemetry": True},  # sends only to the variable below
                    "provider": {
                        "fake": {
                            "npm": "@ai-sdk/openai-compatible",
                            "options": {"baseURL": "<model>/v1", "apiKey": "none"},
                            "models": {"fake-model": {}},
                        }
                    },
                    "model": "fake/fake-model",
                    "permission": "allow",
                }
            )
        },
        otlp_variables={
            "OTEL_EXPORTER_OTLP_ENDPOINT": "<collector>",
            "OTEL_BSP_SCHEDULE_DELAY": "200",  # it ends without sending what waits: 5 s of spans
        },
        not_carried={
            ("otlp", "failed"): "the result of a failed command is only a text",
            ("otlp", "end"): NO_END,
            ("hooks", "tokens"): NO_TITLE,
            ("hooks", "cached"): NO_TITLE,
            ("import", "tokens"): NO_TITLE,
            ("import", "cached"): NO_TITLE,
            ("import", "end"): NO_END,
        },
        call_spans=("ai.streamText", "ai.streamText.doStream"),
    ),
}
