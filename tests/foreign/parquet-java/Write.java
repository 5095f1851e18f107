// parquet-java: records of Avro, and its own groups with types, encodings and forms of lists that Avro does not write.

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.avro.AvroParquetReader;
import org.apache.parquet.avro.AvroParquetWriter;
import org.apache.parquet.column.ParquetProperties;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.hadoop.ParquetReader;
import org.apache.parquet.hadoop.api.ReadSupport;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.example.GroupReadSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.InputFile;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.io.LocalOutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

class Write {
    static final Map<String, Object> EXPECTED = new LinkedHashMap<>();
    static final GenericData AVRO = new GenericData();
    static Path files;

    static final String RECORD = """
        {"type": "record", "name": "Row", "fields": [
          {"name": "id", "type": "long"},
          {"name": "kind", "type": ["null", {"type": "enum", "name": "Kind", "symbols": ["CAT", "DOG"]}]},
          {"name": "kinds", "type": ["null", {"type": "array", "items": "Kind"}]},
          {"name": "by", "type": ["null", {"type": "map", "values": "Kind"}]},
          {"name": "place", "type": ["null", {"type": "record", "name": "Place", "fields": [
            {"name": "kind", "type": ["null", "Kind"]}, {"name": "at", "type": {"type": "array", "items": "double"}}]}]},
          {"name": "singles", "type": ["null", {"type": "array", "items":
            {"type": "record", "name": "Single", "fields": [{"name": "n", "type": ["null", "int"]}]}}]},
          {"name": "lists", "type": ["null", {"type": "array", "items": {"type": "array", "items": "int"}}]},
          {"name": "u", "type": ["null", {"type": "string", "logicalType": "uuid"}]},
          {"name": "money", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}]},
          {"name": "fixed_money", "type": ["null", {"type": "fixed", "name": "Five", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2}]},
          {"name": "raw", "type": ["null", {"type": "fixed", "name": "Two", "size": 2}]},
          {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
          {"name": "clock_ms", "type": ["null", {"type": "int", "logicalType": "time-millis"}]},
          {"name": "clock_us", "type": ["null", {"type": "long", "logicalType": "time-micros"}]},
          {"name": "ms", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
          {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
          {"name": "local_us", "type": ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]}]}""";

    static final String UNION = """
        {"type": "record", "name": "Row", "fields": [
          {"name": "id", "type": "long"}, {"name": "either", "type": ["null", "int", "string"]}]}""";

    static final String NULLS = """
        {"type": "record", "name": "Row", "fields": [
          {"name": "id", "type": "long"},
          {"name": "kinds", "type": {"type": "array", "items": ["null", {"type": "enum", "name": "Kind", "symbols": ["CAT", "DOG"]}]}},
          {"name": "by", "type": {"type": "map", "values": ["null", {"type": "array", "items": ["null", "Kind"]}]}},
          {"name": "us", "type": {"type": "array", "items": ["null", {"type": "string", "logicalType": "uuid"}]}}]}""";

    static final String TYPES = """
        message row {
          required int64 id;
          optional boolean yes; optional float f; optional double d;
          optional int32 tiny (INTEGER(8,true)); optional int32 u16 (INTEGER(16,false));
          optional int32 u32 (INTEGER(32,false)); optional int64 u64 (INTEGER(64,false));
          optional int32 money32 (DECIMAL(9,2)); optional int64 money64 (DECIMAL(18,4));
          optional fixed_len_byte_array(16) money (DECIMAL(38,10)); optional binary money_bytes (DECIMAL(20,2));
          optional int32 day (DATE);
          optional int32 clock_ms (TIME(MILLIS,true)); optional int64 clock_us (TIME(MICROS,false)); optional int64 clock_ns (TIME(NANOS,true));
          optional int64 ms (TIMESTAMP(MILLIS,true)); optional int64 us (TIMESTAMP(MICROS,false));
          optional int64 ns (TIMESTAMP(NANOS,true)); optional int64 local_ns (TIMESTAMP(NANOS,false));
          optional fixed_len_byte_array(16) u (UUID); optional binary kind (ENUM); optional binary doc (JSON);
          optional fixed_len_byte_array(2) raw; optional binary s (STRING);
        }""";

