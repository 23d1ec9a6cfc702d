package delayedtracker.pulsar;

import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.apache.pulsar.broker.service.persistent.AbstractPersistentDispatcherMultipleConsumers;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;
import org.apache.pulsar.common.naming.TopicName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Which tracker a topic has: this service's, Pulsar's with buckets, or Pulsar's in memory. */
enum TrackerChoice {
    SERVICE, PULSAR, MEMORY;

    /** Property of a topic or a namespace that chooses. */
    static final String PROPERTY = "delayedTracker";

    private static final Logger log = LoggerFactory.getLogger(TrackerChoice.class);

    static Optional<TrackerChoice> parse(String value) {
        for (TrackerChoice each : values()) {
            if (each.name().equals(value.trim().toUpperCase(Locale.ROOT))) {
                return Optional.of(each);
            }
        }
        return Optional.empty();
    }

    /** Returns the choice of the topic's properties, else of the namespace's, else the broker's; it waits for nothing. */
    static TrackerChoice of(AbstractPersistentDispatcherMultipleConsumers dispatcher, TrackerChoice ofBroker) {
        PersistentTopic topic = (PersistentTopic) dispatcher.getTopic();
        String named = topic.getManagedLedger().getProperties().get(PROPERTY);
        if (named == null) {
            named = topic.getBrokerService().getPulsar().getPulsarResources().getNamespaceResources()
                    .getPoliciesIfCached(TopicName.get(topic.getName()).getNamespaceObject())
                    .map(policies -> policies.properties)
                    .map((Map<String, String> properties) -> properties.get(PROPERTY))
                    .orElse(null);
        }
        if (named == null) {
            return ofBroker;
        }
        String value = named;
        return parse(value).orElseGet(() -> {
            log.warn("[{}] Property {} is \"{}\", which is none of service, pulsar, memory; the broker's choice counts: {}",
                    topic.getName(), PROPERTY, value, ofBroker);
            return ofBroker;
        });
    }
}
