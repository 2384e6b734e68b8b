import static io.etcd.jetcd.options.GetOption.SortOrder.DESCEND;
import static io.etcd.jetcd.options.GetOption.SortTarget.VALUE;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.ClientBuilder;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.Watch;
import io.etcd.jetcd.auth.Permission;
import io.etcd.jetcd.common.exception.EtcdException;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.op.Cmp;
import io.etcd.jetcd.op.CmpTarget;
import io.etcd.jetcd.op.Op;
import io.etcd.jetcd.options.DeleteOption;
import io.etcd.jetcd.options.GetOption;
import io.etcd.jetcd.options.LeaseOption;
import io.etcd.jetcd.options.PutOption;
import io.etcd.jetcd.options.WatchOption;
import io.etcd.jetcd.watch.WatchEvent;
import io.etcd.jetcd.watch.WatchResponse;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * The story of jetcd. It is run against Stele and against etcd, and the lines it prints have to be
 * the same: they hold neither times nor ids nor revisions.
 */
final class Story {
    private static final long LIMIT_MS = 120_000;
    private static final Duration SILENCE = Duration.ofSeconds(5);
    private static final String PASSWORD = "a secret";
    private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));
    private static String http;
    private static String https;
    private static File pki;

    public static void main(String[] args) throws Exception {
        http = args[0];
        https = args[1];
        pki = new File(args[2]);
        Thread limit = new Thread(Story::limit);
        limit.setDaemon(true);
        limit.start();
        try (Client client = Client.builder().endpoints("http://127.0.0.1:" + http).build()) {
            kv(client);
            txn(client);
            lease(client);
            lock(client);
            election(client);
            watch(client);
            tls();
            auth(client);
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void kv(Client client) throws Exception {
        var kv = client.getKVClient();
        for (int i = 0; i < 5; i++) {
            get(kv.put(b("list/" + i), b("" + (9 - i))));
        }
        var previous = get(kv.put(b("list/0"), b("again"), PutOption.builder().withPrevKV().build()));
        var read = get(kv.get(b("list/0"))).getKvs().get(0);
        tell("kv", pair(read), read.getVersion(), pair(previous.getPrevKv()), get(kv.get(b("nothing"))).getCount());
        var byValue = GetOption.builder().isPrefix(true).withSortField(VALUE).withSortOrder(DESCEND);
        var list = get(kv.get(b("list/"), byValue.withLimit(3).build()));
        tell("kv list", pairs(list.getKvs()), list.isMore(), list.getCount());
        var all = DeleteOption.builder().isPrefix(true).withPrevKV(true).build();
        var gone = get(kv.delete(b("list/"), all));
        tell("kv deleted", gone.getDeleted(), pairs(gone.getPrevKvs()));
        var future = GetOption.builder().withRevision(1_000_000).build();
        tell("kv future", refused(kv.get(b("a"), future)));
    }

    private static void txn(Client client) throws Exception {
        var kv = client.getKVClient();
        get(kv.put(b("txn"), b("one")));
        Op put = Op.put(b("txn"), b("two"), PutOption.DEFAULT);
        Op read = Op.get(b("txn"), GetOption.DEFAULT);
        Cmp isOne = new Cmp(b("txn"), Cmp.Op.EQUAL, CmpTarget.value(b("one")));
        Cmp isNew = new Cmp(b("txn"), Cmp.Op.EQUAL, CmpTarget.version(1));
        for (int i = 0; i < 2; i++) {
            var done = get(kv.txn().If(isOne, isNew).Then(put, read).Else(read).commit());
            tell("txn", done.isSucceeded(), pairs(done.getGetResponses().get(0).getKvs()), done.getPutResponses().size());
        }
        tell("txn refused", refused(kv.txn().Then(put, put).commit()));
    }

    private static void lease(Client client) throws Exception {
        var kv = client.getKVClient();
        var leases = client.getLeaseClient();
        long kept = get(leases.grant(30)).getID();
        get(kv.put(b("leased"), b("x"), PutOption.builder().withLeaseId(kept).build()));
        var about = get(leases.timeToLive(kept, LeaseOption.builder().withAttachedKeys().build()));
        tell("lease", about.getGrantedTTL(), about.getKeys(), get(leases.keepAliveOnce(kept)).getTTL());
        get(leases.revoke(kept));
        kept = get(leases.grant(6)).getID();
        get(kv.put(b("leased"), b("x"), PutOption.builder().withLeaseId(kept).build()));
        var answers = new Told<LeaseKeepAliveResponse>();
        leases.keepAlive(kept, answers);
        tell("lease kept", answers.next().getTTL());
        get(leases.revoke(kept));
        tell("lease revoked", get(kv.get(b("leased"))).getCount(), answers.failure());
        tell("lease unknown", refused(leases.revoke(kept)), refused(leases.keepAliveOnce(kept)));
        var events = new Events();
        var watcher = client.getWatchClient().watch(b("expires"), WatchOption.DEFAULT, events);
        long shortly = get(leases.grant(1)).getID();
        get(kv.put(b("expires"), b("x"), PutOption.builder().withLeaseId(shortly).build()));
        tell("lease expired", told(events, 2));
        watcher.close();
    }

    private static void lock(Client client) throws Exception {
        var locks = client.getLockClient();
        long first = get(client.getLeaseClient().grant(30)).getID();
        long second = get(client.getLeaseClient().grant(30)).getID();
        ByteSequence held = get(locks.lock(b("name"), first)).getKey();
        var waiting = locks.lock(b("name"), second);
        var line = GetOption.builder().isPrefix(true).withCountOnly(true).build();
        while (get(client.getKVClient().get(b("name/"), line)).getCount() < 2) {
            Thread.sleep(10);
        }
        tell("lock", held.startsWith(b("name/")), waiting.isDone());
        get(locks.unlock(held));
        tell("lock released", get(waiting).getKey().startsWith(b("name/")));
        get(client.getLeaseClient().revoke(second));
        tell("lock without a lease", refused(locks.lock(b("name"), second)));
    }

    private static void election(Client client) throws Exception {
        var elections = client.getElectionClient();
        var name = b("election");
        long first = get(client.getLeaseClient().grant(30)).getID();
        long second = get(client.getLeaseClient().grant(30)).getID();
        tell("election of nobody", refused(elections.leader(name)));
        LeaderKey leading = get(elections.campaign(name, first, b("first"))).getLeader();
        var seen = new Leaders();
        elections.observe(name, seen);
        tell("election", pair(get(elections.leader(name)).getKv()).split("=")[1], seen.next().getKv().getValue());
        var waiting = elections.campaign(name, second, b("second"));
        get(elections.proclaim(leading, b("first again")));
        tell("election proclaimed", seen.next().getKv().getValue(), waiting.isDone());
        get(elections.resign(leading));
        get(waiting);
        tell("election resigned", seen.next().getKv().getValue(), refused(elections.proclaim(leading, b("late"))));
        get(client.getLeaseClient().revoke(second));
        tell("election over", refused(elections.leader(name)));
    }

    /** The client opens its watches again by itself. */
    private static void watch(Client client) throws Exception {
        var kv = client.getKVClient();
        long kept = get(client.getLeaseClient().grant(60)).getID();
        get(kv.put(b("watched/leased"), b("x"), PutOption.builder().withLeaseId(kept).build()));
        var events = new Events();
        var prefix = WatchOption.builder().isPrefix(true).withPrevKV(true);
        var watcher = client.getWatchClient().watch(b("watched/"), prefix.build(), events);
        var first = get(kv.put(b("watched/a"), b("1"))).getHeader().getRevision();
        var seen = told(events, 1);
        restart();
        var rest = prefix.withRevision(first + 1).build();
        // jetcd drops what a new stream brings before jetcd has set the stream's handler.
        do {
            until(() -> get(kv.put(b("watched/resumed"), b("x"))));
            if (events.isOver()) {
                // jetcd gives a watch up if it was writing when the connection broke.
                events = new Events();
                watcher = client.getWatchClient().watch(b("watched/"), rest, events);
            }
        } while (!events.bring("watched/resumed"));
        get(kv.put(b("watched/a"), b("2")));
        get(kv.delete(b("watched/leased")));
        var resumed = told(events, 2, SILENCE);
        while (resumed.size() < 2) {
            // jetcd goes on from the store's revision when a new stream breaks before it brought
            // an event: what came in between is lost, with etcd too.
            watcher.close();
            events = new Events();
            watcher = client.getWatchClient().watch(b("watched/"), rest, events);
            resumed = told(events, 2, SILENCE);
        }
        seen.addAll(resumed);
        tell("watch", seen);
        watcher.close();
        tell("watch lease", get(client.getLeaseClient().keepAliveOnce(kept)).getTTL());
        get(kv.compact(first + 1));
        var old = new Events();
        var early = WatchOption.builder().withRevision(1).build();
        client.getWatchClient().watch(b("watched/a"), early, old);
        tell("watch compacted", old.failure().replaceAll("[0-9]+", "N"));
        tell("read compacted", refused(kv.get(b("a"), GetOption.builder().withRevision(first).build())));
    }

    private static void tls() throws Exception {
        try (Client nobody = overTls(false, null, null)) {
            tell("tls without a certificate", refused(nobody.getKVClient().get(b("a"))).split(":")[0]);
        }
        try (Client client = overTls(true, null, null)) {
            get(client.getKVClient().put(b("tls"), b("x")));
            tell("tls", pairs(get(client.getKVClient().get(b("tls"))).getKvs()));
        }
    }

    private static void auth(Client plain) throws Exception {
        var auth = plain.getAuthClient();
        for (String role : List.of("root", "writer")) {
            get(auth.roleAdd(b(role)));
        }
        get(auth.roleGrantPermission(b("writer"), b("mine/"), b("mine0"), Permission.Type.READWRITE));
        for (String[] user : new String[][] {{"root", "root"}, {"alice", "writer"}}) {
            get(auth.userAdd(b(user[0]), b(PASSWORD)));
            get(auth.userGrantRole(b(user[0]), b(user[1])));
        }
        var granted = get(auth.roleGet(b("writer"))).getPermissions().get(0);
        tell("auth set up", get(auth.userList()).getUsers(), get(auth.roleList()).getRoles(),
            get(auth.userGet(b("alice"))).getRoles(), granted.getPermType(), granted.getKey(), granted.getRangeEnd());
        tell("auth again", refused(auth.roleAdd(b("writer"))), refused(auth.userGet(b("bob"))));
        get(auth.authEnable());
        tell("auth", refused(plain.getKVClient().get(b("mine/a"))));
        try (Client wrong = overTls(true, "alice", "wrong")) {
            tell("auth wrong password", refused(wrong.getKVClient().get(b("mine/a"))));
        }
        try (Client alice = overTls(true, "alice", PASSWORD); Client nameless = overTls(true, null, null)) {
            var kv = alice.getKVClient();
            get(kv.put(b("mine/a"), b("by alice")));
            var everything = GetOption.builder().isPrefix(true).build();
            tell("auth alice", pairs(get(kv.get(b("mine/a"))).getKvs()));
            tell("auth denied", refused(kv.put(b("yours"), b("x"))), refused(kv.get(b("m"), everything)));
            // The certificate's common name is alice, too.
            var byName = nameless.getKVClient();
            tell("auth certificate", pairs(get(byName.get(b("mine/a"))).getKvs()), refused(byName.get(b("yours"))));
            restart();
            // Tokens are lost with the server; the client asks for another by itself.
            tell("auth token lost", pairs(until(() -> get(kv.get(b("mine/a")))).getKvs()));
        }
        try (Client root = overTls(true, "root", PASSWORD)) {
            get(root.getAuthClient().authDisable());
        }
        tell("auth disabled", pairs(until(() -> get(plain.getKVClient().get(b("mine/a")))).getKvs()));
    }

    private static Client overTls(boolean own, String user, String password) throws Exception {
        ClientBuilder builder = Client.builder().endpoints("https://127.0.0.1:" + https);
        builder.sslContext(ssl -> {
            ssl.trustManager(new File(pki, "ca.pem"));
            if (own) {
                ssl.keyManager(new File(pki, "client.pem"), new File(pki, "client-key.pem"));
            }
        });
        // Whoever has no certificate would wait for ever.
        builder.waitForReady(own).retryMaxDuration(Duration.ofSeconds(own ? 20 : 1));
        if (user != null) {
            builder.user(b(user)).password(b(password));
        }
        return builder.build();
    }

    /** What a stream brings. */
    private static class Told<T> implements StreamObserver<T> {
        private final BlockingQueue<T> answers = new LinkedBlockingQueue<>();
        private final CompletableFuture<String> failure = new CompletableFuture<>();
        private volatile boolean isOver;

        T next() throws InterruptedException {
            return answers.take();
        }

        /** Null when nothing comes in time. */
        T next(Duration limit) throws InterruptedException {
            return answers.poll(limit.toMillis(), TimeUnit.MILLISECONDS);
        }

        String failure() throws Exception {
            return get(failure);
        }

        /** True when nothing more will come; after a failure, jetcd may go on by itself. */
        boolean isOver() {
            return isOver;
        }

        @Override
        public void onNext(T answer) {
            answers.add(answer);
        }

        @Override
        public void onError(Throwable error) {
            failure.complete(text(error));
        }

        @Override
        public void onCompleted() {
            isOver = true;
            failure.complete("completed");
        }
    }

    private static final class Events extends Told<WatchResponse> implements Watch.Listener {
        /** True when an event of the key comes soon; such events are told to nobody. */
        boolean bring(String key) throws InterruptedException {
            var answer = next(Duration.ofMillis(200));
            return answer != null && answer.getEvents().stream().anyMatch(event -> isOf(event, key));
        }
    }

    private static boolean isOf(WatchEvent event, String key) {
        return event.getKeyValue().getKey().equals(b(key));
    }

    private static final class Leaders extends Told<LeaderResponse> implements Election.Listener {}

    private static List<String> told(Events events, int count) throws Exception {
        return told(events, count, Duration.ofMillis(LIMIT_MS));
    }

    /** Fewer than asked for when nothing comes for so long. */
    private static List<String> told(Events events, int count, Duration silence) throws Exception {
        List<String> told = new ArrayList<>();
        while (told.size() < count) {
            var answer = events.next(silence);
            if (answer == null) {
                break;
            }
            for (WatchEvent event : answer.getEvents()) {
                if (isOf(event, "watched/resumed")) {
                    continue;
                }
                told.add(event.getEventType() + " " + pair(event.getKeyValue()) + " " + pair(event.getPrevKV()));
            }
        }
        return told;
    }

    private static ByteSequence b(String text) {
        return ByteSequence.from(text, StandardCharsets.UTF_8);
    }

    private static String pair(KeyValue kv) {
        return kv.getKey() + "=" + kv.getValue();
    }

    private static List<String> pairs(List<KeyValue> kvs) {
        return kvs.stream().map(Story::pair).toList();
    }

    private static <T> T get(Future<T> answer) throws Exception {
        return answer.get(LIMIT_MS, TimeUnit.MILLISECONDS);
    }

    /** What the call, which has to be refused, is refused with. */
    private static String refused(Future<?> call) throws Exception {
        Object answer;
        try {
            answer = get(call);
        } catch (ExecutionException refused) {
            return text(refused.getCause());
        }
        throw new IllegalStateException("it was not refused: " + answer);
    }

    private static String text(Throwable error) {
        String code = error instanceof EtcdException known ? known.getErrorCode() + " " : "";
        return code + (error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage());
    }

    private static void tell(String step, Object... outcome) {
        System.out.println(step + ": " + Arrays.toString(outcome));
    }

    /** Returns when the server was killed and serves again. */
    private static void restart() throws Exception {
        System.out.println("restart");
        ANSWERS.readLine();
    }

    /** Repeats what fails while the server comes back. */
    private static <T> T until(Callable<T> call) throws Exception {
        while (true) {
            try {
                return call.call();
            } catch (ExecutionException failure) {
                Thread.sleep(50);
            }
        }
    }

    /** Ends a story that hangs, and says where. */
    private static void limit() {
        try {
            Thread.sleep(LIMIT_MS);
        } catch (InterruptedException ended) {
            return;
        }
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            System.err.println(thread.getName() + " " + Arrays.toString(stack));
        });
        System.exit(3);
    }
}
