"""Typed clients for the API of the service: `Client` blocks, `AsyncClient` is for asyncio."""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Self, TypeVar, Unpack

import httpx2

from glbandits.service.client import calls
from glbandits.service.client.calls import Arms, BatchReward, Call, DecideOptions, Destination, Pause
from glbandits.service.domain.groups.guardrail_report import Guardrails
from glbandits.service.http.v1.schemas import (
    BatchReply,
    Decided,
    DecideRequest,
    Explanation,
    MetricsReply,
    MetricsRequest,
    Ranked,
    Rewarded,
    Status,
)

Content = TypeVar("Content")


class Client:
    """Requests decisions from a service, and sends rewards.

    Several threads may share a client. It keeps connections open. If the server is busy or does not respond, the
    client sends the same request again. That is safe: the client gives every decision an event id and every reward a
    key, so that a repeated request counts once.

    Args:
        address: the URL of the server, such as http://127.0.0.1:8711.
        key: a key with the scopes rank and reward. Raises InvalidInput if it has spaces or line breaks.
        loop: the name of the loop.
        timeout: seconds to wait for a response.
        tries: how many times a request is sent, at most.
    """

    def __init__(self, address: str, key: str, loop: str = "default", *, timeout: float = 10.0, tries: int = 4) -> None:
        self._destination = Destination(address, key, loop, tries)
        self._http = httpx2.Client(timeout=timeout, trust_env=False, verify=ssl.create_default_context())

    def decide(self, arms: Arms, **options: Unpack[DecideOptions]) -> Decided:
        """Request the choice of one of several arms. `Decided.arm` is its index.

        Args:
            arms: a list with a dict of named fields for each arm, or the features of the arms as numbers, (K, width).
            context: named fields that all arms share, if `arms` is a list of dicts.
            event_id: the id of the decision, for its reward. None: the client creates one.
            ids: ids of the arms, for the log. None: the names of the arms, if the feature map of the loop has a column
                for them and the dicts have different names in it; else their indices.
            values: what a reward of 1 of each arm is worth, (K,), at least 0. The loop then chooses by value times
                expected reward minus cost. It learns rewards as they are sent.
            costs: what choosing each arm costs, (K,), in the unit of `values`.
            excluded: indices of arms that must not be chosen.
            deferred: whether the decision is learned only if it is activated.
            unit: the user or session for which the decision is made. The log has a salted hash of it.
            sticky: whether the unit gets the same arm again for the same set of arms.
        """
        return self._send(calls.decide(arms, options))

    def rank(self, arms: Arms, k: int, **options: Unpack[DecideOptions]) -> Ranked:
        """Request the ranking of the best k arms. `Ranked.arms` are their indices, the first position first.

        Args:
            arms: as in `decide`.
            k: the number of positions.
            options: the other arguments of `decide`.
        """
        return self._send(calls.rank(arms, k, options))

    def reward(
        self, event_id: str, value: float, *, key: str | None = None, position: int | None = None, cascade: bool = False
    ) -> Rewarded:
        """Send a reward of a decision.

        Args:
            event_id: the id of the decision.
            value: the reward.
            key: rewards of a decision with the same key count once. None: the client creates one.
            position: the position in a ranking, 0 for the first one.
            cascade: whether the user looked at no position below this one, for example because of a click. Positions
                below are then not learned.
        """
        return self._send(calls.reward(event_id, value, key, position=position, cascade=cascade))

    def metrics(
        self, event_id: str, metrics: Mapping[str, float], *, key: str = "", position: int | None = None
    ) -> MetricsReply:
        """Send numbers of metrics for a decision, such as {"latency_ms": 120}.

        Args:
            event_id: the id of the decision.
            metrics: a number for each metric that the loop declares.
            key: a decision has one number for each metric and key. Another key adds one more.
            position: the position in a ranking, 0 for the first one.
        """
        return self._send(calls.metrics(event_id, metrics, key, position=position))

    def activate(self, event_id: str) -> Rewarded:
        """Activate a deferred decision, so that it is learned."""
        return self._send(calls.activate(event_id))

    def batch(
        self,
        decide: Sequence[DecideRequest] = (),
        reward: Sequence[BatchReward] = (),
        metrics: Sequence[MetricsRequest] = (),
    ) -> BatchReply:
        """Request decisions and send rewards and metrics in one request, each with an outcome of its own.

        Args:
            decide: requests from the function `decide_request`.
            reward: event ids and values, also of decisions in the same batch; or requests from the function
                `reward_request`, for positions of rankings.
            metrics: requests from the function `metrics_request`.
        """
        return self._send(calls.batch(decide, reward, metrics))

    def explanation(self, event_id: str, *, limit: int = 20) -> Explanation:
        """Return the contributions of features to the scores of an event's actions.

        Needs a key with the scope read.

        Args:
            event_id: the id of the decision.
            limit: the number of features listed for each action.
        """
        return self._send(calls.explanation(event_id, limit))

    def status(self) -> Status:
        """Return the status of the loop. Needs a key with the scope read."""
        return self._send(calls.status())

    def guardrails(self) -> Guardrails:
        """Return the comparison of treatment with control. Needs a key with the scope read."""
        return self._send(calls.guardrails())

    def resume(self) -> Guardrails:
        """End the fallback of the loop. Needs a key with the scope admin."""
        return self._send(calls.resume())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, call: Call[Content]) -> Content:
        request = self._destination.request(call)
        attempts = count(1)
        while True:
            outcome: httpx2.Response | httpx2.TransportError
            try:
                outcome = self._http.send(request)
            except httpx2.TransportError as error:
                outcome = error
            result = self._destination.result(call, outcome, next(attempts))
            if not isinstance(result, Pause):
                return result
            time.sleep(result.seconds)


