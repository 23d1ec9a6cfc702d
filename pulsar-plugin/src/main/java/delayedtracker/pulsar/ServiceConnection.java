package delayedtracker.pulsar;

import com.google.common.util.concurrent.ThreadFactoryBuilder;
import delayedtracker.v1.DelayedDeliveryTrackerServiceGrpc;
import delayedtracker.v1.DelayedDeliveryTrackerServiceGrpc.DelayedDeliveryTrackerServiceStub;
import io.grpc.CallCredentials;
import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.TlsChannelCredentials;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** The broker's connections to the service, one for each address, and the threads that all its trackers share. */
final class ServiceConnection implements AutoCloseable {
    private static final int THREADS = 4;
    private static final int ANSWER_BYTES_MAX = 64 << 20;

    private final List<ManagedChannel> channels = new ArrayList<>();
    private final PluginSettings settings;
    private final ScheduledExecutorService threads;

    ServiceConnection(PluginSettings settings) throws IOException {
        this.settings = settings;
        this.threads = Executors.newScheduledThreadPool(
                THREADS, new ThreadFactoryBuilder().setNameFormat("delayed-tracker-%d").setDaemon(true).build());
        ChannelCredentials credentials = credentials(settings.tls());
        for (String address : settings.addresses()) {
            channels.add(Grpc.newChannelBuilder(address, credentials)
                    .executor(threads)
                    .maxInboundMessageSize(ANSWER_BYTES_MAX)
                    .keepAliveTime(60, TimeUnit.SECONDS)
                    .keepAliveTimeout(20, TimeUnit.SECONDS)
                    .build());
        }
    }

    /** Returns a stub for one of the addresses, whose answers come in the executor. */
    DelayedDeliveryTrackerServiceStub stub(int address, Executor executor) {
        DelayedDeliveryTrackerServiceStub stub =
                DelayedDeliveryTrackerServiceGrpc.newStub(channels.get(address % channels.size())).withExecutor(executor);
        return settings.tokenFile() == null ? stub : stub.withCallCredentials(new Token(settings.tokenFile()));
    }

    String address(int address) {
        return settings.addresses().get(address % channels.size());
    }

    ScheduledExecutorService threads() {
        return threads;
    }

    @Override
    public void close() {
        channels.forEach(ManagedChannel::shutdownNow);
        threads.shutdown();
    }

    private static ChannelCredentials credentials(PluginSettings.Tls tls) throws IOException {
        if (!tls.enabled()) {
            return InsecureChannelCredentials.create();
        }
        TlsChannelCredentials.Builder builder = TlsChannelCredentials.newBuilder();
        if (tls.trustCertificates() != null) {
            builder.trustManager(tls.trustCertificates());
        }
        if (tls.certificate() != null) {
            builder.keyManager(tls.certificate(), tls.key());
        }
        return builder.build();
    }

    /** Sends the token of a file, which may be replaced at any time. */
    private static final class Token extends CallCredentials {
        private static final Metadata.Key<String> HEADER =
                Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
        private final File file;

        Token(File file) {
            this.file = file;
        }

        @Override
        public void applyRequestMetadata(RequestInfo call, Executor executor, MetadataApplier applier) {
            executor.execute(() -> {
                try {
                    Metadata headers = new Metadata();
                    String token = Files.readString(file.toPath(), StandardCharsets.US_ASCII).trim();
                    headers.put(HEADER, "Bearer " + token);
                    applier.apply(headers);
                } catch (IOException unreadable) {
                    applier.fail(Status.UNAVAILABLE.withDescription(
                            PluginSettings.PREFIX + "TokenFile cannot be read: " + unreadable.getMessage()));
                }
            });
        }
    }
}
