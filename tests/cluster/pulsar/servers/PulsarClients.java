// Produces and consumes with Pulsar's own client: one JSON object per line on stdin, and one per line on stdout.
//
// Each request names what to "do". Times are in milliseconds since the epoch, message ids are [LEDGER, ENTRY].
//
//   produce     url, topic, deliverAt [TIME, 0 for none], keys [TEXT] or null, size       -> ids, one for each time
//   batch       url, topic, deliverAt, count, size                                        -> id of its one entry
//   transact    url, topic, deliverAt [TIME], commit (or abort), size                     -> ids
//   steady      url, topic, delays [MS], perSecond, size                                  -> flow
//   settle      flow (stops it)                                                           -> ids, deliverAt, micros
//   subscribe   url, topic, subscription, acknowledge (what it receives), earliest, type, nackEvery (each so many
//               messages that come the first time are given back, and not counted; 0 for none) -> consumer
//   received    consumer, count, timeout (waits until so many are there, or its end)      -> messages
//   acknowledge consumer, ids
//   seek        consumer, id
//   close       consumer                                                                  -> messages
//   disconnect  url (closes all that uses this broker)
//
// A call that fails answers {"error": name of Pulsar's exception, "message": text}. A producer is made for each topic and
// kept. What "received" answers is [LEDGER, ENTRY, INDEX IN THE BATCH or -1, deliverAt or 0, received at, published at];
// it answers everything since the consumer began, in the order of arrival. "steady" sends at its times whatever is still
// unanswered, and the microseconds count from the time at which a message was meant to be sent.

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.api.transaction.Transaction;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.client.impl.MessageImpl;
import org.apache.pulsar.client.impl.TopicMessageImpl;
import org.apache.pulsar.common.api.proto.MessageMetadata;