    static final String NESTED = """
        message row {
          required int64 id;
          optional group three (LIST) { repeated group list { optional int32 element; } }
          optional group two (LIST) { repeated int32 element; }
          optional group two_of_pairs (LIST) { repeated group element { required int32 a; optional binary b (STRING); } }
          optional group tuple (LIST) { repeated group tuple_tuple { optional int32 a; } }
          repeated int32 bare;
          repeated group bare_groups { optional int32 a; optional binary kind (ENUM); }
          optional group m (MAP) { repeated group key_value { required binary key (STRING); optional int32 value; } }
          optional group old (MAP) { repeated group map (MAP_KEY_VALUE) { required binary key (STRING); optional binary value (ENUM); } }
          optional group times (LIST) { repeated group list { optional int96 element; } }
          optional group place { optional int96 at; optional group kinds (LIST) { repeated group list { optional binary element (ENUM); } } }
        }""";

    public static void main(String[] args) throws Exception {
        files = Files.createDirectories(Path.of(args[0]).resolve("files"));
        AVRO.addLogicalTypeConversion(new Conversions.DecimalConversion());
        AVRO.addLogicalTypeConversion(new Conversions.UUIDConversion());
        AVRO.addLogicalTypeConversion(new TimeConversions.DateConversion());
        AVRO.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
        AVRO.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
        AVRO.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
        AVRO.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
        AVRO.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
        avro();
        types();
        nested();
        int96();
        ObjectMapper json = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        Files.writeString(Path.of(args[0]).resolve("expected.json"), json.writeValueAsString(EXPECTED) + "\n");
    }

