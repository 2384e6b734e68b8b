import os
import re
import socket
import unittest
from unittest import mock

from stele_test import Cluster, StartError


def address(kubeconfig):
    with open(kubeconfig, encoding="utf-8") as text:
        host, port = re.search(r"https://([^:\s]+):(\d+)", text.read()).groups()
    return host, int(port)


class Clusters(unittest.TestCase):
    def test_a_cluster_serves_and_leaves_nothing_behind(self):
        with Cluster("--scheduler") as cluster:
            where = address(cluster.kubeconfig)
            socket.create_connection(where).close()
        self.assertFalse(os.path.exists(os.path.dirname(cluster.kubeconfig)))
        with self.assertRaises(OSError):
            socket.create_connection(where)
        cluster.stop()

    def test_a_cluster_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(StartError, '"workloads" is not in the list of known'):
            Cluster("--controllers=workloads")
        with mock.patch.dict(os.environ, STELE_KUBE="/nowhere/stele-kube"):
            with self.assertRaisesRegex(StartError, "STELE_KUBE"):
                Cluster()


if __name__ == "__main__":
    unittest.main()
