package peers;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.WindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.EventTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.WindowAssigner;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * Windows CASE KEYS EVENTS: runs Flink's event-time windows over generated events, source, window and sink in one thread, and prints a
 * line of JSON. The time goes from the first event to the close of the sink; a fifth of the events go before, for the JIT.
 */
public final class Windows {
    // One job at a time: source and sink report here.
    static volatile long began, ended, results, sum;

    /** The event i: one a millisecond, shuffled inside blocks of 256, of uniform keys. */
    static Tuple3<Long, Long, Long> event(long i, long keys) {
        if (began == 0) {
            began = System.nanoTime();
        }
        long z = i + 0x9e3779b97f4a7c15L;
        z = (z ^ z >>> 30) * 0xbf58476d1ce4e5b9L;
        z = (z ^ z >>> 27) * 0x94d049bb133111ebL;
        z ^= z >>> 31;
        return Tuple3.of((z >>> 1) % keys, (i & ~255L) | (i * 89 + 17 & 255L), z & 15L);
    }

    static final class Sum implements AggregateFunction<Tuple3<Long, Long, Long>, Long, Long> {
        public Long createAccumulator() {
            return 0L;
        }

        public Long add(Tuple3<Long, Long, Long> v, Long sum) {
            return sum + v.f2;
        }

        public Long getResult(Long sum) {
            return sum;
        }

        public Long merge(Long a, Long b) {
            return a + b;
        }
    }

    /** What the Go side emits: key, start, end, value. */
    static final class Named implements WindowFunction<Long, Tuple4<Long, Long, Long, Long>, Long, TimeWindow> {
        public void apply(Long key, TimeWindow w, Iterable<Long> in, Collector<Tuple4<Long, Long, Long, Long>> out) {
            out.collect(Tuple4.of(key, w.getStart(), w.getEnd(), in.iterator().next()));
        }
    }

    static final class Totals implements Sink<Tuple4<Long, Long, Long, Long>> {
        public SinkWriter<Tuple4<Long, Long, Long, Long>> createWriter(WriterInitContext context) {
            return new SinkWriter<>() {
                long n, total;

                public void write(Tuple4<Long, Long, Long, Long> v, Context c) {
                    n++;
                    total += v.f3;
                }

                public void flush(boolean end) {}

                public void close() {
                    results = n;
                    sum = total;
                    ended = System.nanoTime();
                }
            };
        }
    }

    static WindowAssigner<Object, TimeWindow> assigner(String name) {
        return switch (name) {
            case "tumbling" -> TumblingEventTimeWindows.of(Duration.ofSeconds(10));
            case "sliding" -> SlidingEventTimeWindows.of(Duration.ofSeconds(60), Duration.ofSeconds(5));
            default -> EventTimeSessionWindows.withGap(Duration.ofMillis(500));
        };
    }

    static void run(String name, long events, long keys) throws Exception {
        began = 0;
        Configuration conf = new Configuration();
        conf.setString("state.backend.type", "hashmap");
        conf.setString("pipeline.object-reuse", "true");
        conf.setString("rest.port", "0");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, conf);
        TypeInformation<Tuple3<Long, Long, Long>> type = Types.TUPLE(Types.LONG, Types.LONG, Types.LONG);
        var in = env.fromSource(
                new DataGeneratorSource<>(i -> event(i, keys), events, type),
                WatermarkStrategy.<Tuple3<Long, Long, Long>>forBoundedOutOfOrderness(Duration.ofSeconds(2))
                        .withTimestampAssigner((v, t) -> v.f1),
                "events");
        DataStreamUtils.reinterpretAsKeyedStream(in, v -> v.f0, Types.LONG) // no exchange: right in one thread
                .window(assigner(name))
                .aggregate(new Sum(), new Named(), Types.LONG, Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.LONG))
                .sinkTo(new Totals());
        env.execute(name);
    }

    public static void main(String[] args) throws Exception {
        String name = args[0];
        long keys = Long.parseLong(args[1]), events = Long.parseLong(args[2]);
        run(name, events / 5, keys);
        System.gc();
        run(name, events, keys);
        System.out.printf(
                "{\"events\": %d, \"results\": %d, \"sum\": %d, \"seconds\": %.6f}%n", events, results, sum, (ended - began) / 1e9);
        System.exit(0);
    }
}