    static void avro() throws Exception {
        Schema schema = new Schema.Parser().parse(RECORD);
        Object[][] rows = {
            {0L, "CAT", List.of("DOG", "CAT"), Map.of("k", "DOG"), Arrays.asList("CAT", List.of(0.1, -0.0)),
                List.of(Arrays.asList(1), Arrays.asList((Object) null)), List.of(List.of(1, 2), List.of()),
                UUID.fromString("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), new BigDecimal("1234567890123456789012345678.0123456789"),
                new BigDecimal("-1234567.89"), new byte[] {-1, 0}, LocalDate.of(1, 1, 1), LocalTime.of(23, 59, 59, 999_000_000),
                LocalTime.of(23, 59, 59, 999_999_000), Instant.parse("0001-01-01T00:00:00Z"), Instant.parse("9999-12-31T23:59:59.999999Z"),
                LocalDateTime.of(1969, 12, 31, 23, 59, 59, 500_000_000)},
            {1L, "DOG", List.of(), Map.of(), Arrays.asList(null, List.of()), List.of(), List.of(),
                new UUID(0, 0), new BigDecimal("-0.0000000001"), new BigDecimal("0.00"), new byte[2], LocalDate.of(9999, 12, 31),
                LocalTime.MIDNIGHT, LocalTime.MIDNIGHT, Instant.EPOCH, Instant.EPOCH, LocalDateTime.of(2024, 7, 1, 12, 0)},
            {2L, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null}};
        writeAvro("avro.parquet", schema, new Configuration(false), rows);
        writeAvro("avro-union.parquet", new Schema.Parser().parse(UNION), new Configuration(false),
            new Object[][] {{0L, 5}, {1L, "five"}, {2L, null}});
        // Avro's reader puts the union together again; groups are what the file has.
        EXPECTED.put("avro-union.parquet", groups("avro-union.parquet"));
        var modern = new Configuration(false);
        modern.setBoolean("parquet.avro.write-old-list-structure", false);
        modern.setBoolean("parquet.avro.write-parquet-uuid", true);
        writeAvro("avro-nulls.parquet", new Schema.Parser().parse(NULLS), modern, new Object[][] {
            {0L, Arrays.asList("CAT", null), Map.of("k", Arrays.asList(null, "DOG")), Arrays.asList(new UUID(-1, 1), null)},
            {1L, List.of(), java.util.Collections.singletonMap("j", null), List.of()}});
    }

    static void writeAvro(String name, Schema schema, Configuration conf, Object[][] rows) throws Exception {
        try (var writer = AvroParquetWriter.<GenericRecord>builder(new LocalOutputFile(files.resolve(name)))
                .withSchema(schema).withDataModel(AVRO).withConf(conf).withCompressionCodec(CompressionCodecName.SNAPPY).build()) {
            for (Object[] row : rows) {
                writer.write((GenericRecord) given(Arrays.asList(row), schema));
            }
        }
        var found = new ArrayList<Object>();
        try (var reader = AvroParquetReader.<GenericRecord>builder(new LocalInputFile(files.resolve(name))).withDataModel(AVRO).build()) {
            for (GenericRecord one; (one = reader.read()) != null;) {
                found.add(plain(one));
            }
        }
        EXPECTED.put(name, found);
    }

    /** Returns a value as Avro's GenericData has it. */
    static Object given(Object value, Schema schema) {
        if (value == null) {
            return null;
        }
        switch (schema.getType()) {
            case UNION:
                for (Schema one : schema.getTypes()) {
                    boolean isText = one.getType() == Schema.Type.STRING && one.getLogicalType() == null;
                    if (one.getType() != Schema.Type.NULL && (schema.getTypes().size() == 2 || isText == value instanceof String)) {
                        return given(value, one);
                    }
                }
                throw new IllegalArgumentException(schema.toString());
            case RECORD:
                var made = new GenericData.Record(schema);
                for (Schema.Field field : schema.getFields()) {
                    made.put(field.pos(), given(((List<?>) value).get(field.pos()), field.schema()));
                }
                return made;
            case ENUM:
                return new GenericData.EnumSymbol(schema, value);
            case FIXED:
                return value instanceof byte[] bytes ? new GenericData.Fixed(schema, bytes) : value;
            case ARRAY:
                return new ArrayList<Object>(((List<?>) value).stream().map(one -> given(one, schema.getElementType())).toList());
            case MAP:
                var pairs = new LinkedHashMap<String, Object>();
                ((Map<?, ?>) value).forEach((key, one) -> pairs.put((String) key, given(one, schema.getValueType())));
                return pairs;
            default:
                return value;
        }
    }

    /** Returns a value of Avro's reader as JSON. */
    static Object plain(Object value) {
        if (value instanceof IndexedRecord one) {
            var members = new LinkedHashMap<String, Object>();
            one.getSchema().getFields().forEach(field -> members.put(field.name(), plain(one.get(field.pos()))));
            return members;
        }
        if (value instanceof List<?> items) {
            var found = new ArrayList<Object>();
            items.forEach(one -> found.add(plain(one)));
            return found;
        }
        if (value instanceof Map<?, ?> pairs) {
            var found = new LinkedHashMap<String, Object>();
            pairs.forEach((key, one) -> found.put(key.toString(), plain(one)));
            return found;
        }
        if (value instanceof GenericFixed fixed) {
            return b64(fixed.bytes());
        }
        if (value instanceof BigDecimal number) {
            return number.toPlainString();
        }
        return value == null || value instanceof Number ? value : value.toString();
    }

    static void types() throws Exception {
        MessageType schema = MessageTypeParser.parseMessageType(TYPES);
        var low = new SimpleGroup(schema);
        var high = new SimpleGroup(schema);
        var none = new SimpleGroup(schema);
        low.append("id", 0L).append("yes", true).append("f", 0.1f).append("d", -0.0).append("tiny", -128).append("u16", 65535)
            .append("u32", -1).append("u64", -1L).append("money32", -123456789).append("money64", -1L)
            .append("money", decimal("-99999999999999999999999999999999999999", 16)).append("money_bytes", decimal("-1", 1))
            .append("day", (int) LocalDate.of(1, 1, 1).toEpochDay()).append("clock_ms", 0).append("clock_us", 86_399_999_999L)
            .append("clock_ns", 86_399_999_999_999L).append("ms", -62_135_596_800_000L).append("us", -62_135_596_800_000_000L)
            .append("ns", -500_000_001L).append("local_ns", Long.MIN_VALUE + 1).append("u", Binary.fromConstantByteArray(new byte[16]))
            .append("kind", "CAT").append("doc", "{\"a\":[1,null]}").append("raw", Binary.fromConstantByteArray(new byte[] {-1, 0})).append("s", "é");
        high.append("id", 1L).append("yes", false).append("f", Float.MAX_VALUE).append("d", Double.MIN_VALUE).append("tiny", 127).append("u16", 0)
            .append("u32", Integer.MIN_VALUE).append("u64", Long.MIN_VALUE).append("money32", 999_999_999).append("money64", 999_999_999_999_999_999L)
            .append("money", decimal("99999999999999999999999999999999999999", 16)).append("money_bytes", decimal("99999999999999999999", 9))
            .append("day", (int) LocalDate.of(9999, 12, 31).toEpochDay()).append("clock_ms", 86_399_999).append("clock_us", 1L)
            .append("clock_ns", 1L).append("ms", 253_402_300_799_999L).append("us", 253_402_300_799_999_999L)
            .append("ns", Long.MAX_VALUE).append("local_ns", 1L).append("u", Binary.fromConstantByteArray("0123456789abcdef".getBytes()))
            .append("kind", "DOG").append("doc", "[]").append("raw", Binary.fromConstantByteArray(new byte[2])).append("s", "");
        none.append("id", 2L);
        write("types.parquet", schema, false, low, high, none);
        write("types-v2.parquet", schema, true, low, high, none);
    }

    static void nested() throws Exception {
        MessageType schema = MessageTypeParser.parseMessageType(NESTED);
        var full = new SimpleGroup(schema);
        full.add("id", 0L);
        Group three = full.addGroup("three");
        three.addGroup("list").append("element", 1);
        three.addGroup("list");
        full.addGroup("two").append("element", 1).append("element", 2);
        Group pairs = full.addGroup("two_of_pairs");
        pairs.addGroup("element").append("a", 1).append("b", "x");
        pairs.addGroup("element").append("a", 2);
        Group tuple = full.addGroup("tuple");
        tuple.addGroup("tuple_tuple").append("a", 1);
        tuple.addGroup("tuple_tuple");
        full.append("bare", 1).append("bare", 2);
        full.addGroup("bare_groups").append("a", 1).append("kind", "CAT");
        full.addGroup("bare_groups");
        Group map = full.addGroup("m");
        map.addGroup("key_value").append("key", "z").append("value", 1);
        map.addGroup("key_value").append("key", "a");
        full.addGroup("old").addGroup("map").append("key", "k").append("value", "DOG");
        Group times = full.addGroup("times");
        times.addGroup("list").append("element", nanoTime(LocalDateTime.of(9999, 12, 31, 23, 59, 59)));
        times.addGroup("list");
        times.addGroup("list").append("element", nanoTime(LocalDateTime.of(1, 1, 1, 0, 0)));
        Group place = full.addGroup("place").append("at", nanoTime(LocalDateTime.of(1500, 1, 1, 0, 0, 0, 1_000)));
        place.addGroup("kinds").addGroup("list").append("element", "CAT");
        var empty = new SimpleGroup(schema);
        empty.append("id", 1L);
        for (String name : List.of("three", "two", "two_of_pairs", "tuple", "m", "old", "times", "place")) {
            empty.addGroup(name);
        }
        var none = new SimpleGroup(schema);
        none.append("id", 2L);
        write("nested.parquet", schema, false, full, empty, none);
    }

    static void int96() throws Exception {
        MessageType schema = MessageTypeParser.parseMessageType("message row { required int64 id; optional int96 micros; optional int96 nanos; }");
        LocalDateTime[][] values = {
            {LocalDateTime.of(1, 1, 1, 0, 0), LocalDateTime.of(1677, 9, 22, 0, 0, 0, 1)},
            {LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_999_000), LocalDateTime.of(2262, 4, 11, 1, 2, 3, 999_999_999)},
            {LocalDateTime.of(1969, 12, 31, 23, 59, 59, 500_000_000), LocalDateTime.of(1969, 12, 31, 23, 59, 59, 500_000_001)}};
        var rows = new ArrayList<Group>();
        for (LocalDateTime[] one : values) {
            rows.add(new SimpleGroup(schema).append("id", (long) rows.size()).append("micros", nanoTime(one[0]))
                .append("nanos", nanoTime(one[1])));
        }
        rows.add(new SimpleGroup(schema).append("id", (long) rows.size()));
        write("int96.parquet", schema, false, rows.toArray(Group[]::new));
    }

