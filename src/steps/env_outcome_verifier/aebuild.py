"""What a verifier may know of the run: what was said, and which triggers fired. Nothing here can be changed."""

from dataclasses import dataclass, field
from typing import Optional


class RunRecordUnavailable(Exception):
    """The run has no record of what was asked for, so that neither yes nor no would be true."""


@dataclass(frozen=True)
class Message:
    turn: int
    role: str
    text: str
    sent_at: Optional[str]
    author: Optional[str]
    written_by_triggers: tuple
    user_sim: Optional[dict]
    parts: tuple
    env_clock: Optional[str]


@dataclass(frozen=True)
class Firing:
    trigger_id: str
    source: str
    turn: int
    at: Optional[str]
    virtual_time: Optional[str]
    ok: Optional[bool]
    provoked_by: Optional[dict]


@dataclass(frozen=True)
class Turn:
    number: int
    message: Message
    _run: "Run" = field(repr=False, compare=False)
    _reply: Optional[Message] = field(repr=False)

    @property
    def reply(self):
        """What the agent answered; `None` where it answered nothing."""
        if self._reply is None:
            self._run._need("replies")
        return self._reply

    @property
    def firings(self):
        """The triggers that fired in this turn."""
        return tuple(firing for firing in self._run.firings() if firing.turn == self.number)


class Run:
    """What is known of a run; `unavailable` says of each record that is missing why it is."""

    __slots__ = ("_facts", "_last", "_turns", "_firings", "unavailable")

    def __init__(self, facts, last=None):
        set_once = object.__setattr__
        turns = [turn for turn in facts["turns"] if last is None or turn["number"] <= last]
        firings = [Firing(**firing) for firing in facts["firings"]]
        set_once(self, "_facts", facts)
        set_once(self, "_last", last)
        set_once(self, "unavailable", dict(facts["unavailable"]))
        # Of what time set off nobody knows in which turn it was.
        known = [f for f in firings if last is None or (f.turn is not None and f.turn <= last)]
        set_once(self, "_firings", tuple(known))
        set_once(
            self,
            "_turns",
            tuple(
                Turn(turn["number"], _message(turn["message"]), self, _message(turn["reply"]))
                for turn in turns
            ),
        )

    def __setattr__(self, name, value):
        raise AttributeError("a run cannot be changed")

    def __repr__(self):
        return f"Run({len(self._turns)} turns)"

    def _need(self, record):
        if record in self.unavailable:
            raise RunRecordUnavailable(f"the run has no {record}: {self.unavailable[record]}")

    @property
    def turns(self):
        """All turns, oldest first."""
        self._need("turns")
        return self._turns

    def turn(self, n):
        """Turn `n`; the first one is 1."""
        for turn in self.turns:
            if turn.number == n:
                return turn
        raise LookupError(f"the run has no turn {n!r}, only {len(self._turns)} of them from 1")

    def firings(self, trigger_id=None, env=None):
        """The triggers that fired, oldest first: all, those of a trigger, those of an env."""
        self._need("firings")
        prefix = "firings of "
        for record in self.unavailable:
            if record.startswith(prefix) and (env is None or record == f"{prefix}env:{env}"):
                self._need(record)
        return tuple(
            firing
            for firing in self._firings
            if (trigger_id is None or firing.trigger_id == trigger_id)
            and (env is None or firing.source == f"env:{env}")
        )

    def firing(self, trigger_id=None, env=None):
        """The first such firing, or `None`."""
        found = self.firings(trigger_id, env)
        return found[0] if found else None

    def as_of(self, n):
        """The run as it was at the end of turn `n`; 0 is before the first message."""
        if not isinstance(n, int) or n < 0:
            raise ValueError(f"{n!r} is no number of a turn")
        return Run(self._facts, n if self._last is None else min(n, self._last))


def _message(facts):
    if facts is None:
        return None
    facts = dict(facts)
    facts["parts"] = tuple(facts["parts"])
    facts["written_by_triggers"] = tuple(facts["written_by_triggers"])
    return Message(**facts)
