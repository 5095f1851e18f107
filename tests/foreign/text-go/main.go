// Go's encoding/csv: the same texts as CSV, and what it reads there.
package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
)

func main() {
	out := os.Args[1]
	must(os.MkdirAll(filepath.Join(out, "files"), 0o755))
	content, err := os.ReadFile("../texts.json")
	must(err)
	var texts []string // null is empty
	must(json.Unmarshal(content, &texts))
	var both, one [][]string
	for id, text := range texts {
		both = append(both, []string{strconv.Itoa(id), text})
		one = append(one, []string{text})
	}
	read := map[string][]map[string]string{"go.csv": write(out, "go.csv", []string{"id", "t"}, both)}
	write(out, "go-one-column.csv", []string{"t"}, one) // a record of one empty text is a blank line, which its reader skips
	found, err := json.MarshalIndent(read, "", " ")
	must(err)
	must(os.WriteFile(filepath.Join(out, "expected.json"), append(found, '\n'), 0o644))
}

func write(out, name string, header []string, rows [][]string) []map[string]string {
	var content bytes.Buffer
	writer := csv.NewWriter(&content)
	must(writer.WriteAll(append([][]string{header}, rows...)))
	must(os.WriteFile(filepath.Join(out, "files", name), content.Bytes(), 0o644))
	found, err := csv.NewReader(&content).ReadAll()
	must(err)
	var read []map[string]string
	for _, row := range found[1:] {
		record := map[string]string{}
		for at, cell := range row {
			record[header[at]] = cell
		}
		read = append(read, record)
	}
	return read
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
