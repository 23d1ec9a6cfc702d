// Works on ledgers with BookKeeper's own client: one JSON object per line on stdin, and one per line on stdout.
//
// Each request names what to "do" and the cluster's "uri" (zk+hierarchical://HOST:PORT/ledgers). Bytes are in base64.
//
//   create    ensemble, writeQuorum, ackQuorum, digest, password, custom {KEY: BYTES}   -> ledger
//   add       ledger, payloads [BYTES]                                                  -> entry (the last one's id)
//   close     ledger                                                                    -> last, length
//   open      ledger, digest, password, recover                                         -> last, length, closed
//   read      ledger, first, last                                                       -> payloads
//   lac       ledger                                                                    -> last
//   delete    ledger
//   describe  ledger, value (a stored value of metadata)                                -> fields, as Java parses them
//   write     ledger, size, count                                                       -> ns until all are acknowledged
//   scan      ledger, size, count                                                       -> ns until all are read
//
// A call that fails answers {"error": name of BookKeeper's exception, "message": text}. A ledger that was opened takes
// the place of its writer under the same id. What is written has its entry's number in its first eight bytes, which a scan
// expects, and zeros behind it. At most WRITTEN_BYTES and WRITTEN_ENTRIES are pending at a time; a scan reads two ranges
// at a time, each of half of AHEAD_BYTES and AHEAD_ENTRIES. These are the bounds of the client in Python.

import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import org.apache.bookkeeper.client.api.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.ReadHandle;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.meta.LedgerMetadataSerDe;
import org.apache.bookkeeper.net.BookieId;

