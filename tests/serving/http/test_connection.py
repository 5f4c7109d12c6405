"""Requests as they come over a connection, and their responses. Limits, and the end, have tests of their own."""

import asyncio
import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glbandits.serving.http.connection import CONTINUE
from tests.serving.http.talking import LARGEST_BODY, Line, Site, asked, in_chunks, replies, settle
from tests.serving.makers import run

CHUNKED = "transfer-encoding: chunked"


async def told(*parts: bytes) -> list[bytes]:
    """The bodies of the responses to what comes in these parts over one connection."""
    line = Line(Site())
    for part in parts:
        line.send(part)
        await settle()
    return [reply.body for reply in line.replies]


class TestOrder:
    @pytest.mark.parametrize("prefix", ["", "/swift"])
    def test_responses_come_in_the_order_of_the_requests(self, prefix: str) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked(f"{prefix}/wait/a") + asked(f"{prefix}/wait/b") + asked("/unknown") + asked("/swift/echo"))
            site.gates["b"].set()
            await settle()
            assert sorted(site.asked) == ["/swift/echo", f"{prefix}/wait/a", f"{prefix}/wait/b"]
            assert line.wire.writes == []
            site.gates["a"].set()
            found = await line.replied(4)
            assert [reply.status for reply in found] == [200, 200, 404, 200]
            assert [reply.body for reply in found[:2]] == [b"a", b"b"]
            assert not line.closed()

        run(main())

    def test_what_is_ready_does_not_wait_for_what_comes_behind(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/swift/echo") + asked("/wait/a"))
            assert [reply.status for reply in line.replies] == [200]
            site.gates["a"].set()
            await line.replied(2)

        run(main())


BODIES = st.lists(st.binary(min_size=1, max_size=LARGEST_BODY), max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request that is valid, though it may be refused."""
    paths = ["/echo", "/swift/echo", "/nothing", "/swift/nothing", "/unknown", "/echo?a=b", "http://host/echo?c"]
    path, parts = draw(st.sampled_from(paths)), draw(BODIES)
    headers = [f"x-request-id: {draw(st.integers(0, 99))}", *draw(st.sampled_from([[], ["authorization: nobody"]]))]
    if draw(st.booleans()):
        trailers = draw(st.sampled_from([b"", b"authorization: nobody\r\n"]))
        return asked(path, CHUNKED, *headers, method="POST") + in_chunks(*parts, trailers=trailers)
    method = "POST" if parts else draw(st.sampled_from(["GET", "POST", "DELETE"]))
    return asked(path, *headers, method=method, body=b"".join(parts))


@settings(deadline=None, max_examples=200)
@given(st.lists(requests(), min_size=1, max_size=6), st.booleans(), st.lists(st.integers(0, 2**32)), st.booleans())
def test_however_requests_are_cut_into_pieces_they_are_answered_as_one_by_one(
    stream: list[bytes], last: bool, cuts: list[int], slowly: bool
) -> None:
    async def alone(site: Site, request: bytes) -> bytes:
        line = Line(site)
        line.send(request)
        await line.replied(1)
        return line.wire.sent

    async def together(site: Site) -> bytes:
        whole, line = b"".join(stream), Line(site)
        places = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
        for begin, end in pairwise(places):
            line.send(whole[begin:end])
            if slowly:
                await settle()
        await line.replied(len(stream))
        assert line.closed() == last
        return line.wire.sent

    async def main() -> None:
        site = Site()  # one, so that all have the same date
        assert await together(site) == b"".join([await alone(site, request) for request in stream])

    if last:
        stream[-1] = stream[-1].replace(b"\r\n", b"\r\nconnection: close\r\n", 1)
    run(main())


class TestBodies:
    def test_come_by_length_or_in_chunks(self) -> None:
        whole = asked(method="POST", body=b"abc") + asked("/echo", CHUNKED, method="POST") + in_chunks(b"a", b"bc")
        bodies = run(told(whole))
        assert [body.rpartition(b"|")[2] for body in bodies] == [b"abc", b"abc"]

    def test_what_comes_after_chunks_does_not_become_a_header(self) -> None:
        trailers = b"authorization: nobody\r\nx: y\r\n"
        first = asked("/echo", CHUNKED, method="POST") + in_chunks(b"a", trailers=trailers)
        bodies = run(told(first, asked()))
        assert bodies == [b"POST|/echo||transfer-encoding=chunked;|a", b"GET|/echo|||"]

    def test_one_that_is_too_large_is_refused_at_once_and_dropped(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            large = b"a" * (LARGEST_BODY + 1)
            head, body = asked(method="POST", body=large)[: -len(large)], large
            for part in (head, body):
                line.send(part)
                assert [reply.status for reply in line.replies] == [413]
            line.send(asked("/echo", CHUNKED, method="POST") + in_chunks(large)[:-5])
            assert [reply.status for reply in line.replies] == [413, 413]
            assert line.replies[1].body == b"a body may have 1000 bytes; send less"
            line.send(b"0\r\n\r\n" + asked("/swift/echo", method="POST", body=large[1:]))
            assert line.replies[2].body.endswith(large[1:])
            assert len(line.replies) == 3
            await settle()
            assert site.asked == ["/swift/echo"]

        run(main())

    @pytest.mark.parametrize(("path", "status"), [("/unknown", 404), ("/echo", 401)])
    def test_one_of_a_refused_request_is_dropped_and_the_next_is_answered(self, path: str, status: int) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            body = asked("/swift/echo")  # must not be taken for a request
            whole = asked(path, "authorization: nobody", method="POST", body=body)
            line.send(whole[: -len(body)])
            assert [reply.status for reply in line.replies] == [status]
            line.send(body)
            line.send(asked("/echo?next"))
            assert (await line.replied(2))[1].body == b"GET|/echo|next||"
            assert site.asked == ["/echo"]

        run(main())


class TestExpectations:
    HEAD = asked("/echo", "content-length: 3", "Expect: 100-Continue", method="POST")

    def test_an_admitted_request_is_told_to_go_on(self) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(self.HEAD)
            assert line.wire.sent == CONTINUE
            line.send(b"abc")
            while len(line.wire.writes) < 2:
                await asyncio.sleep(0)
            (reply,) = replies(line.wire.writes[1])
            assert reply.body.endswith(b"|abc")

        run(main())

    def test_one_behind_another_is_not_because_it_would_come_before_the_response_to_that(self) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/wait/a") + self.HEAD)
            assert line.wire.writes == []
            line.send(b"abc")
            site.gates["a"].set()
            assert [reply.status for reply in await line.replied(2)] == [200, 200]

        run(main())

    @pytest.mark.parametrize(
        "head",
        [
            HEAD.replace(b"/echo", b"/unknown"),
            HEAD.replace(b": 3", b": 3000"),
            HEAD.replace(b"\r\n", b"\r\nauthorization: nobody\r\n", 1),
        ],
    )
    def test_a_refused_request_is_not_and_is_the_last_because_its_body_may_or_may_not_come(self, head: bytes) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(head)
            (reply,) = line.replies
            assert reply.status in (401, 404, 413)
            assert reply.headers[b"connection"] == b"close"
            assert line.closed()

        run(main())


class TestRequests:
    @pytest.mark.parametrize(
        ("target", "path", "query"),
        [
            ("http://host:80/echo?a=b", "/echo", "a=b"),
            ("http://host/echo", "/echo", ""),
            ("/echo?a=b?c", "/echo", "a=b?c"),
            ("//echo", "//echo", ""),
        ],
    )
    def test_targets(self, target: str, path: str, query: str) -> None:
        assert run(told(asked(target))) == [f"GET|{path}|{query}||".encode()]

    @pytest.mark.parametrize("target", ["*", "http://host", "/%ff"])
    def test_other_targets_are_refused_as_any_path_is(self, target: str) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(asked(target) + asked("/swift/echo"))
            assert [reply.status for reply in line.replies] == [404, 200]

        run(main())

    def test_of_headers_the_last_counts_whatever_the_case_of_its_name(self) -> None:
        assert run(told(asked("/echo", "X-A: 1", "x-a: 2", "X-B:  3 "))) == [b"GET|/echo||x-a=2;x-b=3 ;|"]

    @pytest.mark.parametrize("name", ["authorization", "Content-Type", "ocp-apim-subscription-key"])
    def test_a_header_that_can_say_one_thing_only_is_refused_if_it_is_there_twice(self, name: str) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            line.send(asked("/swift/echo", f"{name}: a", "x: y", f"{name.lower()}: a"))
            line.send(asked("/swift/echo", f"{name}: a"))
            assert [reply.status for reply in line.replies] == [400, 200]
            assert line.replies[0].body == f"the header {name.lower()} is there twice; send it once".encode()
            assert len(site.asked) == 1

        run(main())


class TestResponses:
    def test_have_what_clients_need(self) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(asked("/swift/echo", "x-request-id: mine"))
            (reply,) = line.replies
            assert reply.headers.pop(b"date").endswith(b" GMT")
            assert reply.headers == {
                b"x-content-type-options": b"nosniff",
                b"x-request-id": b"mine",
                b"content-length": str(len(reply.body)).encode(),
                b"content-type": b"text/plain",
            }

        run(main())

    def test_the_date_goes_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> None:
            site = Site()
            monkeypatch.setattr("glbandits.serving.http.connection.formatdate", lambda usegmt: f"later {usegmt}")
            site.shared.tick()
            line = Line(site)
            line.send(asked("/swift/echo"))
            assert line.replies[0].headers[b"date"] == b"later True"

        run(main())

    def test_to_head_have_no_body(self) -> None:
        async def main() -> None:
            line, other = Line(Site()), Line(Site())
            line.send(asked("/swift/large", method="HEAD"))
            other.send(asked("/swift/large"))
            (reply,), (whole,) = replies(line.wire.sent, head=True), other.replies
            for name in (b"content-length", b"content-type"):
                assert reply.headers[name] == whole.headers[name]
            assert len(whole.body) == 8_000_000

        run(main())

    def test_without_content_have_no_length(self) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(asked("/swift/nothing") + asked("/swift/echo"))
            assert [reply.status for reply in line.replies] == [204, 200]
            assert not {b"content-length", b"content-type"} & line.replies[0].headers.keys()

        run(main())


class TestFailures:
    @pytest.mark.parametrize("path", ["/fail", "/swift/fail"])
    def test_of_a_handler_are_answered_and_the_connection_goes_on(
        self, path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(asked(path) + asked())
            assert [reply.status for reply in await line.replied(2)] == [500, 200]

        run(main())
        (record,) = (record for record in caplog.records if record.levelno == logging.ERROR)
        assert record.getMessage() == f"GET {path} failed"

    @pytest.mark.parametrize("path", ["/cancelled", "/swift/cancelled"])
    def test_what_a_handler_waits_for_in_vain_is_answered_too(
        self, path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def main() -> None:
            line = Line(Site())
            line.send(asked(path) + asked())
            assert [reply.status for reply in await line.replied(2)] == [503, 200]
            assert line.replies[0].headers[b"retry-after"] == b"1"

        run(main())
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    def test_of_the_connection_itself_end_it_and_are_logged(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def main() -> None:
            site = Site()
            line = Line(site)
            monkeypatch.setattr(site.shared.application, "open", None)
            line.send(asked())
            assert (line.closed(), line.wire.writes) == (True, [])

        run(main())
        assert "a request could not be read" in caplog.text
