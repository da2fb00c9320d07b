"""What bench/compare runs: hcomm, its peers, and the raw programs, each as a subject with groups and commands.

Every subject yields rows (measure, x, value) with the same meaning:
latency us one way, bandwidth MB/s (10^6), rate msg/s, barrier us, match_* us, but match_rate* msg/s; x is bytes, ranks
or queue length.
SPDX-License-Identifier: BSD-3-Clause
"""

import csv
import math
import os
import shutil
import socket
import subprocess
import tempfile
import time

START_LIMIT = 60  # s until a server listens
MEASURES = {
    ("latency", "average"): "latency",
    ("multi_lat", "average"): "latency",
    ("bw", "bandwidth"): "bandwidth",
    ("bw", "rate"): "rate",
    ("barrier", "average"): "barrier",
    ("match_posted", "exact"): "match_posted",
    ("match_posted", "any_source"): "match_posted_any",
    ("match_unexpected", "exact"): "match_unexpected",
    ("match_unexpected", "any_source"): "match_unexpected_any",
    ("match_rate", "exact"): "match_rate",
    ("match_rate", "any"): "match_rate_any",
}


class Failed(Exception):
    """A subject did not run; the text says which command and why."""


class TimedOut(Failed):
    """The time limit passed; `output` is what was said until then, in whole lines."""

    def __init__(self, text, output):
        super().__init__(text)
        self.output = output[: output.rfind("\n") + 1]


class Run:
    """What a measurement is asked for: build folder, processors, sizes, seconds per point."""

    def __init__(self, build, sizes, seconds, queues, timeout):
        self.build = os.path.abspath(build)
        self.sizes = sizes
        self.seconds = seconds
        self.queues = queues
        self.timeout = timeout
        self.processors = sorted(os.sched_getaffinity(0))

    def path(self, name):
        return os.path.join(self.build, name)


def end(process):
    """End a job that takes too long: a launcher that is asked ends its ranks. What it had printed."""
    process.terminate()
    try:
        return process.communicate(timeout=10)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        return process.communicate()[0]


def call(run, command, environment=None):
    """Standard output of a command; its whole process group ends at the deadline."""
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=run.timeout)
    except subprocess.TimeoutExpired:
        raise TimedOut(f"{' '.join(command)}: not done after {run.timeout:g} s", end(process)) from None
    if process.returncode != 0:
        last = (errors.strip().splitlines() or ["no words"])[-1]
        raise Failed(f"{' '.join(command)}: exit {process.returncode}: {last}")
    return output


def read_rows(output):
    """Rows of hcomm_perf --csv, of mpi_peer and of the raw programs."""
    for row in csv.reader(output.splitlines()):
        if len(row) != 11 or row[0] == "test":
            continue
        measure = MEASURES.get((row[0], row[8]))
        if measure:
            yield measure, int(row[7]), float(row[10])


def unfinished(run, test, rows):
    """Rows of the points of a match test that are missing, with the value for "longer than the limit"."""
    least, _, most = run.queues.partition(":")
    x = int(least)
    while x <= int(most or least):
        for measure in (name for (word, _), name in MEASURES.items() if word == test):
            if (measure, x) not in {row[:2] for row in rows}:
                yield measure, x, math.inf
        x = x * 10 if x else 1


def match_rows(run, command, test, environment=None):
    """Long queues take some peers longer than the limit; what they were done with by then counts."""
    try:
        return list(read_rows(call(run, command, environment)))
    except TimedOut as late:
        rows = list(read_rows(late.output))
        return rows + list(unfinished(run, test, rows))


def axis_of(run, tests):
    return run.queues if tests[0].startswith("match") else run.sizes


class Hcomm:
    """hcomm_perf under hcommrun."""

    role = "hcomm"

    def __init__(self, name, group, tests, ranks=2, options=(), sizes=None):
        self.name, self.group, self.tests, self.ranks, self.options = name, group, tests, ranks, list(options)
        self.sizes = sizes  # None: the run's

    def missing(self, run):
        return [p for p in ("hcommrun", "hcomm_perf") if not os.access(run.path(p), os.X_OK)]

    def rows(self, run):
        command = [run.path("hcommrun"), "-n", str(self.ranks)]
        command += ["--bind-to", "core"] if self.ranks <= len(run.processors) else ["--oversubscribe"]
        command += [run.path("hcomm_perf"), "--csv", "-T", str(run.seconds)]
        if self.tests[0].startswith("match"):
            return match_rows(run, command + ["--queue", run.queues] + self.options + self.tests, self.tests[0])
        if self.tests[0] != "barrier":
            command += ["-s", self.sizes or run.sizes]
        return read_rows(call(run, command + self.options + self.tests))


