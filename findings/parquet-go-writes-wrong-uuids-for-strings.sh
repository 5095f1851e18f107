#!/usr/bin/env bash
# parquet-go 0.32.0 writes another UUID for a Go string in a column of UUIDs.
#
# Its documentation of tags says: `uuid | for string and [16]byte types, use the parquet UUID logical type`. A string field with this tag gets
# the column FIXED_LEN_BYTE_ARRAY(16) UUID, but the 16 bytes are those of the string's header in memory: 8 bytes of the pointer and the
# length 36 (0x24), in little endian. Writing and reading raise no error; parquet-go, too, reads the wrong UUIDs back. [16]byte is right.
#
# Seen: text in  61f0c404-5cb3-11e7-907b-a6006ad3dba0
#       text out 050ca700-0000-0000-2400-000000000000 (the first 8 bytes differ with the program)
#       bytes out 61f0c404-5cb3-11e7-907b-a6006ad3dba0
# Exits with 0 if this is still so.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
cat > go.mod <<'MOD'
module finding

go 1.25

require github.com/parquet-go/parquet-go v0.32.0
MOD
cat > main.go <<'GO'
package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/parquet-go/parquet-go"
)

type row struct {
	Text  string   `parquet:"text,uuid"`
	Bytes [16]byte `parquet:"bytes,uuid"`
}

func main() {
	given := row{Text: "61f0c404-5cb3-11e7-907b-a6006ad3dba0"}
	hex.Decode(given.Bytes[:], []byte("61f0c4045cb311e7907ba6006ad3dba0"))
	var file bytes.Buffer
	writer := parquet.NewGenericWriter[row](&file)
	if _, err := writer.Write([]row{given}); err != nil {
		panic(err)
	}
	if err := writer.Close(); err != nil {
		panic(err)
	}
	found, err := parquet.Read[row](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		panic(err)
	}
	fmt.Println("schema:", parquet.SchemaOf(row{}))
	fmt.Println("text in  ", given.Text)
	fmt.Println("text out ", found[0].Text)
	fmt.Println("bytes out", hex.EncodeToString(found[0].Bytes[:]))
	if found[0].Bytes != given.Bytes || len(found[0].Text) != 36 || found[0].Text[19:] != "2400-000000000000" {
		os.Exit(1)
	}
}
GO
go mod tidy 2>/dev/null
grep 'parquet-go/parquet-go ' go.mod
go run .
