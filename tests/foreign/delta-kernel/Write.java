import com.fasterxml.jackson.databind.ObjectMapper;
import io.delta.kernel.Operation;
import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.TableManager;
import io.delta.kernel.Transaction;
import io.delta.kernel.data.ArrayValue;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.MapValue;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.defaults.internal.data.DefaultColumnarBatch;
import io.delta.kernel.defaults.internal.data.vector.DefaultGenericVector;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.engine.FileReadResult;
import io.delta.kernel.expressions.Column;
import io.delta.kernel.expressions.Literal;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.transaction.DataLayoutSpec;
import io.delta.kernel.types.*;
import io.delta.kernel.utils.CloseableIterable;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.kernel.utils.FileStatus;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;

/** Delta Kernel, the library that Flink's and other connectors use: types at their ends, partitions, and a table of Spark's. */
public class Write {
    private static final Engine ENGINE = DefaultEngine.create(new Configuration());
    private static final long FIRST_MOMENT = -62135596800000000L;
    private static final long LAST_MOMENT = 253402300799999999L;
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS");

    public static void main(String[] arguments) throws Exception {
        Path out = Path.of(arguments[0]).toAbsolutePath();
        Path files = Files.createDirectories(out.resolve("files"));
        types(files.resolve("types.delta"));
        partitioned(files.resolve("partitioned.delta"));
        copy(Path.of("../spark-delta/files/mapping-by-name.delta"), files.resolve("mapping-by-name.delta"));
        Map<String, Object> expected = new LinkedHashMap<>();
        for (String name : List.of("types.delta", "partitioned.delta", "mapping-by-name.delta")) {
            expected.put(name, read(files.resolve(name)));
        }
        try (Stream<Path> made = Files.walk(files)) { // checksums of Hadoop, which readers do not need
            for (Path one : made.filter(path -> path.getFileName().toString().endsWith(".crc")).toList()) {
                Files.delete(one);
            }
        }
        String text = new ObjectMapper().writerWithDefaultPrettyPrinter().writeValueAsString(expected);
        Files.writeString(out.resolve("expected.json"), text + "\n");
    }

    private static void types(Path place) throws Exception {
        StructType schema = new StructType()
            .add("id", LongType.LONG)
            .add("tiny", ByteType.BYTE)
            .add("short", ShortType.SHORT)
            .add("int", IntegerType.INTEGER)
            .add("long", LongType.LONG)
            .add("float", FloatType.FLOAT)
            .add("double", DoubleType.DOUBLE)
            .add("text", StringType.STRING)
            .add("bytes", BinaryType.BINARY)
            .add("yes", BooleanType.BOOLEAN)
            .add("day", DateType.DATE)
            .add("moment", TimestampType.TIMESTAMP)
            .add("local", TimestampNTZType.TIMESTAMP_NTZ)
            .add("price", new DecimalType(5, 2))
            .add("middle", new DecimalType(18, 0))
            .add("wide", new DecimalType(38, 18));
        Object[][] rows = {
            {1L, (byte) -128, Short.MIN_VALUE, Integer.MIN_VALUE, Long.MIN_VALUE, Float.NaN, Double.NEGATIVE_INFINITY, "",
                new byte[0], false, -719162, FIRST_MOMENT, FIRST_MOMENT, new BigDecimal("-999.99"),
                new BigDecimal("-999999999999999999"), new BigDecimal("-99999999999999999999.999999999999999999")},
            {2L, (byte) 127, Short.MAX_VALUE, Integer.MAX_VALUE, Long.MAX_VALUE, Float.MIN_VALUE, Double.MAX_VALUE, "\0 é \uD83D\uDE00",
                new byte[] {0, -1}, true, 2932896, LAST_MOMENT, LAST_MOMENT, new BigDecimal("0.01"),
                new BigDecimal("1"), new BigDecimal("0.000000000000000001")},
            {3L, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null},
        };
        Transaction transaction = TableManager.buildCreateTableTransaction(place.toString(), schema, "inferrun")
            .build(ENGINE);
        append(transaction, schema, rows, Map.of());
    }

    private static void partitioned(Path place) throws Exception {
        StructType schema = new StructType()
            .add("id", LongType.LONG).add("x", DoubleType.DOUBLE).add("p", StringType.STRING);
        Transaction created = TableManager.buildCreateTableTransaction(place.toString(), schema, "inferrun")
            .withDataLayoutSpec(DataLayoutSpec.partitioned(List.of(new Column("p"))))
            .build(ENGINE);
        Object[][] first = {{1L, 0.1, "x y%"}, {2L, null, "x y%"}};
        append(created, schema, first, Map.of("p", Literal.ofString("x y%")));
        Transaction second = TableManager.loadSnapshot(place.toString()).build(ENGINE)
            .buildUpdateTableTransaction("inferrun", Operation.WRITE).build(ENGINE);
        Object[][] others = {{3L, -0.0, null}};
        append(second, schema, others, Map.of("p", Literal.ofNull(StringType.STRING)));
    }

