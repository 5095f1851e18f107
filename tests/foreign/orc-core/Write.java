// orc-core, ORC's library in Java, which Hive, Spark and Flink use: types and times, and what its reader returns.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DateColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DecimalColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.TimestampColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.UnionColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.CompressionKind;
import org.apache.orc.OrcConf;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;

class Write {
    static final Map<String, Object> EXPECTED = new LinkedHashMap<>();
    static final Configuration CONF = new Configuration();

    record Member(int tag, Object value) {}

    public static void main(String[] args) throws Exception {
        Path out = Path.of(args[0]);
        Files.createDirectories(out.resolve("files"));
        CONF.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"); // without files of checksums

        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        // Around 1970 readers take a second from a negative time with a fraction; the zone decides whether it is one.
        write(out, "epoch-utc.orc", true, "struct<id:bigint,ts:timestamp>",
            row(0L, LocalDateTime.of(1969, 12, 31, 12, 0, 0, 500_000_000)), row(1L, LocalDateTime.of(1970, 1, 1, 1, 0, 0, 500_000_000)));
        write(out, "types.orc", true,
            "struct<id:bigint,yes:boolean,tiny:tinyint,small:smallint,i:int,f:float,d:double,s:string,c:char(5),v:varchar(5),"
                + "b:binary,big:decimal(38,10),money:decimal(9,2),day:date,l:array<struct<x:double,s:string>>,"
                + "m:map<string,array<int>>,o:struct<n:int,deep:struct<d:date>>>",
            row(0L, true, -128, -32768, Integer.MIN_VALUE, 0.1, 0.1, "é", "ab  ", "ab  ", new byte[] {-1, 0},
                "1234567890123456789012345678.0123456789", "-1234567.89", LocalDate.of(1, 1, 1),
                list(row(0.1, "a"), null, row(null, null)), map("k", list(1, null), "j", list()), row(1, row(LocalDate.of(1, 1, 1)))),
            row(1L, false, 127, 32767, Integer.MAX_VALUE, Double.NaN, Double.NEGATIVE_INFINITY, "", "abcde", "", new byte[0],
                "-0.0000000001", "0.01", LocalDate.of(9999, 12, 31), list(), map(), row(null, null)),
            row(2L, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null));
        write(out, "union.orc", true, "struct<id:bigint,either:uniontype<int,string>>",
            row(0L, new Member(0, 5)), row(1L, new Member(1, "five")), row(2L, null));
        Object[] clocks = {
            LocalDateTime.of(1677, 9, 22, 0, 0), LocalDateTime.of(1900, 1, 1, 0, 0), LocalDateTime.of(1960, 5, 5, 1, 2, 3, 500_000_000),
            LocalDateTime.of(1969, 12, 31, 15, 59, 59, 1), LocalDateTime.of(2024, 7, 1, 12, 0, 0, 123_456_789),
            LocalDateTime.of(2024, 11, 3, 1, 30), LocalDateTime.of(2262, 4, 11, 1, 2, 3, 456_789_000), null};
        var times = new Object[clocks.length][];
        for (int i = 0; i < clocks.length; i++) {
            times[i] = row((long) i, clocks[i], clocks[i]);
        }
        String both = "struct<id:bigint,ts:timestamp,at:timestamp with local time zone>";
        write(out, "times-utc.orc", true, both, times);
        write(out, "late.orc", true, both, row(0L, LocalDateTime.of(9999, 12, 31, 0, 0), null));
        // The file names the zone of its writer.
        TimeZone.setDefault(TimeZone.getTimeZone("America/Los_Angeles"));
        write(out, "times-los-angeles.orc", true, both, times);
        LocalDateTime half = LocalDateTime.of(1969, 12, 31, 23, 59, 59, 500_000_000);
        write(out, "epoch-los-angeles.orc", true, both, row(0L, half, null), row(1L, half.minusNanos(500_000_000), null));
        TimeZone.setDefault(TimeZone.getTimeZone("Asia/Tokyo"));
        write(out, "epoch-tokyo.orc", true, both, row(0L, half.plusHours(2), null), row(1L, half.minusHours(1), null));
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        // By default earlier dates are Julian, as the footer says, which is compressed like the rest of the file.
        write(out, "hybrid.orc", false, "struct<id:bigint,day:date>",
            row(0L, LocalDate.of(1582, 10, 15)), row(1L, LocalDate.of(9999, 12, 31)), row(2L, (Object) null));
        StringBuilder wide = new StringBuilder("struct<id:bigint,day:date"); // a footer that is worth compressing
        for (int i = 0; i < 20; i++) {
            wide.append(",column").append(i).append(":int");
        }
        for (var codec : List.of(CompressionKind.NONE, CompressionKind.ZLIB, CompressionKind.SNAPPY, CompressionKind.LZ4)) {
            OrcConf.COMPRESS.setString(CONF, codec.name());
            write(out, "dates-" + codec.name().toLowerCase() + ".orc", true, wide + ">",
                Arrays.copyOf(row(0L, LocalDate.of(1, 1, 1)), 22), Arrays.copyOf(row(1L, LocalDate.of(1582, 10, 4)), 22),
                Arrays.copyOf(row(2L, LocalDate.of(2024, 2, 29)), 22));
        }

        ObjectMapper json = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        Files.writeString(out.resolve("expected.json"), json.writeValueAsString(EXPECTED) + "\n");
    }

