package stele.test;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A cluster for the tests of an operator: one process of {@code stele-kube test}, which keeps
 * everything in a temporary directory. It also ends when this process ends.
 */
public final class SteleCluster implements AutoCloseable {
    /** Seconds that a cluster may take to stop before it is killed. */
    private static final long PATIENCE = 10;

    private final Process process;
    private final Path log;
    private final Path kubeconfig;

    private SteleCluster(Process process, Path log, Path kubeconfig) {
        this.process = process;
        this.log = log;
        this.kubeconfig = kubeconfig;
    }

    /**
     * Starts a cluster with these flags of {@code stele-kube test}, and returns when its API
     * answers. The program is the one that the variable {@code STELE_KUBE} names, or
     * {@code stele-kube} in {@code PATH}.
     *
     * @throws IOException if it cannot be started; the message is what it said
     */
    public static SteleCluster start(String... flags) throws IOException {
        String named = System.getenv("STELE_KUBE");
        return startProgram(named == null || named.isEmpty() ? "stele-kube" : named, flags);
    }

    /** Starts a cluster with the program at this path. */
    public static SteleCluster startProgram(String program, String... flags) throws IOException {
        List<String> command = new ArrayList<>(List.of(program, "test"));
        command.addAll(List.of(flags));
        Path log = Files.createTempFile("stele-kube-", ".log");
        Process process;
        try {
            process = new ProcessBuilder(command).redirectError(log.toFile()).start();
        } catch (IOException error) {
            Files.delete(log);
            String why = "cannot run " + program + " (set STELE_KUBE to its path)";
            throw new IOException(why, error);
        }
        String line = process.inputReader().readLine();
        if (line == null) {
            String said = Files.readString(log);
            end(process, log);
            throw new IOException(program + " test ended before its API answered: " + said);
        }
        return new SteleCluster(process, log, Path.of(line.strip()));
    }

    /** The path of a kubeconfig with all rights. */
    public Path kubeconfig() {
        return kubeconfig;
    }

    /** What the cluster has logged so far. */
    public String log() throws IOException {
        return Files.readString(log);
    }

    /** Ends the cluster and removes all that it kept. A second call does nothing. */
    @Override
    public void close() throws IOException {
        if (Files.exists(log)) {
            process.destroy();
            end(process, log);
        }
    }

    private static void end(Process process, Path log) throws IOException {
        try {
            if (!process.waitFor(PATIENCE, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
                throw new IOException("stele-kube did not stop by itself");
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        } finally {
            Files.deleteIfExists(log);
        }
    }
}
