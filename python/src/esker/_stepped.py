"""Generators that run in a context of their own, so that their context variables do not reach their consumer between items."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Generator
from contextvars import Context
from typing import Any

__all__ = ["stepped", "stepped_async"]


def stepped(generator: Generator[Any, Any, Any], context: Context) -> Generator[Any, Any, Any]:
    """Drives a generator, or the iterator of an awaitable, one step at a time in a context; returns its result."""
    try:
        item = context.run(next, generator)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                context.run(generator.close)
                raise
            except BaseException as error:
                item = context.run(generator.throw, error)
            else:
                item = context.run(generator.send, sent)
    except StopIteration as end:
        return end.value


class _Step:
    """An awaitable of which each part runs in a context."""

    def __init__(self, awaitable: Awaitable[Any], context: Context) -> None:
        self._awaitable, self._context = awaitable, context

    def __await__(self) -> Generator[Any, Any, Any]:
        return stepped(self._awaitable.__await__(), self._context)


async def stepped_async(generator: AsyncGenerator[Any, None], context: Context) -> AsyncGenerator[Any, None]:
    """Drives an asynchronous generator in a context."""
    try:
        while True:
            try:
                item = await _Step(generator.__anext__(), context)
            except StopAsyncIteration:
                return
            yield item
    finally:
        await _Step(generator.aclose(), context)
