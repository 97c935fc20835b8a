"""Packets on the wire: what is written is read again, and anything else is refused in words."""

from __future__ import annotations

import random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from matchyard.errors import UsageError
from matchyard.network.fan_out import ALL, FanOut, Mode
from matchyard.network.packet import Kind, Locator, Packet, PacketError, Scope

WORDS = st.text(max_size=8)
KEYS = st.none() | WORDS | st.integers(-(1 << 63), (1 << 63) - 1)
LOCATORS = st.builds(
    Locator,
    st.integers(0, (1 << 64) - 1),
    st.integers(0, (1 << 16) - 1),
    st.integers(0, (1 << 64) - 1),
    st.integers(0, 1),
)
STACKS = st.lists(LOCATORS, max_size=3).map(tuple)
FAN_OUTS = st.just(ALL) | st.builds(
    FanOut, st.sampled_from([Mode.AT_MOST, Mode.AT_LEAST]), st.integers(1, (1 << 32) - 1)
)
PACKETS = st.builds(
    Packet,
    kind=st.sampled_from(Kind),
    tags=st.none() | st.frozensets(WORDS, max_size=6),
    stack=STACKS,
    version=st.integers(0, (1 << 64) - 1),
    tree=st.integers(0, (1 << 16) - 1),
    fan_out=FAN_OUTS,
    identifier=st.binary(max_size=20),
    cache_control=st.integers(0, 7),
    origin=st.lists(STACKS, max_size=4).map(tuple),
    addressee=KEYS,
    sender=KEYS,
    payload=st.binary(max_size=50),
    filter=st.just(b"") | st.binary(min_size=24, max_size=24),
    hops=st.integers(0, 255),
    tries=st.integers(0, 255),
    scope=st.sampled_from(Scope),
    is_whole=st.booleans(),
)


@given(PACKETS)
@settings(max_examples=300, deadline=None)
def test_a_packet_that_is_written_is_read_again(packet: Packet) -> None:
    data = packet.to_bytes()
    assert Packet.from_bytes(data) == packet
    for end in {0, len(data) // 2, len(data) - 1}:
        with pytest.raises(PacketError):
            Packet.from_bytes(data[:end])
    with pytest.raises(PacketError, match="followed by 1 more"):
        Packet.from_bytes(data + b"x")


def fuzz(n_rounds: int) -> None:
    """Packets with bytes that are changed, left out and put in are read as some packet or refused."""
    chance = random.Random(1)
    whole = [
        Packet(Kind.REQUEST, frozenset({"jazz", "live"}), identifier=b"17", sender="ada"),
        Packet(Kind.REPLY, None, (Locator(1, 2, 3),) * 3, origin=((Locator(4, 5, 6),),) * 2),
        Packet(Kind.NOTIFICATION, frozenset("abc"), filter=b"f" * 24, payload=b"tonight" * 3),
    ]
    seeds = [packet.to_bytes() for packet in whole]
    n_refused = 0
    for _ in range(n_rounds):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            place, what = chance.randrange(len(data)), chance.randrange(3)
            if what == 0:
                data[place] = chance.choice((0, 1, 255, chance.randrange(256)))
            elif what == 1:
                del data[place : place + chance.randint(1, 4)]
            else:
                data[place:place] = chance.randbytes(chance.randint(1, 4))
            if not data:
                break
        try:
            packet = Packet.from_bytes(bytes(data))
            assert Packet.from_bytes(packet.to_bytes()) == packet
        except PacketError:
            n_refused += 1
    assert 0 < n_refused < n_rounds


def test_fuzzed_packets_are_read_or_refused() -> None:
    fuzz(20_000)


@pytest.mark.slow
def test_a_million_fuzzed_packets_are_read_or_refused() -> None:
    fuzz(1_000_000)


@pytest.mark.parametrize(
    ("packet", "what"),
    [
        (Packet(Kind.REPLY, tree=1 << 16), "no form on the wire"),
        (Packet(Kind.REPLY, sender=1 << 63), "no form on the wire"),
        (Packet(Kind.REPLY, identifier=b"x" * 70_000), "no form on the wire"),
        (Packet(Kind.REPLY, frozenset({"x" * 70_000})), "no form on the wire"),
        (Packet(Kind.REPLY, frozenset({"\ud800"})), "no form on the wire"),
        (Packet(Kind.REPLY, filter=b"short"), "expected 24"),
        (Packet(Kind.REPLY, frozenset(map(str, range(5000)))), "5000 tags"),
        (Packet(Kind.REPLY, payload=bytes((1 << 24) + 1)), "expected at most"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(packet: Packet, what: str) -> None:
    with pytest.raises(PacketError, match=what):
        packet.to_bytes()


def test_a_packet_of_another_form_is_refused() -> None:
    with pytest.raises(PacketError, match="of form 9; expected 1"):
        Packet.from_bytes(b"\x09 something")


@pytest.mark.parametrize("text", ["some", "at most", "at most 0", "at least -1", "at most 1 2", ""])
def test_a_fan_out_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="expected"):
        FanOut.parse(text)
    assert FanOut.parse(FanOut.parse("at least 3")) == FanOut(Mode.AT_LEAST, 3)
