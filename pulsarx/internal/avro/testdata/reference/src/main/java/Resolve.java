import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.HexFormat;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;

/** Reads lines of a writer's schema, a reader's and data in hexadecimal, with tabs between them, and prints what Avro reads of each. */
public class Resolve {
    public static void main(String[] args) throws IOException {
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, "UTF-8");
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            String[] parts = line.split("\t", -1);
            try {
                out.println(canon(read(parts[0], parts[1], HexFormat.of().parseHex(parts[2]))));
            } catch (Exception e) {
                out.println("!" + String.valueOf(e.getMessage()).replaceAll("\\s+", " "));
            }
        }
        out.flush();
    }

    static Object read(String writer, String reader, byte[] data) throws IOException {
        GenericData generic = new GenericData();
        generic.setFastReaderEnabled(false);
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
        Object v = new GenericDatumReader<>(new Schema.Parser().parse(writer), new Schema.Parser().parse(reader), generic).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IOException("bytes after the value");
        }
        return v;
    }

    /** A value with its type, exactly, as JSON. */
    static String canon(Object v) {
        if (v == null || v instanceof Boolean) {
            return String.valueOf(v);
        } else if (v instanceof Integer || v instanceof Long) {
            return quoted("i:" + v);
        } else if (v instanceof Number) {
            return quoted("f:" + Long.toHexString(Double.doubleToLongBits(((Number) v).doubleValue())));
        } else if (v instanceof ByteBuffer) {
            byte[] bytes = new byte[((ByteBuffer) v).remaining()];
            ((ByteBuffer) v).duplicate().get(bytes);
            return quoted("b:" + HexFormat.of().formatHex(bytes));
        } else if (v instanceof GenericFixed) {
            return quoted("b:" + HexFormat.of().formatHex(((GenericFixed) v).bytes()));
        } else if (v instanceof Collection) {
            return ((Collection<?>) v).stream().map(Resolve::canon).collect(Collectors.joining(",", "[", "]"));
        } else if (v instanceof Map) {
            return ((Map<?, ?>) v).entrySet().stream().map(e -> quoted(e.getKey()) + ":" + canon(e.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        } else if (v instanceof IndexedRecord) {
            IndexedRecord r = (IndexedRecord) v;
            return r.getSchema().getFields().stream().map(f -> quoted(f.name()) + ":" + canon(r.get(f.pos())))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        return quoted("s:" + v);
    }

    static String quoted(Object text) {
        return "\"" + text + "\"";
    }
}
