// Reads entries with Pulsar's own classes: one request per line on stdin, one JSON object per line on stdout.
//
//   entry BASE64                               read an entry of a topic
//   compacted BASE64                           read an entry of a compacted ledger
//   start LEDGER ENTRY BASE64 [BASE64 ...]     find the index at which reading from the position begins; needs all
//                                              entries of the compacted ledger
//
// Names are those of the expected files of tests/data/pulsar-a; null is an absent value, and {"refused": why} an entry
// that Pulsar refuses. This program does not parse formats: every value is the result of a method of Pulsar.

import com.github.benmanes.caffeine.cache.AsyncLoadingCache;
import com.github.benmanes.caffeine.cache.Caffeine;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.pulsar.client.api.RawMessage;
import org.apache.pulsar.client.impl.BatchMessageIdImpl;
import org.apache.pulsar.client.impl.RawBatchConverter;
import org.apache.pulsar.client.impl.RawMessageImpl;
import org.apache.pulsar.common.api.proto.BrokerEntryMetadata;
import org.apache.pulsar.common.api.proto.KeyValue;
import org.apache.pulsar.common.api.proto.MessageIdData;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.proto.SingleMessageMetadata;
import org.apache.pulsar.common.api.raw.MessageParser;
import org.apache.pulsar.common.compression.CompressionCodecProvider;
import org.apache.pulsar.common.protocol.Commands;
import org.apache.pulsar.compaction.CompactedTopicImpl;

public class PulsarReads {
    private static final String TOPIC = "persistent://lab/main/orders"; // used only in error messages
    private static final int MESSAGE_BYTES_MAX = 5 << 20;

