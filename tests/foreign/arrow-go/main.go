// arrow-go: types that few other writers have, as an Arrow file and, without those that Parquet lacks, as Parquet.
package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

var dictionary = &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}

var both = []arrow.Field{
	{Name: "id", Type: arrow.PrimitiveTypes.Int64},
	{Name: "u32", Type: arrow.PrimitiveTypes.Uint32, Nullable: true},
	{Name: "u64", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	{Name: "f16", Type: arrow.FixedWidthTypes.Float16, Nullable: true},
	{Name: "f32", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	{Name: "text", Type: arrow.BinaryTypes.LargeString, Nullable: true},
	{Name: "dict", Type: dictionary, Nullable: true},
	{Name: "dec", Type: &arrow.Decimal128Type{Precision: 38, Scale: 10}, Nullable: true},
	{Name: "dec256", Type: &arrow.Decimal256Type{Precision: 76, Scale: 2}, Nullable: true},
	{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
	{Name: "day64", Type: arrow.FixedWidthTypes.Date64, Nullable: true},
	{Name: "time", Type: arrow.FixedWidthTypes.Time32ms, Nullable: true},
	{Name: "clock", Type: arrow.FixedWidthTypes.Time64ns, Nullable: true},
	{Name: "seconds", Type: &arrow.TimestampType{Unit: arrow.Second}, Nullable: true},
	{Name: "nanos", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Asia/Kolkata"}, Nullable: true},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int16), Nullable: true},
	{Name: "fixed", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), Nullable: true},
	{Name: "map", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int64), Nullable: true},
	{Name: "place", Type: arrow.StructOf(arrow.Field{Name: "a", Type: arrow.PrimitiveTypes.Int8, Nullable: true}, arrow.Field{Name: "b", Type: arrow.BinaryTypes.String, Nullable: true}), Nullable: true},
}

var onlyArrow = []arrow.Field{
	{Name: "view", Type: arrow.BinaryTypes.StringView, Nullable: true},
	{Name: "dec32", Type: &arrow.Decimal32Type{Precision: 9, Scale: 2}, Nullable: true},
	{Name: "dec64", Type: &arrow.Decimal64Type{Precision: 18, Scale: 2}, Nullable: true},
	{Name: "views", Type: arrow.ListViewOf(arrow.PrimitiveTypes.Int32), Nullable: true},
	{Name: "ree", Type: arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float64), Nullable: true},
	{Name: "none", Type: arrow.Null, Nullable: true},
}

const common = `"u64": 18446744073709551615, "f16": 0.5, "f32": 0.1, "text": "é", "dict": "a",
 "dec": "1234567890123456789012345678.0123456789", "dec256": "-123456789012345678901234567890123456789012345678.25", "day": "9999-12-31", "day64": "1900-01-01",
 "time": "23:59:59.999", "clock": "23:59:59.999999999", "seconds": "2024-02-29 12:34:56", "nanos": "2024-02-29 07:04:56.123456789Z",
 "list": [1, null], "fixed": [0.5, 1.5], "map": [{"key": "k", "value": 1}], "place": {"a": -128, "b": null}`

// The reading of a record: arrow-go's JSON, with the zone's instants in UTC.
func rows(record arrow.RecordBatch) []map[string]any {
	var found []map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(must(record.MarshalJSON()))))
	decoder.UseNumber()
	check(decoder.Decode(&found))
	return found
}

func main() {
	out := os.Args[1]
	files := filepath.Join(out, "files")
	check(os.MkdirAll(files, 0o755))
	expected := map[string]any{}

	schema := arrow.NewSchema(append(append([]arrow.Field{}, both...), onlyArrow...), nil)
	text := `[{"id": -9223372036854775808, "u32": 4294967295, ` + common + `, "view": "a view longer than twelve bytes", "dec32": "-1234567.89", "dec64": "0.01", "views": [1, 2], "ree": 1.5, "none": null},
		{"id": 1, "ree": 1.5}, {"id": 2, "u32": 0, "views": [], "list": [], "map": [], "ree": null, "dict": "a"}]`
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(text))
	check(err)
	made := must(os.Create(filepath.Join(files, "types.arrow")))
	writer := must(ipc.NewFileWriter(made, ipc.WithSchema(schema)))
	check(writer.Write(record))
	check(writer.Close())
	check(made.Close())
	opened := must(ipc.NewFileReader(must(os.Open(made.Name()))))
	expected["types.arrow"] = rows(must(opened.RecordBatch(0)))

	schema = arrow.NewSchema(both, nil)
	text = `[{"id": 9223372036854775807, "u32": 4294967295, ` + common + `}, {"id": 1}, {"id": 2, "list": [], "map": []}]`
	record, _, err = array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(text))
	check(err)
	made = must(os.Create(filepath.Join(files, "types.parquet")))
	columns := must(pqarrow.NewFileWriter(schema, made, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()))
	check(columns.Write(record))
	check(columns.Close())
	stored := must(file.OpenParquetFile(filepath.Join(files, "types.parquet"), false))
	reader := must(pqarrow.NewFileReader(stored, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator))
	table := must(reader.ReadTable(context.Background()))
	batches := array.NewTableReader(table, -1)
	batches.Next()
	expected["types.parquet"] = rows(batches.RecordBatch())

	content := must(json.MarshalIndent(expected, "", " "))
	check(os.WriteFile(filepath.Join(out, "expected.json"), append(content, '\n'), 0o644))
}
