package delayedtracker.pulsar;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Properties;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PluginSettingsTest {
    private static Properties properties(String... pairs) {
        Properties properties = new Properties();
        properties.setProperty("brokerServicePort", "6650");
        properties.setProperty("delayedTrackerServiceAddresses", "tracker1:7650, [::1]:7650");
        for (int i = 0; i < pairs.length; i += 2) {
            properties.setProperty(pairs[i], pairs[i + 1]);
        }
        return properties;
    }

    @Test
    void theAddressesAreEnough() {
        PluginSettings settings = PluginSettings.of(properties());
        assertEquals(List.of("tracker1:7650", "[::1]:7650"), settings.addresses());
        assertEquals(TrackerChoice.SERVICE, settings.tracker());
        assertEquals(-1, settings.fallBackAfterMs());
    }

    @ParameterizedTest
    @CsvSource(quoteCharacter = '\'', value = {
        "delayedTrackerServiceAddresses, '', is not set",
        "delayedTrackerServiceAddresses, tracker1, is not HOST:PORT",
        "delayedTrackerServiceAddresses, http://tracker1:7650, is not HOST:PORT",
        "delayedTrackerDefault, redis, 'none of service, pulsar, memory'",
        "delayedTrackerPrefetchMessages, many, no whole number from 1 to 10000",
        "delayedTrackerPrefetchMessages, 0, no whole number from 1 to 10000",
        "delayedTrackerTlsEnabled, yes, neither true nor false",
        "delayedTrackerTokenFile, /nowhere/token, no file that the broker may read",
        "delayedTrackerLeaseMilis, 1000, unknown keys",
    })
    void aWrongValueNamesItsKey(String key, String value, String expected) {
        Exception refused = assertThrows(
                IllegalArgumentException.class, () -> PluginSettings.of(properties(key, value)));
        assertTrue(refused.getMessage().contains(key), refused.getMessage());
        assertTrue(refused.getMessage().contains(expected), refused.getMessage());
    }
}