    public static void main(String[] args) throws IOException {
        Gson json = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            Map<String, Object> answer;
            try {
                answer = answer(line.split(" "));
            } catch (Exception refused) {
                answer = new LinkedHashMap<>();
                answer.put("refused", refused.toString());
            }
            answers.println(json.toJson(answer));
        }
    }

    private static Map<String, Object> answer(String[] question) throws Exception {
        return switch (question[0]) {
            case "entry" -> entry(bytes(question[1]));
            case "compacted" -> compacted(bytes(question[1]));
            case "start" -> start(
                    PositionFactory.create(Long.parseLong(question[1]), Long.parseLong(question[2])),
                    Arrays.copyOfRange(question, 3, question.length));
            default -> throw new IllegalArgumentException("no such question: " + question[0]);
        };
    }

    private static ByteBuf bytes(String base64) {
        return Unpooled.wrappedBuffer(Base64.getDecoder().decode(base64));
    }

    /** Returns frame, checksum and its verdict, metadata and messages. Does not move the reader index. */
    private static Map<String, Object> entry(ByteBuf whole) throws Exception {
        ByteBuf rest = whole.duplicate();
        BrokerEntryMetadata broker = Commands.parseBrokerEntryMetadataIfExist(rest);
        ByteBuf headers = rest.duplicate();
        ByteBuf checked = headers.duplicate();
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("length", whole.readableBytes());
        row.put("sha256", sha256(whole));
        row.put("has_frame", broker != null);
        row.put("broker_timestamp", broker != null && broker.hasBrokerTimestamp() ? broker.getBrokerTimestamp() : null);
        row.put("index", broker != null && broker.hasIndex() ? broker.getIndex() : null);
        row.put("crc", Commands.hasChecksum(checked) ? Commands.readChecksum(checked) & 0xffffffffL : null);
        row.put("crc_ok", MessageParser.verifyChecksum(TOPIC, headers.duplicate(), 0, 0));
        MessageMetadata metadata = Commands.parseMessageMetadata(rest);
        row.put("metadata_length", whole.readableBytes() - rest.readableBytes());
        row.put("body_length", rest.readableBytes());
        row.put("body_sha256", sha256(rest));
        putMetadata(row, metadata);
        row.put("messages", standsAlone(metadata) ? messages(headers) : null);
        return row;
    }

    /** Returns true if the messages can be read without keys, other chunks, or the outcome of a transaction. */
    private static boolean standsAlone(MessageMetadata metadata) {
        return metadata.getEncryptionKeysCount() == 0
                && !(metadata.hasNumChunksFromMsg() && metadata.getNumChunksFromMsg() > 1)
                && !metadata.hasTxnidMostBits()
                && !metadata.hasMarkerType();
    }

    private static void putMetadata(Map<String, Object> row, MessageMetadata metadata) {
        row.put("producer", metadata.getProducerName());
        row.put("sequence_id", metadata.getSequenceId());
        row.put("highest_sequence_id", metadata.hasHighestSequenceId() ? metadata.getHighestSequenceId() : null);
        row.put("publish_time", metadata.getPublishTime());
        row.put("deliver_at", metadata.hasDeliverAtTime() ? metadata.getDeliverAtTime() : null);
        row.put("num_messages_in_batch", metadata.hasNumMessagesInBatch() ? metadata.getNumMessagesInBatch() : null);
        row.put("event_time", metadata.hasEventTime() ? metadata.getEventTime() : null);
        row.put("marker_type", metadata.hasMarkerType() ? metadata.getMarkerType() : null);
        row.put("txn_most", metadata.hasTxnidMostBits() ? metadata.getTxnidMostBits() : null);
        row.put("txn_least", metadata.hasTxnidLeastBits() ? metadata.getTxnidLeastBits() : null);
        row.put("compression", metadata.hasCompression() ? metadata.getCompression().name() : null);
        row.put("uncompressed_size", metadata.hasUncompressedSize() ? metadata.getUncompressedSize() : null);
        row.put("encrypted", metadata.getEncryptionKeysCount() > 0);
        row.put("encryption_algo", metadata.hasEncryptionAlgo() ? metadata.getEncryptionAlgo() : null);
        row.put("uuid", metadata.hasUuid() ? metadata.getUuid() : null);
        row.put("num_chunks", metadata.hasNumChunksFromMsg() ? metadata.getNumChunksFromMsg() : null);
        row.put("chunk_id", metadata.hasChunkId() ? metadata.getChunkId() : null);
        row.put("total_chunk_size", metadata.hasTotalChunkMsgSize() ? metadata.getTotalChunkMsgSize() : null);
        row.put("partition_key", metadata.hasPartitionKey() ? metadata.getPartitionKey() : null);
        row.put("partition_key_b64", metadata.isPartitionKeyB64Encoded());
        row.put("ordering_key", metadata.hasOrderingKey() ? hex(metadata.getOrderingKey()) : null);
        row.put("schema_version", metadata.hasSchemaVersion() ? hex(metadata.getSchemaVersion()) : null);
        row.put("null_value", metadata.hasNullValue() ? metadata.isNullValue() : null);
        row.put("null_partition_key", metadata.hasNullPartitionKey() ? metadata.isNullPartitionKey() : null);
        List<List<String>> properties = new ArrayList<>();
        for (KeyValue pair : metadata.getPropertiesList()) {
            properties.add(List.of(pair.getKey(), pair.getValue()));
        }
        row.put("properties", properties);
        List<Integer> retained = new ArrayList<>();
        for (int at = 0; at < metadata.getCompactedBatchIndexesCount(); at++) {
            retained.add(metadata.getCompactedBatchIndexeAt(at));
        }
        row.put("compacted_batch_indexes", retained);
    }

    /** Returns the messages of Pulsar's reader of raw entries, given the frame; none if the checksum is wrong. */
    private static List<Map<String, Object>> messages(ByteBuf headers) throws IOException {
        List<Map<String, Object>> messages = new ArrayList<>();
        MessageParser.parseMessage(TOPIC, 0, 0, headers.duplicate(), message -> {
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("key", message.getKey().orElse(null));
            row.put("key_b64", message.hasBase64EncodedKey());
            row.put("properties", message.getProperties());
            row.put("publish_time", message.getPublishTime());
            row.put("event_time", message.getEventTime());
            row.put("sequence_id", message.getSequenceId());
            row.put("producer", message.getProducerName());
            row.put("length", message.getData().readableBytes());
            row.put("sha256", sha256(message.getData()));
            messages.add(row);
            message.release();
        }, MESSAGE_BYTES_MAX);
        return messages;
    }

    /** Returns the original id, the entry, the slots of its batch, and the result of a later compaction. */
    private static Map<String, Object> compacted(ByteBuf stored) throws Exception {
        try (RawMessage message = RawMessageImpl.deserializeFrom(stored)) {
            MessageIdData id = message.getMessageIdData();
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("ledger", id.getLedgerId());
            row.put("entry", id.getEntryId());
            row.put("partition", id.getPartition());
            row.put("batch_index", id.hasBatchIndex() ? id.getBatchIndex() : null);
            ByteBuf whole = message.getHeadersAndPayload();
            row.putAll(entry(whole));
            ByteBuf body = whole.duplicate();
            MessageMetadata metadata = Commands.parseMessageMetadata(body);
            boolean readable = RawBatchConverter.isReadableBatch(metadata);
            row.put("slots", readable ? slots(metadata, body) : List.of());
            List<List<Object>> compactable = new ArrayList<>();
            if (readable) {
                for (var slot : RawBatchConverter.extractIdsAndKeysAndSize(message)) {
                    int batchIndex = ((BatchMessageIdImpl) slot.getLeft()).getBatchIndex();
                    compactable.add(Arrays.asList(batchIndex, slot.getMiddle(), slot.getRight()));
                }
            }
            row.put("compactable", compactable);
            return row;
        }
    }

    private static List<Map<String, Object>> slots(MessageMetadata metadata, ByteBuf body) throws IOException {
        ByteBuf payload = CompressionCodecProvider.getCompressionCodec(metadata.getCompression())
                .decode(body, metadata.getUncompressedSize());
        List<Map<String, Object>> slots = new ArrayList<>();
        int count = metadata.getNumMessagesInBatch();
        for (int at = 0; at < count; at++) {
            SingleMessageMetadata single = new SingleMessageMetadata();
            ByteBuf content = Commands.deSerializeSingleMessageInBatch(payload, single, at, count);
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("compacted_out", single.isCompactedOut());
            row.put("key", single.hasPartitionKey() ? single.getPartitionKey() : null);
            row.put("payload_size", single.getPayloadSize());
            row.put("null_value", single.isNullValue());
            row.put("sha256", sha256(content));
            slots.add(row);
        }
        if (payload.isReadable()) {
            throw new IOException(payload.readableBytes() + " bytes are left behind the last slot");
        }
        return slots;
    }

    /** Runs the broker's search in a compacted ledger, which is private, with a cache of ids instead of a bookie. */
    private static Map<String, Object> start(Position from, String[] stored) throws Exception {
        List<MessageIdData> ids = new ArrayList<>();
        for (String entry : stored) {
            ids.add(RawMessageImpl.deserializeFrom(bytes(entry)).getMessageIdData());
        }
        AsyncLoadingCache<Long, MessageIdData> cache = Caffeine.newBuilder().buildAsync(place -> ids.get(place.intValue()));
        Method search = CompactedTopicImpl.class.getDeclaredMethod(
                "findStartPoint", Position.class, long.class, AsyncLoadingCache.class);
        Field newer = CompactedTopicImpl.class.getDeclaredField("NEWER_THAN_COMPACTED");
        search.setAccessible(true);
        newer.setAccessible(true);
        try {
            long place = (Long) ((CompletableFuture<?>) search.invoke(null, from, ids.size() - 1L, cache)).get();
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("place", place == newer.getLong(null) ? null : place);
            return row;
        } catch (InvocationTargetException failed) {
            throw new IllegalStateException(failed.getCause());
        }
    }

    private static String hex(byte[] content) {
        return HexFormat.of().formatHex(content);
    }

    private static String sha256(ByteBuf content) {
        try {
            return hex(MessageDigest.getInstance("SHA-256").digest(ByteBufUtil.getBytes(content)));
        } catch (GeneralSecurityException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