    static void write(Path out, String name, boolean proleptic, String schema, Object[]... rows) throws Exception {
        TypeDescription type = TypeDescription.fromString(schema);
        var path = new org.apache.hadoop.fs.Path(out.resolve("files").resolve(name).toString());
        var options = OrcFile.writerOptions(CONF).setSchema(type);
        if (proleptic) {
            options.setProlepticGregorian(true);
        }
        try (var writer = OrcFile.createWriter(path, options)) {
            VectorizedRowBatch batch = type.createRowBatch();
            for (Object[] row : rows) {
                int at = batch.size++;
                for (int i = 0; i < row.length; i++) {
                    set(batch.cols[i], at, row[i], type.getChildren().get(i));
                }
            }
            writer.addRowBatch(batch);
        }
        var found = new ArrayList<Object>();
        try (var reader = OrcFile.createReader(path, OrcFile.readerOptions(CONF).convertToProlepticGregorian(true));
                var records = reader.rows()) {
            VectorizedRowBatch batch = reader.getSchema().createRowBatch();
            while (records.nextBatch(batch)) {
                for (int at = 0; at < batch.size; at++) {
                    var one = new LinkedHashMap<String, Object>();
                    for (int i = 0; i < batch.numCols; i++) {
                        one.put(type.getFieldNames().get(i), get(batch.cols[i], at, reader.getSchema().getChildren().get(i)));
                    }
                    found.add(one);
                }
            }
        }
        EXPECTED.put(name, found);
    }

    /** Puts a value into a row of a column. */
    static void set(ColumnVector column, int at, Object value, TypeDescription type) {
        if (value == null) {
            column.noNulls = false;
            column.isNull[at] = true;
        } else if (column instanceof DateColumnVector days) {
            days.changeCalendar(true, false);
            days.vector[at] = ((LocalDate) value).toEpochDay();
        } else if (column instanceof LongColumnVector numbers) {
            numbers.vector[at] = value instanceof Boolean yes ? (yes ? 1 : 0) : ((Number) value).longValue();
        } else if (column instanceof DoubleColumnVector numbers) {
            numbers.vector[at] = (Double) value;
        } else if (column instanceof DecimalColumnVector numbers) {
            numbers.set(at, HiveDecimal.create((String) value));
        } else if (column instanceof TimestampColumnVector times) {
            var clock = (LocalDateTime) value;
            boolean isInstant = type.getCategory() == TypeDescription.Category.TIMESTAMP_INSTANT;
            times.set(at, isInstant ? Timestamp.from(clock.toInstant(ZoneOffset.UTC)) : Timestamp.valueOf(clock));
        } else if (column instanceof BytesColumnVector texts) {
            texts.setVal(at, value instanceof String text ? text.getBytes(StandardCharsets.UTF_8) : (byte[]) value);
        } else if (column instanceof ListColumnVector lists) {
            var items = (List<?>) value;
            lists.offsets[at] = lists.childCount;
            lists.lengths[at] = items.size();
            lists.child.ensureSize(lists.childCount + items.size(), true);
            for (Object item : items) {
                set(lists.child, lists.childCount++, item, type.getChildren().get(0));
            }
        } else if (column instanceof MapColumnVector maps) {
            var pairs = (Map<?, ?>) value;
            maps.offsets[at] = maps.childCount;
            maps.lengths[at] = pairs.size();
            maps.keys.ensureSize(maps.childCount + pairs.size(), true);
            maps.values.ensureSize(maps.childCount + pairs.size(), true);
            for (var pair : pairs.entrySet()) {
                set(maps.keys, maps.childCount, pair.getKey(), type.getChildren().get(0));
                set(maps.values, maps.childCount++, pair.getValue(), type.getChildren().get(1));
            }
        } else if (column instanceof StructColumnVector structs) {
            for (int i = 0; i < structs.fields.length; i++) {
                set(structs.fields[i], at, ((Object[]) value)[i], type.getChildren().get(i));
            }
        } else if (column instanceof UnionColumnVector unions) {
            var member = (Member) value;
            unions.tags[at] = member.tag;
            set(unions.fields[member.tag], at, member.value, type.getChildren().get(member.tag));
        } else {
            throw new IllegalArgumentException(type.toString());
        }
    }

