"""Faults: what they do to a cluster, and a schedule of them from a seed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from .cluster import Cluster, faketime
from .history import History

Made = tuple[str, float, Callable[[], object]]
"""A fault that was made: what it is, the seconds for which it lasts, and its repair."""
KINDS = ("kill", "pause", "cut", "etcd", "clock")


def missing(kind: str) -> str | None:
    """Returns why a kind of fault is impossible on this machine, or None."""
    if kind == "cut":
        if os.geteuid() != 0:
            return "cuts need root, for rules of nftables in a network namespace"
        if not shutil.which("nft") or not shutil.which("unshare"):
            return "cuts need the programs nft (Debian: nftables) and unshare"
    if kind == "clock" and faketime() is None:
        return "clock jumps need libfaketime (Debian: libfaketime)"
    return None


@dataclass
class Fault:
    """A fault that has happened, with its times in seconds of the history."""

    kind: str
    what: str
    begin: float
    end: float = float("inf")
    """Time at which all members were ready again."""
    single: bool = True
    """Whether no other fault was active at the same time."""
    longest: float = 0.0
    """Longest wait of a writer, in seconds."""


class Nemesis:
    """Makes faults, one after the other, and at times two at once."""

    def __init__(self, cluster: Cluster, history: History, kinds: list[str], seed: int) -> None:
        self.cluster, self.history, self.kinds = cluster, history, kinds
        self.random = random.Random(seed)
        self.faults: list[Fault] = []

    def rest(self, seconds: float) -> None:
        """Waits, without a fault."""
        time.sleep(seconds)

    def one(self, until: float) -> str | None:
        """Makes one round of faults and waits until all members are ready; returns why one is not."""
        kinds = [self.random.choice(self.kinds)]
        others = [kind for kind in self.kinds if kind != kinds[0]]
        if others and self.random.random() < 0.25:
            kinds.append(self.random.choice(others))
        begin = self.history.now()
        repairs = []
        for kind in kinds:
            what, seconds, repair = getattr(self, kind)()
            self.faults.append(Fault(kind, what, begin, single=len(kinds) == 1))
            self.history.note(kind, what=what, seconds=seconds)
            repairs.append((begin + seconds, repair))
        for at, repair in sorted(repairs, key=lambda item: item[0]):
            time.sleep(max(0.0, at - self.history.now()))
            repair()
            self.history.note("repair")
        why = self.cluster.wait_until_ready(90)
        end = self.history.now()
        for fault in self.faults[-len(kinds) :]:
            fault.end = end
        self.history.note("ready", why=why)
        time.sleep(max(0.0, min(self.random.uniform(1, 3), until - self.history.now())))
        return why

    def _lasting(self, least: float, leases: float) -> float:
        return self.random.uniform(least, leases * self.cluster.lease)

    def kill(self) -> Made:
        """Kills a member; it is started again after a moment, as a supervisor does."""
        member = self.random.choice(self.cluster.members)
        member.kill()
        return member.name, self._lasting(0.2, 2.0), member.start

    def pause(self) -> Made:
        """Stops a member's process for up to two leases and a half."""
        member = self.random.choice(self.cluster.members)
        member.signal(signal.SIGSTOP)
        return member.name, self._lasting(0.5, 2.5), lambda: member.signal(signal.SIGCONT)

    def cut(self) -> Made:
        """Drops packets from a member to etcd, to all other members, or to and from one of them."""
        member, other = self.random.sample(self.cluster.members, 2)
        way = self.random.choice(["etcd", "all members", "one member", "members and etcd"])
        etcd = [(member.group, self.cluster.etcd_port)]
        peers = [other] if way == "one member" else [peer for peer in self.cluster.members if peer is not member]
        members = [pair for peer in peers for pair in ((member.group, peer.port), (peer.group, member.port))]
        pairs = (members if way != "etcd" else []) + (etcd if way in ("etcd", "members and etcd") else [])
        rules = "".join(f"meta skgid {group} tcp dport {port} drop\n" for group, port in pairs)
        nft(f"table inet esker_check {{\nchain out {{\ntype filter hook output priority 0;\n{rules}}}\n}}\n")
        return f"{member.name} from {way}", self._lasting(0.5, 2.0), lambda: nft("delete table inet esker_check\n")

    def etcd(self) -> Made:
        """Stops etcd's process for up to two leases, or kills it."""
        etcd = self.cluster.etcd
        if self.random.random() < 0.5:
            etcd.signal(signal.SIGSTOP)
            return "stopped", self._lasting(0.5, 2.0), lambda: etcd.signal(signal.SIGCONT)
        etcd.kill()
        return "killed", self._lasting(0.2, 2.0), etcd.start

    def clock(self) -> Made:
        """Makes the clock of a member jump by up to two minutes, and back."""
        member = self.random.choice(self.cluster.members)
        jump = self.random.choice([-1, 1]) * self.random.choice([0.05, 1.0, 10.0, 120.0])
        member.skew.write_text(f"{jump:+}\n")
        return f"{member.name} {jump:+} s", self._lasting(0.5, 1.0), lambda: member.skew.write_text("+0\n")


def nft(rules: str) -> None:
    """Applies rules of nftables, in the network namespace of this process."""
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