public final class JavaLedgers {
    private static final Gson GSON = new Gson();
    private static final Map<String, BookKeeper> CLIENTS = new HashMap<>();
    private static final Map<Long, ReadHandle> HANDLES = new HashMap<>();
    private static final int WRITTEN_BYTES = 32 << 20;
    private static final int WRITTEN_ENTRIES = 4_096;
    private static final int AHEAD_BYTES = 8 << 20;
    private static final int AHEAD_ENTRIES = 1_024;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonObject answer = new JsonObject();
            try {
                perform(GSON.fromJson(line, JsonObject.class), answer);
            } catch (Exception failed) {
                Throwable cause = failed instanceof ExecutionException ? failed.getCause() : failed;
                answer = new JsonObject();
                answer.addProperty("error", cause.getClass().getSimpleName());
                answer.addProperty("message", String.valueOf(cause.getMessage()));
            }
            answers.println(GSON.toJson(answer));
            answers.flush();
        }
        // Clients would wait for servers that may be gone.
        Runtime.getRuntime().halt(0);
    }

    private static void perform(JsonObject request, JsonObject answer) throws Exception {
        switch (request.get("do").getAsString()) {
            case "create" -> create(request, answer);
            case "add" -> add(request, answer);
            case "close" -> {
                writer(request).close();
                state(writer(request), answer);
            }
            case "open" -> open(request, answer);
            case "read" -> read(request, answer);
            case "lac" -> answer.addProperty("last", handle(request).readLastAddConfirmed());
            case "delete" -> client(request).newDeleteLedgerOp().withLedgerId(ledger(request)).execute().get();
            case "describe" -> describe(request, answer);
            case "write" -> write(request, answer);
            case "scan" -> scan(request, answer);
            default -> throw new IllegalArgumentException(request.toString());
        }
    }

    private static void create(JsonObject request, JsonObject answer) throws Exception {
        Map<String, byte[]> custom = new HashMap<>();
        for (Map.Entry<String, JsonElement> entry : request.getAsJsonObject("custom").entrySet()) {
            custom.put(entry.getKey(), bytes(entry.getValue()));
        }
        WriteHandle made = client(request).newCreateLedgerOp()
            .withEnsembleSize(request.get("ensemble").getAsInt())
            .withWriteQuorumSize(request.get("writeQuorum").getAsInt())
            .withAckQuorumSize(request.get("ackQuorum").getAsInt())
            .withDigestType(DigestType.valueOf(request.get("digest").getAsString()))
            .withPassword(bytes(request.get("password")))
            .withCustomMetadata(custom)
            .execute().get();
        HANDLES.put(made.getId(), made);
        answer.addProperty("ledger", made.getId());
    }

    private static void add(JsonObject request, JsonObject answer) throws Exception {
        List<CompletableFuture<Long>> added = new ArrayList<>();
        for (JsonElement payload : request.getAsJsonArray("payloads")) {
            added.add(writer(request).appendAsync(bytes(payload)));
        }
        for (CompletableFuture<Long> entry : added) {
            answer.addProperty("entry", entry.get());
        }
    }

    private static void open(JsonObject request, JsonObject answer) throws Exception {
        ReadHandle opened = client(request).newOpenLedgerOp()
            .withLedgerId(ledger(request))
            .withDigestType(DigestType.valueOf(request.get("digest").getAsString()))
            .withPassword(bytes(request.get("password")))
            .withRecovery(request.get("recover").getAsBoolean())
            .execute().get();
        HANDLES.put(opened.getId(), opened);
        state(opened, answer);
    }

    private static void state(ReadHandle handle, JsonObject answer) {
        answer.addProperty("last", handle.getLastAddConfirmed());
        answer.addProperty("length", handle.getLength());
        answer.addProperty("closed", handle.isClosed());
    }

    private static void read(JsonObject request, JsonObject answer) throws Exception {
        List<String> payloads = new ArrayList<>();
        long last = request.get("last").getAsLong();
        try (LedgerEntries entries = handle(request).read(request.get("first").getAsLong(), last)) {
            for (LedgerEntry entry : entries) {
                payloads.add(Base64.getEncoder().encodeToString(entry.getEntryBytes()));
            }
        }
        answer.add("payloads", GSON.toJsonTree(payloads));
    }

    private static void write(JsonObject request, JsonObject answer) throws Exception {
        int size = request.get("size").getAsInt();
        int count = request.get("count").getAsInt();
        byte[][] payloads = new byte[count][];
        for (int entry = 0; entry < count; entry++) {
            payloads[entry] = ByteBuffer.allocate(size).putLong(entry).array();
        }
        int room = Math.max(1, Math.min(WRITTEN_ENTRIES, WRITTEN_BYTES / size));
        Semaphore free = new Semaphore(room);
        List<CompletableFuture<Long>> added = new ArrayList<>(count);
        WriteHandle ledger = writer(request);
        long started = System.nanoTime();
        for (byte[] payload : payloads) {
            free.acquire();
            CompletableFuture<Long> entry = ledger.appendAsync(payload);
            entry.whenComplete((id, failed) -> free.release());
            added.add(entry);
        }
        for (CompletableFuture<Long> entry : added) {
            entry.get();
        }
        answer.addProperty("ns", System.nanoTime() - started);
    }

    private static void scan(JsonObject request, JsonObject answer) throws Exception {
        int size = request.get("size").getAsInt();
        long count = request.get("count").getAsLong();
        long range = Math.max(1, Math.min(AHEAD_ENTRIES, AHEAD_BYTES / size) / 2);
        ReadHandle ledger = handle(request);
        long started = System.nanoTime();
        CompletableFuture<LedgerEntries> next = ledger.readAsync(0, Math.min(range, count) - 1);
        long expected = 0;
        for (long first = range; next != null; first += range) {
            CompletableFuture<LedgerEntries> begun = next;
            next = first < count ? ledger.readAsync(first, Math.min(first + range, count) - 1) : null;
            try (LedgerEntries entries = begun.get()) {
                for (LedgerEntry entry : entries) {
                    byte[] payload = entry.getEntryBytes();
                    if (payload.length != size || ByteBuffer.wrap(payload).getLong() != expected++) {
                        throw new IllegalStateException("entry " + entry.getEntryId() + " is another one");
                    }
                }
            }
        }
        answer.addProperty("ns", System.nanoTime() - started);
    }

    private static void describe(JsonObject request, JsonObject answer) throws Exception {
        LedgerMetadata parsed =
            new LedgerMetadataSerDe().parseConfig(bytes(request.get("value")), ledger(request), Optional.empty());
        answer.addProperty("ensemble", parsed.getEnsembleSize());
        answer.addProperty("writeQuorum", parsed.getWriteQuorumSize());
        answer.addProperty("ackQuorum", parsed.getAckQuorumSize());
        answer.addProperty("state", parsed.getState().name());
        answer.addProperty("last", parsed.isClosed() ? parsed.getLastEntryId() : -1);
        answer.addProperty("length", parsed.getLength());
        answer.addProperty("digest", parsed.hasPassword() ? parsed.getDigestType().name() : null);
        answer.addProperty("password", Base64.getEncoder().encodeToString(parsed.getPassword()));
        answer.addProperty("token", parsed.getCToken());
        answer.addProperty("created", parsed.getCtime());
        answer.addProperty("version", parsed.getMetadataFormatVersion());
        Map<String, List<String>> segments = new TreeMap<>();
        for (Map.Entry<Long, ? extends List<BookieId>> segment : parsed.getAllEnsembles().entrySet()) {
            segments.put(segment.getKey().toString(), segment.getValue().stream().map(BookieId::toString).toList());
        }
        answer.add("segments", GSON.toJsonTree(segments));
        Map<String, String> custom = new TreeMap<>();
        parsed.getCustomMetadata().forEach((key, value) -> custom.put(key, Base64.getEncoder().encodeToString(value)));
        answer.add("custom", GSON.toJsonTree(custom));
    }

    private static BookKeeper client(JsonObject request) throws Exception {
        String uri = request.get("uri").getAsString();
        if (!CLIENTS.containsKey(uri)) {
            ClientConfiguration configuration = new ClientConfiguration();
            configuration.setMetadataServiceUri(uri);
            configuration.setNettyMaxFrameSizeBytes(5_253_120);
            // Without this, a client sends 5,000 requests a second at most; Pulsar switches it off, too.
            configuration.setThrottleValue(0);
            CLIENTS.put(uri, BookKeeper.newBuilder(configuration).build());
        }
        return CLIENTS.get(uri);
    }

    private static WriteHandle writer(JsonObject request) {
        return (WriteHandle) handle(request);
    }

    private static ReadHandle handle(JsonObject request) {
        ReadHandle handle = HANDLES.get(ledger(request));
        if (handle == null) {
            throw new IllegalArgumentException("ledger " + ledger(request) + " is neither created nor opened here");
        }
        return handle;
    }

    private static long ledger(JsonObject request) {
        return request.get("ledger").getAsLong();
    }

    private static byte[] bytes(JsonElement encoded) {
        return Base64.getDecoder().decode(encoded.getAsString());
    }
}