    static void write(String name, MessageType schema, boolean isNew, Group... rows) throws Exception {
        var writer = ExampleParquetWriter.builder(new LocalOutputFile(files.resolve(name))).withConf(new Configuration(false)).withType(schema)
            .withCompressionCodec(isNew ? CompressionCodecName.ZSTD : CompressionCodecName.GZIP);
        if (isNew) { // DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, RLE, BYTE_STREAM_SPLIT, in pages of version 2
            writer.withWriterVersion(ParquetProperties.WriterVersion.PARQUET_2_0).withDictionaryEncoding(false)
                .withByteStreamSplitEncoding(true);
        }
        try (var open = writer.build()) {
            for (Group row : rows) {
                open.write(row);
            }
        }
        EXPECTED.put(name, groups(name));
    }

    static List<Object> groups(String name) throws Exception {
        class Groups extends ParquetReader.Builder<Group> {
            Groups(InputFile file) {
                super(file);
            }

            @Override
            protected ReadSupport<Group> getReadSupport() {
                return new GroupReadSupport();
            }
        }
        var found = new ArrayList<Object>();
        try (var reader = new Groups(new LocalInputFile(files.resolve(name))).build()) {
            for (Group one; (one = reader.read()) != null;) {
                found.add(members(one, one.getType()));
            }
        }
        return found;
    }

