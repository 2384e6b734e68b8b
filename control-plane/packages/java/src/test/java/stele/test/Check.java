package stele.test;

import java.io.IOException;
import java.net.Socket;
import java.nio.file.Files;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The package's test, without a framework: ends with an exception if something is wrong. */
final class Check {
    public static void main(String[] args) throws IOException {
        SteleCluster cluster = SteleCluster.start("--scheduler");
        Matcher address = Pattern.compile("https://([^:\\s]+):(\\d+)")
                .matcher(Files.readString(cluster.kubeconfig()));
        check(address.find(), "the kubeconfig has an address");
        String host = address.group(1);
        int port = Integer.parseInt(address.group(2));
        new Socket(host, port).close();
        cluster.close();
        cluster.close();
        check(!Files.exists(cluster.kubeconfig().getParent()), "nothing is left behind");
        check(fails(() -> new Socket(host, port).close()) != null, "it serves no longer");

        IOException refused = fails(() -> SteleCluster.start("--controllers=workloads"));
        String why = "\"workloads\" is not in the list of known controllers";
        check(refused.getMessage().contains(why), refused.getMessage());
        IOException missing = fails(() -> SteleCluster.startProgram("/nowhere/stele-kube"));
        check(missing.getMessage().contains("STELE_KUBE"), missing.getMessage());
        System.out.println("all is well");
    }

    private interface Step {
        void run() throws IOException;
    }

    private static IOException fails(Step step) {
        try {
            step.run();
            return null;
        } catch (IOException error) {
            return error;
        }
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