class Mpi:
    """mpi_peer under an MPI's own launcher."""

    role = "peer"

    def __init__(self, name, group, tests, mpi, ranks=2, options=(), environment=None, sizes=None):
        self.name, self.group, self.tests, self.mpi, self.ranks = name, group, tests, mpi, ranks
        self.options, self.environment = list(options), environment or {}
        self.sizes = sizes  # None: the run's

    def launcher(self, run):
        bind = self.ranks <= len(run.processors)
        if self.mpi == "mpich":
            return ["mpiexec.mpich", "-n", str(self.ranks)] + (["-bind-to", "core"] if bind else [])
        command = ["mpirun.openmpi", "--allow-run-as-root", "-n", str(self.ranks)]
        return command + (["--bind-to", "core"] if bind else ["--oversubscribe", "--bind-to", "none"])

    def missing(self, run):
        program = run.path("bench/mpi_peer." + self.mpi)
        return [p for p in (self.launcher(run)[0], program) if not shutil.which(p)]

    def rows(self, run):
        command = self.launcher(run) + self.options + [run.path("bench/mpi_peer." + self.mpi)]
        command += [self.name.replace(" ", "-"), str(run.seconds), self.sizes or axis_of(run, self.tests)] + self.tests
        if self.tests[0].startswith("match"):
            return match_rows(run, command, self.tests[0], self.environment)
        return read_rows(call(run, command, self.environment))


class Raw:
    """A raw program of ours: the machine's limit, not a peer. Its rows say which subject they belong to."""

    role = "limit"

    def __init__(self, name, group, program):
        self.name, self.group, self.program = name, group, program

    def missing(self, run):
        return [] if os.access(run.path("bench/" + self.program), os.X_OK) else [self.program]

    def rows(self, run):
        output = call(run, [run.path("bench/" + self.program), str(run.seconds)])
        for row in csv.reader(output.splitlines()):
            measure = MEASURES.get((row[0], row[8]))
            if measure:
                yield measure, int(row[7]), float(row[10]), "raw " + row[1]


class BareFabric:
    """raw_ofi: one provider of libfabric as hcomm opens it, without hcomm. What hcomm takes longer, it adds."""

    role = "peer"

    def __init__(self, name, group, provider):
        self.name, self.group, self.provider = name, group, provider

    def missing(self, run):
        return [] if os.access(run.path("bench/raw_ofi"), os.X_OK) else ["raw_ofi"]

    def rows(self, run):
        return read_rows(call(run, [run.path("bench/raw_ofi"), str(run.seconds), self.provider, run.sizes]))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    """Whether some process of this machine listens at the port."""
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        with open(table) as file:
            fields = [line.split() for line in file][1:]
        if any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == int(port) for row in fields):
            return True
    return False


def await_listener(server, port):
    """Until the server listens, has ended, or START_LIMIT is over; its client, which tries once, tells what is wrong."""
    end_at = time.monotonic() + START_LIMIT
    while not listens(port) and server.poll() is None and time.monotonic() < end_at:
        time.sleep(0.02)