    private static void append(
            Transaction transaction, StructType schema, Object[][] rows, Map<String, Literal> partition) throws Exception {
        ColumnVector[] columns = new ColumnVector[schema.length()];
        for (int column = 0; column < columns.length; column++) {
            Object[] values = new Object[rows.length];
            for (int row = 0; row < rows.length; row++) {
                values[row] = rows[row][column];
            }
            columns[column] = DefaultGenericVector.fromArray(schema.at(column).getDataType(), values);
        }
        ColumnarBatch batch = new DefaultColumnarBatch(rows.length, schema, columns);
        Row state = transaction.getTransactionState(ENGINE);
        var logical = closeable(List.of(new FilteredColumnarBatch(batch, Optional.empty())).iterator());
        var physical = Transaction.transformLogicalData(ENGINE, state, logical, partition);
        var context = Transaction.getWriteContext(ENGINE, state, partition);
        var written = ENGINE.getParquetHandler()
            .writeParquetFiles(context.getTargetDirectory(), physical, context.getStatisticsColumns());
        var actions = Transaction.generateAppendActions(ENGINE, state, written, context);
        transaction.commit(ENGINE, CloseableIterable.inMemoryIterable(actions));
    }

    private static List<Map<String, Object>> read(Path place) throws Exception {
        List<Map<String, Object>> rows = new ArrayList<>();
        Snapshot snapshot = TableManager.loadSnapshot(place.toString()).build(ENGINE);
        Scan scan = snapshot.getScanBuilder().build();
        Row state = scan.getScanState(ENGINE);
        StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
        try (var batches = scan.getScanFiles(ENGINE)) {
            while (batches.hasNext()) {
                try (var files = batches.next().getRows()) {
                    while (files.hasNext()) {
                        Row file = files.next();
                        FileStatus status = InternalScanFileUtils.getAddFileStatus(file);
                        var data = ENGINE.getParquetHandler()
                            .readParquetFiles(closeable(List.of(status).iterator()), physical, Optional.empty())
                            .map(FileReadResult::getData);
                        try (var found = Scan.transformPhysicalData(ENGINE, state, file, data)) {
                            while (found.hasNext()) {
                                add(found.next(), rows);
                            }
                        }
                    }
                }
            }
        }
        rows.sort((one, other) -> Long.compare((Long) one.get("id"), (Long) other.get("id")));
        return rows;
    }

    private static void add(FilteredColumnarBatch batch, List<Map<String, Object>> rows) {
        StructType schema = batch.getData().getSchema();
        for (int row = 0; row < batch.getData().getSize(); row++) {
            if (batch.getSelectionVector().isPresent() && !batch.getSelectionVector().get().getBoolean(row)) {
                continue;
            }
            Map<String, Object> found = new LinkedHashMap<>();
            for (int column = 0; column < schema.length(); column++) {
                found.put(schema.at(column).getName(), shown(batch.getData().getColumnVector(column), row, schema.at(column).getDataType()));
            }
            rows.add(found);
        }
    }

    /** The forms of expected.json. The type is of the batch: that of a vector has the physical names of members. */
    private static Object shown(ColumnVector values, int row, DataType type) {
        if (values.isNullAt(row)) {
            return null;
        } else if (type instanceof BooleanType) {
            return values.getBoolean(row);
        } else if (type instanceof ByteType) {
            return values.getByte(row);
        } else if (type instanceof ShortType) {
            return values.getShort(row);
        } else if (type instanceof IntegerType) {
            return values.getInt(row);
        } else if (type instanceof LongType) {
            return values.getLong(row);
        } else if (type instanceof FloatType) {
            return Float.isFinite(values.getFloat(row)) ? values.getFloat(row) : Float.toString(values.getFloat(row));
        } else if (type instanceof DoubleType) {
            return Double.isFinite(values.getDouble(row)) ? values.getDouble(row) : Double.toString(values.getDouble(row));
        } else if (type instanceof StringType) {
            return values.getString(row);
        } else if (type instanceof BinaryType) {
            return Map.of("b64", Base64.getEncoder().encodeToString(values.getBinary(row)));
        } else if (type instanceof DecimalType) {
            return values.getDecimal(row).toPlainString();
        } else if (type instanceof DateType) {
            return LocalDate.ofEpochDay(values.getInt(row)).toString();
        } else if (type instanceof TimestampType || type instanceof TimestampNTZType) {
            long micros = values.getLong(row);
            int nanos = (int) Math.floorMod(micros, 1_000_000L) * 1000;
            return LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), nanos, ZoneOffset.UTC).format(TIME);
        } else if (type instanceof StructType struct) {
            Map<String, Object> members = new LinkedHashMap<>();
            for (int member = 0; member < struct.length(); member++) {
                members.put(struct.at(member).getName(), shown(values.getChild(member), row, struct.at(member).getDataType()));
            }
            return members;
        } else if (type instanceof ArrayType list) {
            ArrayValue array = values.getArray(row);
            List<Object> items = new ArrayList<>();
            for (int item = 0; item < array.getSize(); item++) {
                items.add(shown(array.getElements(), item, list.getElementType()));
            }
            return items;
        } else if (type instanceof MapType pairing) {
            MapValue map = values.getMap(row);
            List<Object> pairs = new ArrayList<>();
            for (int pair = 0; pair < map.getSize(); pair++) {
                List<Object> both = new ArrayList<>();
                both.add(shown(map.getKeys(), pair, pairing.getKeyType()));
                both.add(shown(map.getValues(), pair, pairing.getValueType()));
                pairs.add(both);
            }
            return pairs;
        }
        throw new IllegalArgumentException(type.toString());
    }

    private static <T> CloseableIterator<T> closeable(Iterator<T> given) {
        return new CloseableIterator<>() {
            @Override
            public boolean hasNext() {
                return given.hasNext();
            }

            @Override
            public T next() {
                return given.next();
            }

            @Override
            public void close() {}
        };
    }

    private static void copy(Path from, Path to) throws Exception {
        try (Stream<Path> paths = Files.walk(from)) {
            for (Path one : paths.toList()) {
                Files.copy(one, to.resolve(from.relativize(one).toString()));
            }
        }
    }
}
