// csv-stringify and papaparse: the same texts as CSV, and what csv-parse and papaparse read there.
import fs from "node:fs";
import path from "node:path";
import { parse } from "csv-parse/sync";
import { stringify } from "csv-stringify/sync";
import Papa from "papaparse";

const out = process.argv[2];
fs.mkdirSync(path.join(out, "files"), { recursive: true });
const texts = JSON.parse(fs.readFileSync("../texts.json", "utf8"));
const rows = texts.map((t, id) => ({ id, t }));
const read = {};

function add(name, content, rowsOf) {
  fs.writeFileSync(path.join(out, "files", name), content);
  if (rowsOf) read[name] = rowsOf(content);
}

const byPapa = (content) => Papa.parse(content, { header: true, newline: "\r\n" }).data;
add("csv-stringify.csv", stringify(rows, { header: true }), (content) => parse(content, { columns: true }));
add("csv-stringify-escaped.csv", stringify(rows, { header: true, escape: "\\", quoted_string: true }), (content) =>
  parse(content, { columns: true, escape: "\\" }),
);
add("papaparse.csv", Papa.unparse(rows), byPapa);
add("papaparse-one-column.csv", Papa.unparse(rows.map(({ t }) => ({ t }))), byPapa);
// Backslashes before a quote have none, so that it reads other records than it has written.
add("papaparse-escaped.csv", Papa.unparse(rows, { escapeChar: "\\" }));
fs.writeFileSync(path.join(out, "expected.json"), JSON.stringify(read, null, 1) + "\n");
