#!/usr/bin/env python3
"""What one transaction costs in the pooler, beside PgBouncer's.

The same throwaway Postgres and the same pgbench (select-only, simple protocol) run through pgfleet with
one worker and through PgBouncer, in turns. Printed are the CPU time of the pooler for each transaction
(user and system, of all its processes, from /proc), the ratio as the median of the pairs with its spread,
and the system calls of a transaction by kind. Exit status 1 if a bar is missed.

Figures of single runs depend on the machine and on what else it does; the ratio of a pair much less.
"""
import argparse
import glob
import os
import pwd
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
BAR = 1.15  # of PgBouncer's CPU for a transaction
CALLS = 4.05  # data system calls for a simple transaction
PARALLEL_CALLS = ("read", "recvfrom", "recvmsg", "readv", "write", "sendto", "sendmsg", "writev")


def fail(text):
    sys.exit(f"bench: {text}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tool(name):
    dirs = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda d: int(d.split("/")[-2]))
    for directory in reversed(dirs):
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    return shutil.which(name) or fail(f"{name} is missing: run make bench, which installs it")


def servant():
    """The account that servers run as: Postgres and pgfleet refuse root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return fail("root needs an unprivileged account to run servers as: add the user postgres")


class Lab:
    """A directory, a cluster in it, and the poolers in front of it; all of it ends with `close`."""

    def __init__(self, pool, clients):
        self.account = servant()
        self.dir = tempfile.mkdtemp(prefix="pgfleet-bench-")
        if self.account:
            os.chown(self.dir, self.account.pw_uid, self.account.pw_gid)
        os.chmod(self.dir, 0o755)
        self.pool, self.clients = pool, clients
        self.ports = {"postgres": free_port(), "pgfleet": free_port(), "pgbouncer": free_port()}
        self.started = []

    def run(self, *command, check=True, **options):
        ids = {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []} if self.account else {}
        result = subprocess.run(command, capture_output=True, text=True, cwd=self.dir, **ids, **options)
        if check and result.returncode != 0:
            fail(f"{' '.join(command)} failed ({result.returncode}):\n{result.stdout}{result.stderr}")
        return result

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o600)
        if self.account:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)
        return path

    def address(self, who):
        return f"host=127.0.0.1 port={self.ports[who]} dbname=bench user=bench"

    def start_postgres(self):
        data = os.path.join(self.dir, "data")
        self.run(tool("initdb"), "-D", data, "-A", "trust", "-U", "bench", "--no-sync")
        settings = (
            f"port={self.ports['postgres']}\nlisten_addresses='127.0.0.1'\nunix_socket_directories='{self.dir}'\n"
            f"max_connections={self.clients + 20}\nfsync=off\nlog_min_messages=fatal\n"
        )
        with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write(settings)
        self.run(tool("pg_ctl"), "-D", data, "-w", "-s", "-l", os.path.join(self.dir, "postgres.log"), "start")
        self.started.append(lambda: self.run(tool("pg_ctl"), "-D", data, "-m", "immediate", "-s", "stop", check=False))
        self.run(tool("psql"), "-q", "-d", self.address("postgres").replace("dbname=bench", "dbname=postgres"), "-c", "create database bench")
        self.run(tool("pgbench"), "-i", "-q", "-s", "5", self.address("postgres"))

    def target(self):
        return f"host=127.0.0.1 port={self.ports['postgres']}"

    def start_pgfleet(self):
        bins = os.path.join(self.dir, "bin")
        os.mkdir(bins)
        os.chmod(bins, 0o755)
        for name in ("pgfleet", "pgfleetd"):
            shutil.copy(os.path.join(os.environ.get("PGFLEET_BIN_DIR", os.path.join(TARGET, "release")), name), bins)
        self.write("users.txt", '"bench" ""\n')
        config = self.write(
            "pgfleet.toml",
            f'listen_addr = "127.0.0.1"\nlisten_port = {self.ports["pgfleet"]}\nauth_type = "trust"\nauth_file = "users.txt"\n'
            f'pool_mode = "transaction"\ndefault_pool_size = {self.pool}\nmax_client_conn = 1000\nworkers = 1\n'
            f'runtime_dir = "{self.dir}/run"\nlog_connections = false\nlog_disconnections = false\n'
            f'[databases]\nbench = "{self.target()}"\n',
        )
        pgfleet = os.path.join(bins, "pgfleet")
        self.run(pgfleet, "start", "--config", config, "--quiet")
        self.started.append(lambda: self.run(pgfleet, "stop", "--config", config, "--mode", "immediate", "--quiet", check=False))
        with open(os.path.join(self.dir, "run", "private", "pid"), encoding="utf-8") as file:
            return int(file.read().split()[0])

    def start_pgbouncer(self):
        program = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin") or fail("pgbouncer is missing: run make bench, which installs it")
        ini = self.write(
            "pgbouncer.ini",
            f"[databases]\nbench = {self.target()}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={self.ports['pgbouncer']}\n"
            f"unix_socket_dir=\nauth_type=trust\nauth_file={self.dir}/users.txt\npool_mode=transaction\ndefault_pool_size={self.pool}\n"
            f"max_client_conn=1000\npidfile={self.dir}/pgbouncer.pid\nlogfile={self.dir}/pgbouncer.log\n"
            "ignore_startup_parameters=extra_float_digits\nlog_connections=0\nlog_disconnections=0\n",
        )
        self.run(program, "-q", "-d", ini)
        pid = int(wait_for(os.path.join(self.dir, "pgbouncer.pid")))
        self.started.append(lambda: os.kill(pid, signal.SIGQUIT))
        return pid

    def load(self, who, seconds=None):
        """Transactions that pgbench ran, with nothing gone wrong: for so long, or one for each client."""
        length = ["-t", "1"] if seconds is None else ["-T", str(seconds)]
        result = self.run(tool("pgbench"), "-n", "-S", "-M", "simple", "-c", str(self.clients), "-j", "2", *length, self.address(who))
        done = re.search(r"actually processed: (\d+)", result.stdout)
        if not done or re.search(r"error|aborted|failed transactions: [1-9]", result.stdout + result.stderr, re.I):
            fail(f"pgbench through {who} was not clean:\n{result.stdout}{result.stderr}")
        return int(done[1])

    def close(self):
        for stop in reversed(self.started):
            try:
                stop()
            except OSError as error:
                print(f"bench: could not stop something: {error}", file=sys.stderr)
        shutil.rmtree(self.dir, ignore_errors=True)


def wait_for(path, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
        time.sleep(0.05)
    return fail(f"{path} did not appear in {seconds} s")


def family(pid):
    """A process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        return [pid] + [int(child) for child in file.read().split()]


