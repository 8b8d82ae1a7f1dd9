"""One small agent per framework: run as a program, in an environment that has the framework.

`python frameworks_programs.py NAME CHANNEL`, where the channel is `otlp` or `adapter`. The agent
asks the model server at MODEL_URL, has one tool that works the first time and fails the second
time, and is recorded by the collector at TRACKLOG_URL.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

PROMPT, MODEL = os.environ["MODEL_PROMPT"], "fake-model"
BAD = os.environ["MODEL_BAD_COMMAND"]
BASE = os.environ["MODEL_URL"] + "/v1"


def run_shell_command(command: str) -> str:
    """Run a command and return what it prints.

    Args:
        command: the command

    """
    if command == BAD:
        raise RuntimeError("it-broke")
    return "hello-from-the-tool"


def tracer() -> Any:
    """A tracer provider that sends to the collector."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=os.environ["TRACKLOG_URL"] + "/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


def langchain(channel: str) -> None:
    from langchain.agents import create_agent
    from langchain.agents.middleware import wrap_tool_call
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    @wrap_tool_call
    def go_on(request: Any, call: Any) -> Any:
        try:
            return call(request)
        except RuntimeError as error:
            id = request.tool_call["id"]
            return ToolMessage(content=f"failed: {error}", tool_call_id=id, status="error")

    callbacks, provider = [], None
    if channel == "adapter":
        from tracklog.formats.adapters.langchain import handler

        callbacks.append(sampled(handler(), "on_"))
    else:
        from openinference.instrumentation.langchain import LangChainInstrumentor

        provider = tracer()
        LangChainInstrumentor().instrument(tracer_provider=provider)
    model = ChatOpenAI(model=MODEL, base_url=BASE, api_key="none")
    tools = [tool(run_shell_command)]
    agent = create_agent(model, tools, middleware=[go_on], system_prompt="Be brief.", name="worker")
    agent.invoke(
        {"messages": [{"role": "user", "content": PROMPT}]}, config={"callbacks": callbacks}
    )
    finish(provider, *callbacks)


def openai_agents(channel: str) -> None:
    from openai import AsyncOpenAI

    from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_trace_processors

    provider, made = None, None
    if channel == "adapter":
        from tracklog.formats.adapters.openai_agents import processor

        made = sampled(processor(), "on_")
        set_trace_processors([made])
    else:
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        provider = tracer()
        set_trace_processors([])
        OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)
    model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=BASE, api_key="none"))
    tools = [function_tool(run_shell_command)]
    agent = Agent(name="worker", instructions="Be brief.", model=model, tools=tools)
    Runner.run_sync(agent, PROMPT)
    finish(provider, made)


def claude_agent_sdk(channel: str) -> None:
    from claude_agent_sdk import ClaudeAgentOptions, query

    from tracklog.formats.adapters.claude_agent_sdk import SessionRecorder

    home = os.environ["HOME"]
    env = {
        "ANTHROPIC_BASE_URL": os.environ["MODEL_URL"],
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": home,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    if channel == "otlp":
        env |= {
            "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
            "OTEL_LOGS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": os.environ["TRACKLOG_URL"],
            "OTEL_LOG_USER_PROMPTS": "1",
            "OTEL_LOG_TOOL_DETAILS": "1",
        }
    options = ClaudeAgentOptions(cwd=home, allowed_tools=["Bash"], env=env)
    recorder = sampled(SessionRecorder(), "_message")

    async def ask() -> None:
        messages = query(prompt=PROMPT, options=options)
        async for _ in recorder.stream(messages, PROMPT) if channel == "adapter" else messages:
            pass

    asyncio.run(ask())
    finish(None, recorder if channel == "adapter" else None)


def pydantic_ai(_channel: str) -> None:
    from pydantic_ai import Agent, InstrumentationSettings, ModelRetry
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = tracer()
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key="none"))
    agent = Agent(model, name="worker", instructions="Be brief.")

    @agent.tool_plain(name="run_shell_command")
    def run(command: str) -> str:
        try:
            return run_shell_command(command)
        except RuntimeError as error:
            raise ModelRetry(str(error)) from error

    agent.run_sync(PROMPT)
    finish(provider)


def smolagents(_channel: str) -> None:
    from openinference.instrumentation.smolagents import SmolagentsInstrumentor
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    provider = tracer()
    SmolagentsInstrumentor().instrument(tracer_provider=provider)
    roles = {"tool-response": "tool", "tool-call": "assistant"}
    model = OpenAIServerModel(
        model_id=MODEL, api_base=BASE, api_key="none", custom_role_conversions=roles
    )
    agent = ToolCallingAgent(tools=[tool(run_shell_command)], model=model, max_steps=3)
    agent.run(PROMPT)
    finish(provider)


def llama_index(_channel: str) -> None:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

    provider = tracer()
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
    options = {"is_chat_model": True, "is_function_calling_model": True}
    model = OpenAILike(model=MODEL, api_base=BASE, api_key="none", **options)
    tools = [FunctionTool.from_defaults(run_shell_command)]
    agent = FunctionAgent(name="worker", tools=tools, llm=model, system_prompt="Be brief.")

    async def ask() -> None:
        await agent.run(user_msg=PROMPT)

    asyncio.run(ask())
    finish(provider)