public final class PulsarClients {
    private static final Gson GSON = new Gson();
    private static final int PENDING = 1_000;
    // Long enough for a busy machine.
    private static final int TIMEOUT_S = 120;
    /** A broker that has lost its session may leave a lookup without an answer: the client asks again. */
    private static final int OPERATION_TIMEOUT_S = 30;
    private static final Map<String, PulsarClient> CLIENTS = new HashMap<>();
    private static final Map<String, Producer<byte[]>> PRODUCERS = new HashMap<>();
    private static final Map<Integer, Receiver> CONSUMERS = new HashMap<>();
    private static final Map<Integer, Flow> FLOWS = new HashMap<>();
    private static int made = 0;

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
        // Clients would wait for a broker that may be gone.
        Runtime.getRuntime().halt(0);
    }

    private static void perform(JsonObject request, JsonObject answer) throws Exception {
        switch (text(request, "do")) {
            case "produce" -> produce(request, answer);
            case "batch" -> batch(request, answer);
            case "transact" -> transact(request, answer);
            case "steady" -> {
                FLOWS.put(++made, new Flow(producer(request), request));
                answer.addProperty("flow", made);
            }
            case "settle" -> FLOWS.remove(request.get("flow").getAsInt()).settle(answer);
            case "subscribe" -> {
                CONSUMERS.put(++made, new Receiver(request));
                answer.addProperty("consumer", made);
            }
            case "received" -> CONSUMERS.get(request.get("consumer").getAsInt()).received(request, answer);
            case "acknowledge" -> CONSUMERS.get(request.get("consumer").getAsInt()).acknowledge(request);
            case "seek" -> CONSUMERS.get(request.get("consumer").getAsInt()).seek(request);
            case "close" -> CONSUMERS.remove(request.get("consumer").getAsInt()).close(answer);
            case "disconnect" -> disconnect(text(request, "url"));
            default -> throw new IllegalArgumentException("do=" + text(request, "do"));
        }
    }

    private static void produce(JsonObject request, JsonObject answer) throws Exception {
        Producer<byte[]> producer = producer(request);
        byte[] payload = new byte[request.get("size").getAsInt()];
        JsonArray times = request.getAsJsonArray("deliverAt");
        JsonElement keys = request.get("keys");
        List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        for (int number = 0; number < times.size(); number++) {
            TypedMessageBuilder<byte[]> message = message(producer, payload, times.get(number).getAsLong());
            if (keys != null && !keys.isJsonNull()) {
                message.key(keys.getAsJsonArray().get(number).getAsString());
            }
            sent.add(message.sendAsync());
        }
        // Otherwise the last ones would wait for a batch that stays small.
        producer.flush();
        answer.add("ids", ids(sent));
    }

    // Pulsar's client in Java sends delayed messages alone; other clients put the time on a batch, as this does.
    private static void batch(JsonObject request, JsonObject answer) throws Exception {
        int count = request.get("count").getAsInt();
        Producer<byte[]> producer = client(request).newProducer().topic(text(request, "topic")).enableBatching(true)
            .batchingMaxPublishDelay(1, TimeUnit.HOURS).batchingMaxMessages(count + 1).create();
        try {
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                sent.add(message(producer, new byte[request.get("size").getAsInt()], 0).sendAsync());
            }
            long deliverAt = request.get("deliverAt").getAsLong();
            if (deliverAt > 0) {
                synchronized (producer) {
                    Object container = field(producer, "batchMessageContainer");
                    ((MessageMetadata) field(container, "messageMetadata")).setDeliverAtTime(deliverAt);
                }
            }
            producer.flush();
            JsonArray ids = ids(sent);
            for (JsonElement id : ids) {
                if (!id.equals(ids.get(0))) {
                    throw new IllegalStateException("the client sent more than one batch: " + ids);
                }
            }
            answer.add("id", ids.get(0));
        } finally {
            producer.close();
        }
    }

    // With a client of its own: one that may use transactions needs a coordinator from its first moment.
    private static void transact(JsonObject request, JsonObject answer) throws Exception {
        try (PulsarClient client = builder(text(request, "url")).enableTransaction(true).build();
                Producer<byte[]> producer = client.newProducer().topic(text(request, "topic")).enableBatching(false)
                    .sendTimeout(0, TimeUnit.SECONDS).create()) {
            Transaction transaction = client.newTransaction().withTransactionTimeout(TIMEOUT_S, TimeUnit.SECONDS).build().get();
            byte[] payload = new byte[request.get("size").getAsInt()];
            List<CompletableFuture<MessageId>> sent = new ArrayList<>();
            for (JsonElement time : request.getAsJsonArray("deliverAt")) {
                sent.add(producer.newMessage(transaction).value(payload).deliverAt(time.getAsLong()).sendAsync());
            }
            answer.add("ids", ids(sent));
            (request.get("commit").getAsBoolean() ? transaction.commit() : transaction.abort()).get();
        }
    }

    private static Object field(Object owner, String name) throws ReflectiveOperationException {
        for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(owner);
                }
            }
        }
        throw new NoSuchFieldException(owner.getClass() + "." + name);
    }

    private static TypedMessageBuilder<byte[]> message(Producer<byte[]> producer, byte[] payload, long deliverAt) {
        TypedMessageBuilder<byte[]> message = producer.newMessage().value(payload);
        return deliverAt > 0 ? message.deliverAt(deliverAt) : message;
    }

    private static JsonArray ids(List<CompletableFuture<MessageId>> sent) throws Exception {
        JsonArray ids = new JsonArray();
        for (CompletableFuture<MessageId> future : sent) {
            ids.add(id((MessageIdImpl) future.get()));
        }
        return ids;
    }

    private static JsonArray id(MessageIdImpl id) {
        JsonArray pair = new JsonArray();
        pair.add(id.getLedgerId());
        pair.add(id.getEntryId());
        return pair;
    }

    private static PulsarClient client(JsonObject request) throws Exception {
        String url = text(request, "url");
        if (!CLIENTS.containsKey(url)) {
            CLIENTS.put(url, builder(url).build());
        }
        return CLIENTS.get(url);
    }

    private static ClientBuilder builder(String url) {
        return PulsarClient.builder().serviceUrl(url)
            .operationTimeout(OPERATION_TIMEOUT_S, TimeUnit.SECONDS).lookupTimeout(TIMEOUT_S, TimeUnit.SECONDS)
            .connectionTimeout(TIMEOUT_S, TimeUnit.SECONDS);
    }

    private static Producer<byte[]> producer(JsonObject request) throws Exception {
        String key = text(request, "url") + " " + text(request, "topic");
        if (!PRODUCERS.containsKey(key)) {
            PRODUCERS.put(key, client(request).newProducer().topic(text(request, "topic")).enableBatching(false)
                .maxPendingMessages(PENDING).blockIfQueueFull(true).sendTimeout(0, TimeUnit.SECONDS).create());
        }
        return PRODUCERS.get(key);
    }

    private static void disconnect(String url) throws Exception {
        PRODUCERS.keySet().removeIf(key -> key.startsWith(url + " "));
        CONSUMERS.values().removeIf(receiver -> receiver.url.equals(url));
        PulsarClient client = CLIENTS.remove(url);
        if (client != null) {
            client.shutdown();
        }
    }

    private static String text(JsonObject request, String name) {
        return request.get(name).getAsString();
    }

    // Collects what a subscription delivers, on the client's own threads.
    private static final class Receiver {
        private final String url;
        private final Consumer<byte[]> consumer;
        private final List<JsonArray> messages = new ArrayList<>();
        private final int nackEvery;
        private int firsts;

        Receiver(JsonObject request) throws Exception {
            url = text(request, "url");
            boolean acknowledge = request.get("acknowledge").getAsBoolean();
            nackEvery = request.get("nackEvery").getAsInt();
            consumer = client(request).newConsumer().negativeAckRedeliveryDelay(1, TimeUnit.SECONDS).topic(text(request, "topic"))
                .subscriptionName(text(request, "subscription")).subscriptionType(SubscriptionType.valueOf(text(request, "type")))
                .subscriptionInitialPosition(request.get("earliest").getAsBoolean()
                    ? SubscriptionInitialPosition.Earliest : SubscriptionInitialPosition.Latest)
                .isAckReceiptEnabled(true)
                .messageListener((from, message) -> receive(from, message, acknowledge)).subscribe();
        }

        private void receive(Consumer<byte[]> from, Message<byte[]> came, boolean acknowledge) {
            // That of a partition is wrapped.
            Message<byte[]> message = came instanceof TopicMessageImpl<byte[]> part ? part.getMessage() : came;
            if (nackEvery > 0 && message.getRedeliveryCount() == 0 && ++firsts % nackEvery == 0) {
                from.negativeAcknowledge(came);
                return;
            }
            JsonArray row = id((MessageIdImpl) message.getMessageId());
            row.add(message.getMessageId() instanceof BatchMessageIdImpl batched ? batched.getBatchIndex() : -1);
            row.add(((MessageImpl<byte[]>) message).getMessageBuilder().getDeliverAtTime());
            row.add(System.currentTimeMillis());
            row.add(message.getPublishTime());
            synchronized (messages) {
                messages.add(row);
                messages.notifyAll();
            }
            if (acknowledge) {
                from.acknowledgeAsync(came);
            }
        }

        void received(JsonObject request, JsonObject answer) throws InterruptedException {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(request.get("timeout").getAsLong());
            synchronized (messages) {
                long left = end - System.nanoTime();
                while (messages.size() < request.get("count").getAsInt() && left > 0) {
                    messages.wait(TimeUnit.NANOSECONDS.toMillis(left) + 1);
                    left = end - System.nanoTime();
                }
                answer.add("messages", GSON.toJsonTree(messages));
            }
        }

        void close(JsonObject answer) throws Exception {
            consumer.close();
            synchronized (messages) {
                answer.add("messages", GSON.toJsonTree(messages));
            }
        }

        void seek(JsonObject request) throws Exception {
            JsonArray pair = request.getAsJsonArray("id");
            consumer.seek(new MessageIdImpl(pair.get(0).getAsLong(), pair.get(1).getAsLong(), -1));
        }

        void acknowledge(JsonObject request) throws Exception {
            List<CompletableFuture<Void>> pending = new ArrayList<>();
            for (JsonElement id : request.getAsJsonArray("ids")) {
                JsonArray pair = id.getAsJsonArray();
                pending.add(consumer.acknowledgeAsync(
                    new MessageIdImpl(pair.get(0).getAsLong(), pair.get(1).getAsLong(), -1)));
            }
            for (CompletableFuture<Void> each : pending) {
                each.get();
            }
        }
    }

    // Sends messages at a steady rate, on a thread of its own.
    private static final class Flow {
        private final List<CompletableFuture<MessageId>> sent = new ArrayList<>();
        private final List<Long> times = new ArrayList<>();
        private final List<CompletableFuture<Long>> micros = new ArrayList<>();
        private final Thread thread;
        private volatile boolean stopped;

        Flow(Producer<byte[]> producer, JsonObject request) {
            JsonArray delays = request.getAsJsonArray("delays");
            byte[] payload = new byte[request.get("size").getAsInt()];
            long gap = TimeUnit.SECONDS.toNanos(1) / request.get("perSecond").getAsInt();
            thread = new Thread(() -> {
                long next = System.nanoTime();
                for (int number = 0; !stopped; number++) {
                    long due = next;
                    for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                        LockSupport.parkNanos(left);
                    }
                    long delay = delays.get(number % delays.size()).getAsLong();
                    long deliverAt = delay > 0 ? System.currentTimeMillis() + delay : 0;
                    CompletableFuture<MessageId> id = message(producer, payload, deliverAt).sendAsync();
                    times.add(deliverAt);
                    sent.add(id);
                    micros.add(id.thenApply(done -> TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - due)));
                    next += gap;
                }
            });
            thread.start();
        }

        void settle(JsonObject answer) throws Exception {
            stopped = true;
            thread.join();
            answer.add("ids", ids(sent));
            answer.add("deliverAt", GSON.toJsonTree(times));
            JsonArray took = new JsonArray();
            for (CompletableFuture<Long> each : micros) {
                took.add(each.get());
            }
            answer.add("micros", took);
        }
    }
}