    /** Returns the value of a row as JSON. */
    static Object get(ColumnVector column, int row, TypeDescription type) {
        int at = column.isRepeating ? 0 : row;
        if (!column.noNulls && column.isNull[at]) {
            return null;
        }
        switch (type.getCategory()) {
            case BOOLEAN:
                return ((LongColumnVector) column).vector[at] == 1;
            case BYTE:
            case SHORT:
            case INT:
            case LONG:
                return ((LongColumnVector) column).vector[at];
            case FLOAT:
            case DOUBLE:
                double number = ((DoubleColumnVector) column).vector[at];
                return Double.isFinite(number) ? number : Double.isNaN(number) ? "nan" : number > 0 ? "inf" : "-inf";
            case DECIMAL:
                return ((DecimalColumnVector) column).vector[at].getHiveDecimal().toString();
            case DATE:
                return LocalDate.ofEpochDay(((DateColumnVector) column).vector[at]).toString();
            case TIMESTAMP:
                return ((TimestampColumnVector) column).asScratchTimestamp(at).toLocalDateTime().toString();
            case TIMESTAMP_INSTANT:
                return ((TimestampColumnVector) column).asScratchTimestamp(at).toInstant().toString();
            case BINARY:
            case STRING:
            case CHAR:
            case VARCHAR:
                var texts = (BytesColumnVector) column;
                byte[] bytes = Arrays.copyOfRange(texts.vector[at], texts.start[at], texts.start[at] + texts.length[at]);
                return type.getCategory() == TypeDescription.Category.BINARY
                    ? Map.of("b64", Base64.getEncoder().encodeToString(bytes))
                    : new String(bytes, StandardCharsets.UTF_8);
            case LIST:
                var lists = (ListColumnVector) column;
                var items = new ArrayList<Object>();
                for (int i = 0; i < lists.lengths[at]; i++) {
                    items.add(get(lists.child, (int) lists.offsets[at] + i, type.getChildren().get(0)));
                }
                return items;
            case MAP:
                var maps = (MapColumnVector) column;
                var pairs = new LinkedHashMap<String, Object>();
                for (int i = 0; i < maps.lengths[at]; i++) {
                    int pair = (int) maps.offsets[at] + i;
                    pairs.put((String) get(maps.keys, pair, type.getChildren().get(0)), get(maps.values, pair, type.getChildren().get(1)));
                }
                return pairs;
            case STRUCT:
                var members = new LinkedHashMap<String, Object>();
                for (int i = 0; i < type.getFieldNames().size(); i++) {
                    members.put(type.getFieldNames().get(i), get(((StructColumnVector) column).fields[i], at, type.getChildren().get(i)));
                }
                return members;
            case UNION:
                var unions = (UnionColumnVector) column;
                return get(unions.fields[unions.tags[at]], at, type.getChildren().get(unions.tags[at]));
            default:
                throw new IllegalArgumentException(type.toString());
        }
    }

    static Object[] row(Object... values) {
        return values;
    }

    static List<Object> list(Object... values) {
        return Arrays.asList(values);
    }

    static Map<String, Object> map(Object... values) {
        var made = new LinkedHashMap<String, Object>();
        for (int i = 0; i < values.length; i += 2) {
            made.put((String) values[i], values[i + 1]);
        }
        return made;
    }
}
