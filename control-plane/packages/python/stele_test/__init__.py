"""Clusters for the tests of operators: each is one process of `stele-kube test`, which keeps
everything in a temporary directory."""

import os
import subprocess
import tempfile

__all__ = ["Cluster", "StartError"]

# Seconds that a cluster may take to stop before it is killed.
_PATIENCE = 10


class StartError(Exception):
    """A cluster could not be started; the message is what it said."""


class Cluster:
    """A running cluster; use it in a `with` statement, or call `stop`. It also ends when this
    process ends.

    `flags` are those of `stele-kube test`. The program is the one that the variable STELE_KUBE
    names, or `stele-kube` in PATH.
    """

    #: The path of a kubeconfig with all rights.
    kubeconfig: str

    def __init__(self, *flags: str):
        program = os.environ.get("STELE_KUBE") or "stele-kube"
        self._log = tempfile.NamedTemporaryFile(prefix="stele-kube-", suffix=".log")
        try:
            self._process = subprocess.Popen(
                [program, "test", *flags],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
        except OSError as error:
            self._log.close()
            why = f"cannot run {program} (set STELE_KUBE to its path): {error}"
            raise StartError(why) from error
        self.kubeconfig = self._process.stdout.readline().strip()
        if not self.kubeconfig:
            said = self.log()
            self._end()
            raise StartError(f"{program} test ended before its API answered: {said}")

    def log(self) -> str:
        """What the cluster has logged so far."""
        with open(self._log.name, encoding="utf-8", errors="replace") as log:
            return log.read()

    def stop(self) -> None:
        """Ends the cluster and removes all that it kept. A second call does nothing."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._process.stdout.close()
            self._log.close()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_) -> None:
        self.stop()