def pair(run, port, server, client, environment=None):
    """Output of the client of a client and server pair, on the first and the last processor."""
    place = lambda cpu, command: ["taskset", "-c", str(cpu)] + command
    background = subprocess.Popen(
        place(run.processors[0], server),
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await_listener(background, port)
        return call(run, place(run.processors[-1], client), environment)
    finally:
        try:
            background.wait(timeout=2)
        except subprocess.TimeoutExpired:
            os.killpg(background.pid, 9)
            background.wait()


def repeats(size, small, large):
    return small if size <= 8192 else max(large * 65536 // max(size, 65536), 20)


class Ucx:
    """ucx_perftest over the transports named, one size: every run starts processes, and a placement may not last
    for all sizes. It counts bandwidth in 2^20 bytes."""

    role = "peer"

    def __init__(self, name, group, transports, size):
        self.name, self.group, self.transports, self.size = name, group, transports, size

    def missing(self, run):
        return [] if shutil.which("ucx_perftest") else ["ucx_perftest"]

    def rows(self, run):
        environment = {"UCX_TLS": self.transports, "UCX_WARN_UNUSED_ENV_VARS": "n"}
        size = self.size
        for test, n in (("tag_lat", repeats(size, 20000, 2000)), ("tag_bw", repeats(size, 200000, 4000))):
            port = str(free_port())
            command = ["ucx_perftest", "-p", port]
            client = ["-t", test, "-s", str(size), "-n", str(n), "-w", str(max(n // 10, 10)), "-f", "-v"]
            output = pair(run, port, command, command[:1] + ["127.0.0.1"] + command[1:] + client, environment)
            yield from self.read(output, test, size)

    def read(self, output, test, size):
        """The last line: iterations, median us, average us, overall us, average MB/s, overall MB/s, rates."""
        lines = [line for line in output.splitlines() if line.strip()[:1].isdigit()]
        if not lines:
            raise Failed(f"ucx_perftest {test}: no figures in its output")
        fields = [float(f) for f in lines[-1].split(",")]
        if test == "tag_lat":
            yield "latency", size, fields[3]
        else:
            yield "bandwidth", size, fields[5] * 1.048576
            yield "rate", size, fields[7]


class Fabric:
    """fi_pingpong of libfabric over one provider, one size: latency alone."""

    role = "peer"

    def __init__(self, name, group, provider, size):
        self.name, self.group, self.provider, self.size = name, group, provider, size

    def missing(self, run):
        return [] if shutil.which("fi_pingpong") else ["fi_pingpong"]

    def rows(self, run):
        port = str(free_port())
        common = ["-p", self.provider, "-e", "rdm", "-S", str(self.size), "-I", str(repeats(self.size, 5000, 500))]
        server, client = ["fi_pingpong", "-B", port] + common, ["fi_pingpong", "-P", port] + common + ["127.0.0.1"]
        lines = [line.split() for line in pair(run, port, server, client).splitlines() if line[:1].isdigit()]
        if not lines:
            raise Failed(f"fi_pingpong {self.provider}: no figures in its output")
        yield "latency", self.size, float(lines[-1][6])


VADER = ("--mca", "pml", "ob1", "--mca", "btl", "self,vader")
# Open MPI takes UCX by itself only where it finds an InfiniBand device.
OPENMPI_UCX = ("--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any")
OPENMPI_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "self,tcp")
POINT_TO_POINT = ["latency", "bw"]


def shared_memory(sizes):
    yield Hcomm("hcomm", "shm", POINT_TO_POINT)
    yield Mpi("Open MPI", "shm", POINT_TO_POINT, "openmpi")
    yield Mpi("Open MPI vader", "shm", POINT_TO_POINT, "openmpi", options=VADER)
    yield Hcomm("hcomm memory", "shm", POINT_TO_POINT, options=["--memory", "hcomm"])
    yield Mpi("Open MPI ucx", "shm", POINT_TO_POINT, "openmpi", options=OPENMPI_UCX)
    yield Mpi("MPICH", "shm", POINT_TO_POINT, "mpich")
    yield Hcomm("hcomm small", "shm", ["bw"], options=["--mode", "small"])
    for size in sizes:
        yield Ucx("UCX posix", "shm", "posix,self", size)
        yield Ucx("UCX sysv", "shm", "sysv,self", size)
        yield Ucx("UCX posix+cma", "shm", "posix,cma,self", size)
        yield Fabric("libfabric shm", "shm", "shm", size)
    for name, program in (("line", "raw_line"), ("ring", "raw_ring"), ("copy", "raw_copy")):
        yield Raw("raw " + name, "shm", program)


def network(sizes):
    yield Hcomm("hcomm", "tcp", POINT_TO_POINT, options=["-t", "ofi:tcp"])
    yield Mpi("Open MPI", "tcp", POINT_TO_POINT, "openmpi", options=OPENMPI_TCP)
    yield Mpi("MPICH", "tcp", POINT_TO_POINT, "mpich", environment={"UCX_TLS": "tcp,self"})
    yield Mpi("Open MPI ucx", "tcp", POINT_TO_POINT, "openmpi", options=OPENMPI_UCX, environment={"UCX_TLS": "tcp,self"})
    yield BareFabric("libfabric net", "tcp", "net")
    yield BareFabric("libfabric tcp;ofi_rxm", "tcp", "tcp;ofi_rxm")
    for size in sizes:
        yield Ucx("UCX tcp", "tcp", "tcp,self", size)
        yield Fabric("fi_pingpong tcp;ofi_rxm", "tcp", "tcp;ofi_rxm", size)
        yield Fabric("fi_pingpong net", "tcp", "net", size)
    yield Raw("raw tcp", "tcp", "raw_tcp")


def barriers(ranks):
    group = f"barrier{ranks}"
    yield Hcomm("hcomm", group, ["barrier"], ranks)
    yield Mpi("Open MPI", group, ["barrier"], "openmpi", ranks)
    yield Mpi("Open MPI ucx", group, ["barrier"], "openmpi", ranks, OPENMPI_UCX)
    yield Mpi("MPICH", group, ["barrier"], "mpich", ranks)


def pairs(ranks):
    """Ping-pongs of several pairs at once, more ranks than processors: who waits must give its processor away."""
    group, tests, sizes = f"pairs{ranks}", ["multi_lat"], "8:8"
    yield Hcomm("hcomm", group, tests, ranks, sizes=sizes)
    yield Mpi("Open MPI", group, tests, "openmpi", ranks, sizes=sizes)
    yield Mpi("Open MPI ucx", group, tests, "openmpi", ranks, OPENMPI_UCX, sizes=sizes)
    yield Mpi("MPICH", group, tests, "mpich", ranks, sizes=sizes)


def matching():
    for test in ("match_posted", "match_unexpected", "match_rate"):
        yield Hcomm("hcomm", test, [test])
        yield Mpi("Open MPI", test, [test], "openmpi")
        yield Mpi("Open MPI ucx", test, [test], "openmpi", options=OPENMPI_UCX)
        yield Mpi("MPICH", test, [test], "mpich")


# Subjects of every group; `sizes` are those of the peers that start anew for every size.
GROUPS = {
    "shm": lambda sizes: list(shared_memory(sizes)),
    "tcp": lambda sizes: list(network(sizes)),
    "barrier": lambda sizes: list(barriers(2)) + list(barriers(8)),
    "many": lambda sizes: list(pairs(8)) + list(barriers(64)),
    "match": lambda sizes: list(matching()),
}