    static Map<String, Object> members(Group group, GroupType type) {
        var found = new LinkedHashMap<String, Object>();
        for (Type field : type.getFields()) {
            if (field.isRepetition(Type.Repetition.REPEATED)) {
                found.put(field.getName(), items(group, field, false));
            } else {
                found.put(field.getName(), group.getFieldRepetitionCount(field.getName()) == 0 ? null : value(group, field, 0));
            }
        }
        return found;
    }

    /** Returns the values of a repeated field; those of a list of three levels are one level below it. */
    static List<Object> items(Group group, Type field, boolean isOfList) {
        boolean isWrapped = isOfList && !field.isPrimitive() && field.asGroupType().getFieldCount() == 1 && field.getName().equals("list");
        var found = new ArrayList<Object>();
        for (int i = 0; i < group.getFieldRepetitionCount(field.getName()); i++) {
            Object one = value(group, field, i);
            found.add(isWrapped ? ((Map<?, ?>) one).values().iterator().next() : one);
        }
        return found;
    }

    static Object value(Group group, Type field, int at) {
        if (!field.isPrimitive()) {
            Group inner = group.getGroup(field.getName(), at);
            LogicalTypeAnnotation logical = field.getLogicalTypeAnnotation();
            boolean isList = logical instanceof LogicalTypeAnnotation.ListLogicalTypeAnnotation;
            boolean isMap = logical instanceof LogicalTypeAnnotation.MapLogicalTypeAnnotation;
            return isList || isMap ? items(inner, inner.getType().getType(0), isList) : members(inner, field.asGroupType());
        }
        PrimitiveType type = field.asPrimitiveType();
        String name = field.getName();
        var logical = type.getLogicalTypeAnnotation();
        boolean isText = logical != null && !(logical instanceof LogicalTypeAnnotation.IntLogicalTypeAnnotation);
        switch (type.getPrimitiveTypeName()) {
            case BOOLEAN:
                return group.getBoolean(name, at);
            case FLOAT:
                return group.getFloat(name, at);
            case DOUBLE:
                return group.getDouble(name, at);
            case INT32:
                return number(type.stringifier().stringify(group.getInteger(name, at)), isText);
            case INT64:
                return number(type.stringifier().stringify(group.getLong(name, at)), isText);
            case INT96:
                NanoTime time = NanoTime.fromBinary(group.getInt96(name, at));
                return LocalDate.ofEpochDay(time.getJulianDay() - 2_440_588L).atTime(LocalTime.ofNanoOfDay(time.getTimeOfDayNanos())).toString();
            default:
                Binary bytes = group.getBinary(name, at);
                return isText ? type.stringifier().stringify(bytes) : b64(bytes.getBytes());
        }
    }

    static Object number(String text, boolean isText) {
        // Times of day have no offset in expected.json.
        return isText ? text.replaceFirst("^(\\d\\d:.*)[+]0000$", "$1") : new BigInteger(text);
    }

    static Map<String, String> b64(byte[] bytes) {
        return Map.of("b64", Base64.getEncoder().encodeToString(bytes));
    }

    static Binary decimal(String unscaled, int size) {
        byte[] digits = new BigInteger(unscaled).toByteArray();
        byte[] padded = new byte[Math.max(size, digits.length)];
        Arrays.fill(padded, 0, padded.length - digits.length, (byte) (digits[0] < 0 ? -1 : 0));
        System.arraycopy(digits, 0, padded, padded.length - digits.length, digits.length);
        return Binary.fromConstantByteArray(padded);
    }

    static NanoTime nanoTime(LocalDateTime time) {
        return new NanoTime((int) (time.toLocalDate().toEpochDay() + 2_440_588), time.toLocalTime().toNanoOfDay());
    }
}
