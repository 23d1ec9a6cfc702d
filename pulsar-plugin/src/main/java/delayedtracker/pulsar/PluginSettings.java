package delayedtracker.pulsar;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;

/**
 * The plugin's settings: the keys of broker.conf that begin with {@code delayedTracker}.
 *
 * @param addresses addresses of the service, HOST:PORT; the next is tried when one cannot be reached
 * @param tracker the tracker of topics that name none
 * @param tls how to connect
 * @param tokenFile a file with the token, read for each call; null sends none
 * @param addBatchMax positions that one call adds
 * @param addDelayMs how long the first position waits for others
 * @param unconfirmedMax positions that wait for the service before the dispatcher stops reading
 * @param prefetchMax positions that are fetched ahead
 * @param leaseMs how long the service keeps what was fetched for this broker
 * @param pollMs how long a poll waits
 * @param callTimeoutMs how long any other call may take
 * @param closeTimeoutMs how long an unloading topic waits until the service has what is tracked
 * @param fallBackAfterMs how long the service may be away before positions are kept in the broker's memory; -1 is for ever
 */
record PluginSettings(
        List<String> addresses,
        TrackerChoice tracker,
        Tls tls,
        File tokenFile,
        int addBatchMax,
        int addDelayMs,
        int unconfirmedMax,
        int prefetchMax,
        int leaseMs,
        int pollMs,
        int callTimeoutMs,
        int closeTimeoutMs,
        int fallBackAfterMs) {

    /** Files for TLS; the certificate and its key are null unless the service asks for them. */
    record Tls(boolean enabled, File trustCertificates, File certificate, File key) {}

    static final String PREFIX = "delayedTracker";

    /**
     * Reads the settings.
     *
     * @param properties all keys of broker.conf
     * @throws IllegalArgumentException a key is unknown, a value is wrong, or a file cannot be read; it names the key
     */
    static PluginSettings of(Properties properties) {
        Reader reader = new Reader(properties);
        List<String> addresses = reader.addresses(PREFIX + "ServiceAddresses");
        TrackerChoice tracker = reader.choice(PREFIX + "Default", TrackerChoice.SERVICE);
        Tls tls = new Tls(
                reader.flag(PREFIX + "TlsEnabled", false),
                reader.file(PREFIX + "TlsTrustCertsFilePath"),
                reader.file(PREFIX + "TlsCertificateFilePath"),
                reader.file(PREFIX + "TlsKeyFilePath"));
        if ((tls.certificate() == null) != (tls.key() == null)) {
            throw new IllegalArgumentException(PREFIX + "TlsCertificateFilePath and " + PREFIX
                    + "TlsKeyFilePath go together: set both or none");
        }
        if (!tls.enabled() && (tls.trustCertificates() != null || tls.certificate() != null)) {
            throw new IllegalArgumentException(PREFIX + "TlsEnabled is false, but files for TLS are given: set it to true");
        }
        PluginSettings settings = new PluginSettings(
                addresses,
                tracker,
                tls,
                reader.file(PREFIX + "TokenFile"),
                reader.number(PREFIX + "AddBatchMaxMessages", 1_000, 1, 10_000),
                reader.number(PREFIX + "AddBatchDelayMillis", 5, 0, 1_000),
                reader.number(PREFIX + "MaxUnconfirmedMessages", 20_000, 100, 10_000_000),
                reader.number(PREFIX + "PrefetchMessages", 1_000, 1, 10_000),
                reader.number(PREFIX + "LeaseMillis", 30_000, 1_000, 600_000),
                reader.number(PREFIX + "PollMillis", 15_000, 100, 60_000),
                reader.number(PREFIX + "CallTimeoutMillis", 10_000, 100, 600_000),
                reader.number(PREFIX + "CloseTimeoutMillis", 5_000, 0, 60_000),
                reader.number(PREFIX + "FallbackAfterMillis", -1, -1, Integer.MAX_VALUE));
        reader.refuseOthers();
        return settings;
    }

    /** Reads single keys, and remembers which. */
    private static final class Reader {
        private final Properties properties;
        private final Set<String> known = new HashSet<>();

        Reader(Properties properties) {
            this.properties = properties;
        }

        private String text(String key) {
            known.add(key);
            return properties.getProperty(key, "").trim();
        }

        List<String> addresses(String key) {
            List<String> found = new ArrayList<>();
            for (String address : text(key).split(",")) {
                String each = address.trim();
                if (!each.isEmpty() && !each.matches("(\\[[0-9a-fA-F:]+]|[^:/\\s]+):\\d{1,5}")) {
                    throw new IllegalArgumentException(key + ": \"" + each + "\" is not HOST:PORT, such as tracker1:7650");
                }
                if (!each.isEmpty()) {
                    found.add(each);
                }
            }
            if (found.isEmpty()) {
                throw new IllegalArgumentException(key + " is not set: give the service's HOST:PORT, such as tracker1:7650");
            }
            return List.copyOf(found);
        }

        TrackerChoice choice(String key, TrackerChoice otherwise) {
            String value = text(key);
            return value.isEmpty() ? otherwise : TrackerChoice.parse(value).orElseThrow(() -> new IllegalArgumentException(
                    key + ": \"" + value + "\" is none of service, pulsar, memory"));
        }

        boolean flag(String key, boolean otherwise) {
            String value = text(key).toLowerCase(Locale.ROOT);
            return switch (value) {
                case "" -> otherwise;
                case "true" -> true;
                case "false" -> false;
                default -> throw new IllegalArgumentException(key + ": \"" + value + "\" is neither true nor false");
            };
        }

        int number(String key, int otherwise, int least, int most) {
            String value = text(key);
            if (value.isEmpty()) {
                return otherwise;
            }
            String expected = key + ": \"" + value + "\" is no whole number from " + least + " to " + most;
            try {
                int number = Integer.parseInt(value);
                if (number < least || number > most) {
                    throw new IllegalArgumentException(expected);
                }
                return number;
            } catch (NumberFormatException wrong) {
                throw new IllegalArgumentException(expected, wrong);
            }
        }

        File file(String key) {
            String value = text(key);
            if (value.isEmpty()) {
                return null;
            }
            File file = new File(value);
            if (!file.isFile() || !file.canRead()) {
                throw new IllegalArgumentException(key + ": " + value + " is no file that the broker may read");
            }
            return file;
        }

        void refuseOthers() {
            Set<String> unknown = new TreeSet<>(properties.stringPropertyNames());
            unknown.removeIf(key -> !key.startsWith(PREFIX) || known.contains(key));
            if (!unknown.isEmpty()) {
                String[] names = known.toArray(String[]::new);
                Arrays.sort(names);
                throw new IllegalArgumentException("unknown keys " + unknown + "; the plugin has " + String.join(", ", names));
            }
        }
    }
}
