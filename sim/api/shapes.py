"""What a request body may contain, field by field.

Invariant: a field that is not named here is refused. The real endpoint is described by pydantic models too, and names the place of a
problem as they do (`tools.0.custom.name`), so the wording of these problems is pydantic's and not ours.

Only what a client of plain messages and tools can send is here: text, images, documents, search results, thinking, tool use, and the
tool search with its results. Other server tools, containers and betas are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError

_ID = Field(pattern=r"^[a-zA-Z0-9_-]+$")
_NAME = Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CacheControl(_Shape):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class _Markable(_Shape):
    cache_control: CacheControl | None = None


class Text(_Markable):
    type: Literal["text"]
    text: str
    citations: list[dict[str, Any]] | None = None


class Image(_Markable):
    type: Literal["image"]
    source: dict[str, Any]


class Document(_Markable):
    type: Literal["document"]
    source: dict[str, Any]
    title: str | None = None
    context: str | None = None
    citations: dict[str, Any] | None = None


class SearchResult(_Markable):
    type: Literal["search_result"]
    source: str
    title: str
    content: list[Text]
    citations: dict[str, Any] | None = None


class Thinking(_Shape):
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinking(_Shape):
    type: Literal["redacted_thinking"]
    data: str


class ToolUse(_Markable):
    type: Literal["tool_use"]
    id: Annotated[str, _ID]
    name: Annotated[str, _NAME]
    input: dict[str, Any]
    caller: dict[str, Any] | None = None
    toolset_name: str | None = None


class ServerToolUse(_Markable):
    type: Literal["server_tool_use"]
    id: Annotated[str, Field(pattern=r"^srvtoolu_[a-zA-Z0-9_]+$")]
    name: Literal["tool_search_tool_regex", "tool_search_tool_bm25"]
    input: dict[str, Any]
    caller: dict[str, Any] | None = None


class ToolSearchResult(_Markable):
    type: Literal["tool_search_tool_result"]
    tool_use_id: Annotated[str, Field(pattern=r"^srvtoolu_[a-zA-Z0-9_]+$")]
    content: dict[str, Any]


class ToolReference(_Markable):
    type: Literal["tool_reference"]
    tool_name: str


def _form(content: Any) -> str:
    return "~string" if isinstance(content, str) else "~blocks"


# A string or a list of blocks; the tags with a tilde stay out of the reported place.
_String = Annotated[str, Tag("~string")]
_ResultBlock = Annotated[Text | Image | Document | SearchResult | ToolReference, Field(discriminator="type")]


class ToolResult(_Markable):
    type: Literal["tool_result"]
    tool_use_id: Annotated[str, _ID]
    content: Annotated[_String | Annotated[list[_ResultBlock], Tag("~blocks")], Discriminator(_form)] | None = None
    is_error: bool | None = None
    toolset_name: str | None = None


_Block = Annotated[
    Text | Image | Document | SearchResult | Thinking | RedactedThinking | ToolUse | ToolResult | ServerToolUse | ToolSearchResult,
    Field(discriminator="type"),
]


class Message(_Shape):
    role: Literal["user", "assistant", "system"]
    content: Annotated[_String | Annotated[list[_Block], Tag("~blocks")], Discriminator(_form)]


class _InputSchema(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)
    type: Literal["object"]
    properties: dict[str, Any] | None = None
    required: list[str] | None = None


class CustomTool(_Markable):
    type: Literal["custom"] | None = None
    name: Annotated[str, _NAME]
    description: str | None = None
    input_schema: _InputSchema
    strict: bool | None = None
    defer_loading: bool | None = None
    eager_input_streaming: bool | None = None
    allowed_callers: list[str] | None = None
    input_examples: list[dict[str, Any]] | None = None


class ToolSearchTool(_Markable):
    type: Literal["tool_search_tool_regex_20251119", "tool_search_tool_bm25_20251119", "tool_search_tool_regex", "tool_search_tool_bm25"]
    name: Literal["tool_search_tool_regex", "tool_search_tool_bm25"]
    defer_loading: bool | None = None


def _kind_of_tool(tool: Any) -> str:
    kind = tool.get("type") if isinstance(tool, Mapping) else None
    return "custom" if kind is None else "~search" if kind in _SEARCHES else str(kind)


_SEARCHES = {
    "tool_search_tool_regex_20251119", "tool_search_tool_bm25_20251119", "tool_search_tool_regex", "tool_search_tool_bm25",
}  # fmt: skip
_Tool = Annotated[Annotated[CustomTool, Tag("custom")] | Annotated[ToolSearchTool, Tag("~search")], Discriminator(_kind_of_tool)]


class _Auto(_Shape):
    type: Literal["auto"]
    disable_parallel_tool_use: bool | None = None


class _Any(_Shape):
    type: Literal["any"]
    disable_parallel_tool_use: bool | None = None


class _One(_Shape):
    type: Literal["tool"]
    name: str
    disable_parallel_tool_use: bool | None = None


class _None(_Shape):
    type: Literal["none"]


class _Adaptive(_Shape):
    type: Literal["adaptive"]
    display: Literal["summarized", "omitted"] | None = None


class _BetweenTools(_Shape):
    type: Literal["between_tools"]


class _Enabled(_Shape):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]
    display: Literal["summarized", "omitted"] | None = None


class _Disabled(_Shape):
    type: Literal["disabled"]


class _OutputConfig(_Shape):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: dict[str, Any] | None = None


class _Metadata(_Shape):
    user_id: str | None = None


class CountRequest(_Shape):
    """The body of `/v1/messages/count_tokens`."""

    model: str
    messages: list[Message]
    system: Annotated[_String | Annotated[list[Text], Tag("~blocks")], Discriminator(_form)] | None = None
    tools: list[_Tool] | None = None
    tool_choice: Annotated[_Auto | _Any | _One | _None, Field(discriminator="type")] | None = None
    thinking: Annotated[_Adaptive | _BetweenTools | _Enabled | _Disabled, Field(discriminator="type")] | None = None
    output_config: _OutputConfig | None = None
    cache_control: CacheControl | None = None
    speed: Literal["standard", "fast"] | None = None


class MessageRequest(CountRequest):
    """The body of `/v1/messages`, API version 2026-10-21."""

    max_tokens: Annotated[int, Field(ge=0)]
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    inference_geo: str | None = None
    diagnostics: dict[str, Any] | None = None


class SampledRequest(MessageRequest):
    """The body of `/v1/messages`, API version 2023-06-01, which still knows how to ask for chance."""

    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None


def misfits(body: Any, shape: type[BaseModel]) -> Iterator[str]:
    """What is wrong with the form of a body, one line for each, in the order of the fields."""
    try:
        shape.model_validate(body)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_context=False, include_input=False):
            place = ".".join(str(part) for part in each["loc"] if not str(part).startswith("~"))
            if each["type"] == "union_tag_not_found":
                yield f"{place}.type: Field required"
            else:
                message = each["msg"].replace("_kind_of_tool()", "'type'").replace("'~search'", "'tool_search_tool_regex'")
                yield f"{place}: {message}" if place else message