def crewai(_channel: str) -> None:
    from crewai import LLM, Agent, Crew, Task
    from crewai.tools import tool
    from openinference.instrumentation.crewai import CrewAIInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    provider = tracer()
    CrewAIInstrumentor().instrument(tracer_provider=provider)
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    model = LLM(model=f"openai/{MODEL}", base_url=BASE, api_key="none")
    tools = [tool("run_shell_command")(run_shell_command)]
    agent = Agent(role="worker", goal="obey", backstory="none", llm=model, tools=tools)
    task = Task(description=PROMPT, expected_output="words", agent=agent)
    Crew(agents=[agent], tasks=[task]).kickoff()
    finish(provider)


def autogen(_channel: str) -> None:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core import SingleThreadedAgentRuntime
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    provider = tracer()
    info = {
        "vision": False, "function_calling": True, "json_output": False, "family": "unknown",
        "structured_output": False,
    }  # fmt: skip  # one table
    model = OpenAIChatCompletionClient(model=MODEL, base_url=BASE, api_key="none", model_info=info)
    SingleThreadedAgentRuntime(tracer_provider=provider)
    agent = AssistantAgent(
        "worker",
        model,
        tools=[run_shell_command],
        max_tool_iterations=4,
        system_message="Be brief.",
    )

    async def ask() -> None:
        await agent.run(task=PROMPT)

    asyncio.run(ask())
    finish(provider)


def litellm(_channel: str) -> None:
    provider = tracer()
    os.environ |= {
        "OTEL_EXPORTER": "otlp_http",
        "OTEL_ENDPOINT": os.environ["TRACKLOG_URL"] + "/v1/traces",
    }
    import litellm as library

    library.callbacks = ["otel"]
    with provider.get_tracer("agent").start_as_current_span("agent"):
        _ask_litellm(library)
    finish(provider)


def _ask_litellm(library: Any) -> None:
    """A loop as a program writes it that has no framework: LiteLLM only calls the model."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    function = {"name": "run_shell_command", "description": "Run it.", "parameters": schema}
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in range(3):
        answer = library.completion(
            model=f"openai/{MODEL}", api_base=BASE, api_key="none", messages=messages,
            tools=[{"type": "function", "function": function}],
        )  # fmt: skip  # one call
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls or ():
            try:
                content = run_shell_command(**json.loads(call.function.arguments))
            except RuntimeError as error:
                content = f"failed: {error}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def finish(provider: Any, *recorders: Any) -> None:
    """Send what is waiting."""
    for each in (provider, *recorders):
        for name in ("force_flush", "close"):
            if hasattr(each, name):
                getattr(each, name)()


def sampled(adapter: Any, prefix: str) -> Any:
    """The adapter; what it is called with is also written to the file SAMPLES, if that is set."""
    path = os.environ.get("SAMPLES")
    if path:
        file = Path(path).open("w")  # noqa: SIM115  # until the program ends
        for name in [each for each in dir(adapter) if each.startswith(prefix)]:
            original = getattr(adapter, name)

            def noted(*args: Any, _name: str = name, _to: Any = original, **kwargs: Any) -> Any:
                call = [_name, [shape(each) for each in args], shape(kwargs)]
                file.write(json.dumps(call) + "\n")
                file.flush()
                return _to(*args, **kwargs)

            setattr(adapter, name, noted)
    return adapter


NOISE = {
    "additional_kwargs",
    "tags",
    "invalid_tool_calls",
    "options",
    "batch_size",
    "color",
    "langgraph_triggers",
    "langgraph_path",
    "langgraph_checkpoint_ns",
    "tools",
    "tool_choice",
    "llm_output",
    "generation_info",
    "headers",
    "token_usage",
    "mcp_servers",
    "slash_commands",
    "agents",
    "skills",
    "plugins",
    "memory_paths",
    "uuid",
    "apiKeySource",
    "permissionMode",
    "capabilities",
    "versions",
    "serialized",
}
"""What no sample needs; descriptions of tools and settings of the machine are part of it."""


def shape(value: Any, depth: int = 0) -> Any:
    """A value as JSON: an object is its attributes, and `$` names its class."""
    if isinstance(value, str):
        return value.replace(os.environ["HOME"], "/project")
    if value is None or isinstance(value, int | float | bool):
        return value
    if isinstance(value, dict):
        known = {key: each for key, each in value.items() if each is not None and key not in NOISE}
        return {str(key): shape(each, depth + 1) for key, each in known.items()}
    if isinstance(value, list | tuple | set):
        return [shape(each, depth + 1) for each in value]
    if isinstance(value, BaseException):
        return {"$": type(value).__name__, "args": [str(each) for each in value.args]}
    slots = [each for kind in type(value).__mro__ for each in getattr(kind, "__slots__", ())]
    names = [*getattr(value, "__dict__", {}), *slots]
    if not names or depth > 20 or type(value).__module__ in ("uuid", "datetime"):
        return str(value)
    fields = {each: getattr(value, each, None) for each in names if not each.startswith("_")}
    if type(value).__name__ in ("SpanImpl", "TraceImpl"):  # their fields are properties
        for each in ("trace_id", "name", "span_id", "parent_id", "error", "span_data"):
            fields[each] = getattr(value, each, None)
    return {"$": type(value).__name__, **shape(fields, depth + 1)}


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](sys.argv[2])
