// Measures how fast Pulsar's own classes read entries: PulsarParses FILE REPEATS.
// FILE has each entry behind its size, an i32.
//
// Each repeat reads broker frame, checksum and metadata of all entries from memory and prints one JSON object:
// {"wall_ns", "cpu_ns", "readable", "index_sum", "delay_sum"}. The first repeats warm up the compiler.

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.pulsar.common.api.proto.BrokerEntryMetadata;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.raw.MessageParser;
import org.apache.pulsar.common.protocol.Commands;

public class PulsarParses {
    private static final String TOPIC = "persistent://lab/main/orders"; // used only in error messages

    public static void main(String[] args) throws IOException {
        byte[] content = Files.readAllBytes(Path.of(args[0]));
        ByteBuf stored = Unpooled.directBuffer(content.length).writeBytes(content);
        for (int repeat = 0; repeat < Integer.parseInt(args[1]); repeat++) {
            System.out.println(readAll(stored));
        }
    }

    private static String readAll(ByteBuf stored) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        MessageMetadata metadata = new MessageMetadata(); // reused, as in Pulsar's dispatchers
        long readable = 0;
        long indexSum = 0;
        long delaySum = 0;
        long cpu = threads.getCurrentThreadCpuTime();
        long wall = System.nanoTime();
        int at = 0;
        while (at < stored.writerIndex()) {
            int size = stored.getInt(at);
            ByteBuf entry = stored.slice(at + Integer.BYTES, size);
            at += Integer.BYTES + size;
            BrokerEntryMetadata broker = Commands.parseBrokerEntryMetadataIfExist(entry);
            if (MessageParser.verifyChecksum(TOPIC, entry.duplicate(), 0, 0)) {
                readable++;
            }
            Commands.parseMessageMetadata(entry, metadata);
            indexSum += broker.getIndex();
            delaySum += metadata.getDeliverAtTime() - metadata.getPublishTime();
        }
        return String.format(
                "{\"wall_ns\": %d, \"cpu_ns\": %d, \"readable\": %d, \"index_sum\": %d, \"delay_sum\": %d}",
                System.nanoTime() - wall, threads.getCurrentThreadCpuTime() - cpu, readable, indexSum, delaySum);
    }
}
