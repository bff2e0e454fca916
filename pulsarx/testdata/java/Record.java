import java.time.*;
import java.util.*;
import org.apache.pulsar.client.api.*;
import org.apache.pulsar.client.api.schema.*;
import org.apache.pulsar.client.impl.schema.*;
import org.apache.pulsar.common.schema.*;

/** Writes messages of Java's schemas, which java.json holds: java -cp 'lib/*' Record.java pulsar://host:port prefix */
public class Record {
    public static class Key { public String tenant; public int id; }
    public static class Inner { public String name; public Long count; public Instant at; public LocalDate day; public List<String> tags; public Map<String, Integer> more; public Color color; public UUID uuid; public Integer none; }
    public enum Color { RED, GREEN }

    static PulsarClient client;
    static String prefix;

    static <T> void send(String name, Schema<T> schema, T... values) throws Exception {
        try (Producer<T> p = client.newProducer(schema).topic(prefix + name).create()) {
            for (T v : values) p.newMessage().value(v).send();
        }
    }

    public static void main(String[] args) throws Exception {
        prefix = args[1];
        client = PulsarClient.builder().serviceUrl(args[0]).build();
        Key k = new Key(); k.tenant = "acme"; k.id = 7;
        Inner v = new Inner(); v.name = "Ünal"; v.count = 1L << 60; v.at = Instant.ofEpochSecond(1714979289L, 123000000); v.day = LocalDate.of(2024, 5, 6);
        v.tags = List.of("a", "b"); v.more = Map.of("x", 5); v.color = Color.GREEN;
        send("avro", Schema.AVRO(SchemaDefinition.<Inner>builder().withPojo(Inner.class).withJSR310ConversionEnabled(true).build()), v);
        send("json", Schema.JSON(Key.class), k);
        send("string", Schema.STRING, "Ünal");
        send("bool", Schema.BOOL, true, false);
        send("int8", Schema.INT8, (byte) -2);
        send("int16", Schema.INT16, (short) -300);
        send("int32", Schema.INT32, 1 << 24);
        send("int64", Schema.INT64, Long.MIN_VALUE);
        send("float", Schema.FLOAT, 1.5f);
        send("double", Schema.DOUBLE, -0.1);
        send("date", Schema.DATE, new java.util.Date(1714979289123L));
        send("time", Schema.TIME, new java.sql.Time(3661000L));
        send("timestamp", Schema.TIMESTAMP, new java.sql.Timestamp(1714979289123L));
        send("instant", Schema.INSTANT, Instant.ofEpochSecond(1714979289L, 123456789));
        send("localdate", Schema.LOCAL_DATE, LocalDate.of(2024, 5, 6));
        send("localtime", Schema.LOCAL_TIME, LocalTime.of(1, 2, 3, 4));
        send("localdatetime", Schema.LOCAL_DATE_TIME, LocalDateTime.of(2024, 5, 6, 1, 2, 3, 4));
        send("inline", Schema.KeyValue(Schema.AVRO(Key.class), Schema.JSON(Key.class), KeyValueEncodingType.INLINE), new KeyValue<>(k, k), new KeyValue<>(k, null), new KeyValue<>(null, k));
        send("separated", Schema.KeyValue(Schema.AVRO(Key.class), Schema.INT32, KeyValueEncodingType.SEPARATED), new KeyValue<>(k, 5), new KeyValue<>(k, null));
        send("textkey", Schema.KeyValue(Schema.STRING, Schema.STRING, KeyValueEncodingType.SEPARATED), new KeyValue<>("abcd", "v"));
        send("bytes", Schema.KeyValue(Schema.BYTES, Schema.BYTES, KeyValueEncodingType.INLINE), new KeyValue<>(new byte[] {1}, new byte[] {2}));
        client.close();
        System.exit(0);
    }
}
