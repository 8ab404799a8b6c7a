"""Starts `esker mcp` with the official client of the Model Context Protocol, and calls all tools."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

esker, target, url = sys.argv[1:]
DATA = "/home/pq/p/software/darshan-pydarshan/darshan-util/pydarshan/examples/darshan-graph"


def answer_of(result: Any) -> dict[str, Any]:
    """Returns the structured answer of a tool, which must equal the answer's text for older clients."""
    assert not failed(result), result
    answer = structured(result)
    assert answer is not None and json.loads(result.content[0].text) == answer
    assert answer["evidence"] and "complete" in answer["limits"], answer
    return answer


def structured(result: Any) -> Any:
    for name in ("structured_content", "structuredContent"):
        if hasattr(result, name):
            return getattr(result, name)
    raise AssertionError(f"no structured content in {result}")


def failed(result: Any) -> bool:
    return bool(getattr(result, "is_error", getattr(result, "isError", False)))


async def call_all_tools(target: str, *options: str) -> None:
    parameters = StdioServerParameters(command=esker, args=["--quiet", "mcp", target, *options])
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        server = await session.initialize()
        assert "evidence" in (server.instructions or ""), server
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {"schema", "find", "lineage", "impact", "diff", "sparql"}, tools
        for tool in tools.values():
            hints = tool.annotations
            assert hints is not None
            assert getattr(hints, "read_only_hint", getattr(hints, "readOnlyHint", None)) is True, tool

        async def call(name: str, **arguments: Any) -> Any:
            return await session.call_tool(name, arguments)

        if options:
            answer = answer_of(await call("lineage", vertex=f"file:{DATA}/C"))
            assert len(json.dumps(answer)) <= 4096 * 2 and answer["limits"]["complete"] is False, answer
            return
        answer = answer_of(await call("schema"))
        types = {t["type"]: t["count"] for t in answer["vertex_types"]}
        # Each of the 6 logs is of a job of its own.
        assert types["Job"] == 12 and answer["tags"] == [{"name": "peak", "objects": 1}], answer
        answer = answer_of(await call("lineage", vertex=f"file:{DATA}/C"))
        reads = sorted(e["dst"] for e in answer["edges"] if e["type"] == "read")
        assert reads == [f"file:{DATA}/A", f"file:{DATA}/B"], reads
        by = answer["evidence"]["edges_by_who_says_so"]
        assert list(by) == ["observed"] and answer["limits"]["complete"] is True, answer
        answer = answer_of(await call("lineage", vertex=f"file:{DATA}/C", depth=1))
        assert answer["stopped"][0]["reason"] == "depth" and answer["limits"]["complete"] is False, answer
        answer = answer_of(await call("impact", vertex=f"file:{DATA}/A", as_of="now"))
        assert f"file:{DATA}/C" in {v["id"] for v in answer["vertices"]}, answer
        # The key of a log is that of its job, its start and its hash.
        runs = sorted(v["id"] for v in answer["vertices"] if v["type"] == "Job" and "-" in v["id"])
        answer = answer_of(await call("find", filter="peak > 2 and Name = 'energy'"))
        assert [o["attributes"]["name"] for o in answer["objects"]] == ["energy"], answer
        wrong = await call("find", filter="step = 'first'")
        assert failed(wrong) and "`step` holds numbers" in wrong.content[0].text, wrong
        answer = answer_of(await call("diff", before=runs[0], after=runs[-1]))
        assert answer["before"] == runs[0], answer
        query = "SELECT ?s WHERE { ?s ?p 42 }"
        answer = answer_of(await call("sparql", query=query))
        assert answer["rows"] == [{"s": "<http://example.org/answer>"}], answer
        assert answer_of(await call("sparql", query="ASK { ?s ?p 43 }"))["boolean"] is False
        triples = answer_of(await call("sparql", query="CONSTRUCT WHERE { ?s ?p 42 }"))["triples"]
        assert len(triples) == 1, triples

        for name, arguments, expected in [
            ("lineage", {"vertex": "file:/none"}, "no vertex `file:/none`"),
            ("lineage", {}, "`vertex` is missing"),
            ("lineage", {"vertex": 7}, "expected a string"),
            ("lineage", {"vertex": "file:/x", "as_of": "soon"}, "as_of"),
            ("find", {"filter": "peak >"}, "peak >"),
            ("find", {"filter": "peek > 2"}, "did you mean `peak`"),
            ("find", {"filtre": "x"}, "not an argument of find"),
            ("sparql", {"query": "DELETE WHERE { ?s ?p ?o }"}, "update"),
            ("sparql", {"query": "NONSENSE"}, "NONSENSE"),
            ("diff", {"before": "job:none", "after": "last"}, "`before`"),
        ]:
            result = await session.call_tool(name, arguments)
            assert failed(result), (name, arguments, result)
            assert expected in result.content[0].text, (expected, result.content[0].text)


async def main() -> None:
    for where in (target, url):
        await call_all_tools(where)
    await call_all_tools(target, "--max-bytes", "4KiB")
    print("mcp: the official client lists and calls all six tools, with a folder and a server; limits hold; invalid calls fail with a message")


asyncio.run(main())