def cpu(pids):
    """CPU seconds of processes so far, from the scheduler's nanoseconds where they are there."""
    total = 0
    for pid in pids:
        for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
            with open(path, encoding="utf-8") as file:
                total += int(file.read().split()[0]) / 1e9
    return total


def system_calls(pid, lab, who):
    """System calls of one transaction, by kind: what a long run has more than one that only connects."""
    short, few = traced(pid, lab, who, None)
    long, many = traced(pid, lab, who, 3)
    return {name: (count - short.get(name, 0)) / (many - few) for name, count in long.items()}


def traced(pid, lab, who, seconds):
    """System calls by kind of a run under strace, and its transactions."""
    out = os.path.join(lab.dir, f"strace-{who}")
    with open(out, "w", encoding="utf-8"):
        pass
    os.chmod(out, 0o666)
    tracer = subprocess.Popen(["strace", "-c", "-f", "-p", str(pid), "-o", out], stderr=subprocess.PIPE, text=True)
    tracer.stderr.readline()
    done = lab.load(who, seconds)
    tracer.send_signal(signal.SIGINT)
    tracer.wait(10)
    calls = {}
    with open(out, encoding="utf-8") as file:
        for line in file:
            row = line.split()
            if len(row) >= 5 and row[3].isdigit() and row[-1] != "total":
                calls[row[-1]] = int(row[3])
    if not calls:
        fail(f"strace saw no system call of {who}; is ptrace allowed here?")
    return calls, done


def measure(pool, options):
    lab = Lab(pool, options.clients)
    ratios = []
    try:
        lab.start_postgres()
        pids = {"pgfleet": lab.start_pgfleet(), "pgbouncer": lab.start_pgbouncer()}
        for who in pids:
            lab.load(who, 1)
        print(f"\n{options.clients} clients on a pool of {pool}, select-only, simple protocol, TCP on both sides")
        print(f"{'pair':>4}  {'pgfleet µs/tx':>14} {'tps':>8}  {'pgbouncer µs/tx':>15} {'tps':>8}  {'ratio':>6}")
        for pair in range(options.pairs):
            cost, tps = {}, {}
            for who in ("pgfleet", "pgbouncer") if pair % 2 else ("pgbouncer", "pgfleet"):
                members = family(pids[who])
                before = cpu(members)
                done = lab.load(who, options.seconds)
                cost[who] = (cpu(members) - before) / done * 1e6
                tps[who] = done / options.seconds
            ratios.append(cost["pgfleet"] / cost["pgbouncer"])
            print(f"{pair + 1:>4}  {cost['pgfleet']:>14.2f} {tps['pgfleet']:>8.0f}  {cost['pgbouncer']:>15.2f} {tps['pgbouncer']:>8.0f}  {ratios[-1]:>6.3f}")
        calls = {who: system_calls(max(family(pid)), lab, who) for who, pid in pids.items()}
    finally:
        lab.close()
    ratio = statistics.median(ratios)
    print(f"ratio of CPU for a transaction: median {ratio:.3f}, from {min(ratios):.3f} to {max(ratios):.3f} (bar: {BAR})")
    for who, kinds in calls.items():
        shown = ", ".join(f"{name} {count:.2f}" for name, count in sorted(kinds.items(), key=lambda item: -item[1]) if count >= 0.005)
        print(f"system calls of a transaction, {who}: {shown}")
    data = sum(count for name, count in calls["pgfleet"].items() if name in PARALLEL_CALLS)
    missed = []
    if ratio > BAR:
        missed.append(f"CPU is {ratio:.3f} of PgBouncer's on a pool of {pool}, above {BAR}")
    if data > CALLS:
        missed.append(f"{data:.2f} data system calls for a transaction on a pool of {pool}, above {CALLS}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="runs of each pooler (default 5)")
    parser.add_argument("--seconds", type=int, default=5, help="length of a run (default 5)")
    parser.add_argument("--clients", type=int, default=64, help="clients of pgbench (default 64)")
    options = parser.parse_args()
    missed = measure(20, options) + measure(options.clients, options)
    for line in missed:
        print(f"bench: {line}", file=sys.stderr)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
