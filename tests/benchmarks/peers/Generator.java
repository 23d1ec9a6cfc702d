import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Makes unary calls with requests that are encoded already, some at a time, and prints how long they took as JSON.
 *
 * <p>Arguments: host:port, full name of the method, file of requests (each behind its length, four bytes, the highest
 * first), number of the first of them that only warm up, calls under way at a time.
 */
public final class Generator {
    private static final MethodDescriptor.Marshaller<byte[]> BYTES = new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] encoded) {
            return new ByteArrayInputStream(encoded);
        }

        @Override
        public byte[] parse(InputStream encoded) {
            try {
                return encoded.readAllBytes();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    };

    private final ManagedChannel channel;
    private final MethodDescriptor<byte[], byte[]> method;
    private final List<byte[]> requests;
    private final long[] tookNs;
    private final AtomicInteger next = new AtomicInteger();
    private final AtomicReference<Status> failure = new AtomicReference<>();
    private int end;
    private CountDownLatch running;

    private Generator(ManagedChannel channel, String method, List<byte[]> requests) {
        this.channel = channel;
        this.method = MethodDescriptor.<byte[], byte[]>newBuilder(BYTES, BYTES)
                .setType(MethodDescriptor.MethodType.UNARY)
                .setFullMethodName(method)
                .build();
        this.requests = requests;
        this.tookNs = new long[requests.size()];
    }

    public static void main(String[] arguments) throws Exception {
        int warmUps = Integer.parseInt(arguments[3]);
        int inFlight = Integer.parseInt(arguments[4]);
        ManagedChannel channel =
                NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().directExecutor().build();
        try {
            Generator generator = new Generator(channel, arguments[1], read(Path.of(arguments[2])));
            generator.run(warmUps, inFlight);
            long begunNs = System.nanoTime();
            generator.run(generator.requests.size(), inFlight);
            double seconds = (System.nanoTime() - begunNs) / 1e9;
            int calls = generator.requests.size() - warmUps;
            long[] tookNs = Arrays.copyOfRange(generator.tookNs, warmUps, generator.requests.size());
            Arrays.sort(tookNs);
            System.out.printf(
                    "{\"calls\": %d, \"seconds\": %.6f, \"p50_us\": %.1f, \"p99_us\": %.1f}%n",
                    calls, seconds, tookNs[calls / 2] / 1e3, tookNs[(int) (calls * 0.99)] / 1e3);
        } finally {
            channel.shutdownNow();
        }
    }

    private static List<byte[]> read(Path file) throws IOException {
        List<byte[]> requests = new ArrayList<>();
        try (DataInputStream input = new DataInputStream(new ByteArrayInputStream(Files.readAllBytes(file)))) {
            while (input.available() > 0) {
                byte[] request = new byte[input.readInt()];
                input.readFully(request);
                requests.add(request);
            }
        }
        return requests;
    }

    /** Makes the calls up to a number; ends the program if one fails. */
    private void run(int end, int inFlight) throws InterruptedException {
        this.end = end;
        running = new CountDownLatch(inFlight);
        for (int caller = 0; caller < inFlight; caller++) {
            callNext();
        }
        running.await();
        if (failure.get() != null) {
            System.err.println(failure.get());
            System.exit(1);
        }
    }

    private void callNext() {
        int number = next.getAndUpdate(before -> before < end ? before + 1 : before);
        if (number >= end || failure.get() != null) {
            running.countDown();
            return;
        }
        long begunNs = System.nanoTime();
        ClientCall<byte[], byte[]> call = channel.newCall(method, CallOptions.DEFAULT);
        call.start(
                new ClientCall.Listener<>() {
                    @Override
                    public void onClose(Status status, Metadata trailers) {
                        tookNs[number] = System.nanoTime() - begunNs;
                        if (!status.isOk()) {
                            failure.compareAndSet(null, status);
                        }
                        callNext();
                    }
                },
                new Metadata());
        call.request(2);
        call.sendMessage(requests.get(number));
        call.halfClose();
    }
}
