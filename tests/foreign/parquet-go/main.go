// parquet-go: a table of Go's types and of those that its tags name, and what it reads there.
package main

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
)

type place struct {
	Name string   `parquet:"name" json:"name"`
	Lat  *float64 `parquet:"lat" json:"lat"`
}

type row struct {
	ID       int64            `parquet:"id"`
	Text     string           `parquet:"text"`
	Maybe    *string          `parquet:"maybe"`
	Enum     string           `parquet:"enum,enum"`
	Json     string           `parquet:"json,json"`
	Bytes    []byte           `parquet:"bytes"`
	Uuid     [16]byte         `parquet:"uuid,uuid"`
	U8       uint8            `parquet:"u8"`
	U64      uint64           `parquet:"u64"`
	I16      int16            `parquet:"i16"`
	F32      float32          `parquet:"f32"`
	F64      *float64         `parquet:"f64"`
	Flag     bool             `parquet:"flag"`
	Day      int32            `parquet:"day,date"`
	Time     time.Time        `parquet:"time"`
	Ms       int64            `parquet:"ms,timestamp"`
	Us       int64            `parquet:"us,timestamp(microsecond:local)"`
	Clock    int64            `parquet:"clock,time(microsecond)"`
	Cents    int64            `parquet:"cents,decimal(2:18)"`
	Repeated []int32          `parquet:"repeated"`
	List     []string         `parquet:"list,list"`
	Map      map[string]int64 `parquet:"map"`
	Place    place            `parquet:"place"`
	Dict     string           `parquet:"dict,dict,zstd"`
	Delta    int64            `parquet:"delta,delta,snappy"`
	Fixed    [3]byte          `parquet:"fixed"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func bytesOf(value []byte) map[string]string {
	return map[string]string{"b64": base64.StdEncoding.EncodeToString(value)}
}

// Forms of expected.json for what JSON lacks.
func read(one row) map[string]any {
	day := time.Unix(int64(one.Day)*86400, 0).UTC().Format("2006-01-02")
	clock := time.UnixMicro(one.Clock).UTC().Format("15:04:05.000000")
	cents := strconv.FormatInt(one.Cents/100, 10) + "." + strconv.FormatInt(100+abs(one.Cents)%100, 10)[1:]
	repeated, list := one.Repeated, one.List
	if repeated == nil {
		repeated = []int32{}
	}
	if list == nil {
		list = []string{}
	}
	return map[string]any{
		"id": one.ID, "text": one.Text, "maybe": one.Maybe, "enum": one.Enum, "json": one.Json, "bytes": bytesOf(one.Bytes),
		"uuid": bytesOf(one.Uuid[:]), "u8": one.U8, "u64": one.U64, "i16": one.I16, "f32": one.F32, "f64": one.F64, "flag": one.Flag,
		"day": day, "time": one.Time.UTC().Format(time.RFC3339Nano), "ms": time.UnixMilli(one.Ms).UTC().Format(time.RFC3339Nano),
		"us": time.UnixMicro(one.Us).UTC().Format("2006-01-02T15:04:05.000000"), "clock": clock, "cents": cents,
		"repeated": repeated, "list": list, "map": one.Map, "place": one.Place, "dict": one.Dict, "delta": one.Delta,
		"fixed": bytesOf(one.Fixed[:]),
	}
}

// Each codec and encoding of Go's writer, in pages and groups of few rows.
type encoded struct {
	ID      int32   `parquet:"id,delta"`
	Plain   string  `parquet:"plain,uncompressed"`
	Snappy  string  `parquet:"snappy,snappy,delta"`
	Gzip    string  `parquet:"gzip,gzip"`
	Brotli  string  `parquet:"brotli,brotli,dict"`
	Lz4     string  `parquet:"lz4,lz4"`
	Zstd    []byte  `parquet:"zstd,zstd,delta"`
	Split   float64 `parquet:"split,split"`
	Split32 float32 `parquet:"split32,split,zstd"`
	Dict    *int64  `parquet:"dict,dict"`
	Places  []place `parquet:"places,list"`
}

func writeEncoded(path string) []map[string]any {
	file := must(os.Create(path))
	writer := parquet.NewGenericWriter[encoded](file, parquet.PageBufferSize(64), parquet.DataPageVersion(2),
		parquet.BloomFilters(parquet.SplitBlockFilter(10, "snappy")), parquet.DataPageStatistics(true))
	half := 0.5
	for at := range 40 {
		text := strconv.Itoa(at % 7)
		one := encoded{
			ID: int32(at), Plain: text, Snappy: "snappy " + text, Gzip: text, Brotli: text, Lz4: text, Zstd: []byte{byte(at), 255},
			Split: float64(at) / 3, Split32: float32(at) / 3,
		}
		if at%3 > 0 {
			number := int64(at % 5)
			one.Dict = &number
			one.Places = []place{{text, &half}, {"", nil}}[:at%3]
		}
		must(writer.Write([]encoded{one}))
		if at%16 == 15 {
			if err := writer.Flush(); err != nil {
				panic(err)
			}
		}
	}
	if err := writer.Close(); err != nil {
		panic(err)
	}
	found := []map[string]any{}
	for _, one := range must(parquet.ReadFile[encoded](path)) {
		places := one.Places
		if places == nil {
			places = []place{}
		}
		found = append(found, map[string]any{
			"id": one.ID, "plain": one.Plain, "snappy": one.Snappy, "gzip": one.Gzip, "brotli": one.Brotli, "lz4": one.Lz4,
			"zstd": bytesOf(one.Zstd), "split": one.Split, "split32": one.Split32, "dict": one.Dict, "places": places,
		})
	}
	return found
}

func abs(value int64) int64 { return max(value, -value) }

func main() {
	half, text := 0.5, "here"
	instant := time.Date(2024, 2, 29, 12, 34, 56, 123456789, time.FixedZone("", 5*3600+1800))
	rows := []row{
		{
			ID: -1 << 63, Text: "", Maybe: nil, Enum: "LOW", Json: `{"a":1}`, Bytes: []byte{0, 255}, Uuid: [16]byte{0x61, 0xf0, 15: 0xa0},
			U8: 255, U64: 1<<64 - 1, I16: -1 << 15, F32: 0.1, F64: nil, Flag: true, Day: -25567, Time: instant,
			Ms: 4102444799999, Us: -1, Clock: 86399999999, Cents: -12345678901234567, Repeated: []int32{1, 2}, List: []string{"a", ""},
			Map: map[string]int64{"k": 1}, Place: place{"x", &half}, Dict: "a", Delta: 1<<63 - 1, Fixed: [3]byte{1, 2, 3},
		},
		{
			ID: 9007199254740993, Text: "é \"q\"\n", Maybe: &text, Enum: "HIGH", Json: `[]`, Bytes: []byte("ab"),
			Uuid: [16]byte{15: 0xa1}, U64: 1 << 63, F32: 16777216, F64: &half, Time: instant.AddDate(100, 0, 0),
			Map: map[string]int64{}, Dict: "a", Delta: -1 << 63, Cents: 7,
		},
	}
	out := os.Args[1]
	path := filepath.Join(out, "files", "types.parquet")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		panic(err)
	}
	if err := parquet.WriteFile(path, rows); err != nil {
		panic(err)
	}
	found := []map[string]any{}
	for _, one := range must(parquet.ReadFile[row](path)) {
		found = append(found, read(one))
	}
	content := must(json.MarshalIndent(map[string]any{"types.parquet": found, "encoded.parquet": writeEncoded(filepath.Join(out, "files", "encoded.parquet"))}, "", " "))
	if err := os.WriteFile(filepath.Join(out, "expected.json"), append(content, '\n'), 0o644); err != nil {
		panic(err)
	}
}