class AsyncClient:
    """`Client` for asyncio: the same arguments and methods, as coroutines. Tasks may share a client."""

    def __init__(self, address: str, key: str, loop: str = "default", *, timeout: float = 10.0, tries: int = 4) -> None:
        self._destination = Destination(address, key, loop, tries)
        self._http = httpx2.AsyncClient(timeout=timeout, trust_env=False, verify=ssl.create_default_context())

    async def decide(self, arms: Arms, **options: Unpack[DecideOptions]) -> Decided:
        """Request the choice of one of several arms. `Client.decide` documents the arguments."""
        return await self._send(calls.decide(arms, options))

    async def rank(self, arms: Arms, k: int, **options: Unpack[DecideOptions]) -> Ranked:
        """Request the ranking of the best k arms. `Client.rank` documents the arguments."""
        return await self._send(calls.rank(arms, k, options))

    async def reward(
        self, event_id: str, value: float, *, key: str | None = None, position: int | None = None, cascade: bool = False
    ) -> Rewarded:
        """Send a reward of a decision."""
        return await self._send(calls.reward(event_id, value, key, position=position, cascade=cascade))

    async def metrics(
        self, event_id: str, metrics: Mapping[str, float], *, key: str = "", position: int | None = None
    ) -> MetricsReply:
        """Send numbers of metrics for a decision. `Client.metrics` documents the arguments."""
        return await self._send(calls.metrics(event_id, metrics, key, position=position))

    async def activate(self, event_id: str) -> Rewarded:
        """Activate a deferred decision, so that it is learned."""
        return await self._send(calls.activate(event_id))

    async def batch(
        self,
        decide: Sequence[DecideRequest] = (),
        reward: Sequence[BatchReward] = (),
        metrics: Sequence[MetricsRequest] = (),
    ) -> BatchReply:
        """Request decisions and send rewards and metrics in one request, each with an outcome of its own."""
        return await self._send(calls.batch(decide, reward, metrics))

    async def explanation(self, event_id: str, *, limit: int = 20) -> Explanation:
        """Return the contributions of features to the scores of an event's actions."""
        return await self._send(calls.explanation(event_id, limit))

    async def status(self) -> Status:
        """Return the status of the loop. Needs a key with the scope read."""
        return await self._send(calls.status())

    async def guardrails(self) -> Guardrails:
        """Return the comparison of treatment with control. Needs a key with the scope read."""
        return await self._send(calls.guardrails())

    async def resume(self) -> Guardrails:
        """End the fallback of the loop. Needs a key with the scope admin."""
        return await self._send(calls.resume())

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, call: Call[Content]) -> Content:
        request = self._destination.request(call)
        attempts = count(1)
        while True:
            outcome: httpx2.Response | httpx2.TransportError
            try:
                outcome = await self._http.send(request)
            except httpx2.TransportError as error:
                outcome = error
            result = self._destination.result(call, outcome, next(attempts))
            if not isinstance(result, Pause):
                return result
            await asyncio.sleep(result.seconds)
