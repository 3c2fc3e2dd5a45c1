"""A real one-node Slurm on the loopback address, all its files in one folder, stopped by its process ids."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """What a machine lacks to run this, in words."""
    lacking = [name for name in DAEMONS if shutil.which(name) is None]
    return lacking + ([] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["the rights of root"])


@contextmanager
def one_node(folder: Path) -> Iterator[dict[str, str]]:
    """Start the daemons, wait until the node is idle, and yield the environment in which Slurm's commands find it."""
    for part in ("state", "spool", "munge"):
        (folder / part).mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(host=host, folder=folder, cores=os.cpu_count(), **ports))
    environment = os.environ | {"SLURM_CONF": str(config)}
    parts = {"key-file": key, "socket": folder / "munge/socket", "pid-file": folder / "munge/pid"}
    parts |= {"log-file": folder / "munge/log", "seed-file": folder / "munge/seed"}
    commands = [
        ["munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in parts.items())],
        ["slurmctld", "-D", "-i"],
        ["slurmd", "-D"],
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        with (folder / "daemons.log").open("wb") as log:
            for command in commands:
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
                time.sleep(0.3)
        deadline = time.monotonic() + 60
        while _state(environment) != "idle":
            assert time.monotonic() < deadline, (folder / "daemons.log").read_text()
            time.sleep(0.2)
        yield {"SLURM_CONF": str(config)}
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait()


def _state(environment: dict[str, str]) -> str:
    done = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)
    return done.stdout.strip()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
