// parquetjs: the types that its schema has, among them lists as repeated fields without an annotation.
import { mkdirSync, writeFileSync } from 'node:fs'
import parquet from 'parquetjs'

const out = process.argv[2]
mkdirSync(`${out}/files`, { recursive: true })
const path = `${out}/files/types.parquet`

const schema = new parquet.ParquetSchema({
  id: { type: 'INT64' },
  text: { type: 'UTF8', optional: true, compression: 'SNAPPY' },
  f32: { type: 'FLOAT', optional: true },
  f64: { type: 'DOUBLE', compression: 'GZIP' },
  flag: { type: 'BOOLEAN', optional: true },
  day: { type: 'DATE', optional: true },
  millis: { type: 'TIMESTAMP_MILLIS', optional: true },
  clock: { type: 'TIME_MILLIS', optional: true },
  u8: { type: 'UINT_8', optional: true },
  u32: { type: 'UINT_32', optional: true },
  raw: { type: 'BYTE_ARRAY', optional: true },
  json: { type: 'JSON', optional: true },
  numbers: { type: 'INT32', repeated: true },
  places: { repeated: true, fields: { name: { type: 'UTF8' }, at: { type: 'DOUBLE', optional: true } } },
  place: { optional: true, fields: { name: { type: 'UTF8' } } },
})
const writer = await parquet.ParquetWriter.openFile(schema, path)
await writer.appendRow({
  id: 1, text: 'é "q"\n', f32: 0.5, f64: 0.1, flag: true, day: new Date('2024-02-29'), millis: new Date('2024-02-29T12:34:56.789Z'),
  clock: 86399999, u8: 255, u32: 2147483647, raw: Buffer.from([0, 255]), json: { a: [1] }, numbers: [1, 2],
  places: [{ name: 'a', at: 0.5 }, { name: 'b' }], place: { name: 'c' },
})
await writer.appendRow({ id: 9007199254740991, f64: 1e300 })
await writer.close()

// Its own reader leaves out what is null, and empty lists.
const form = (name, value) => {
  if (value === undefined) return ['numbers', 'places'].includes(name) ? [] : null
  if (name === 'day') return value.toISOString().slice(0, 10)
  if (name === 'clock') return new Date(value).toISOString().slice(11, 23)
  if (name === 'places') return value.map(one => ({ name: one.name, at: one.at ?? null }))
  return Buffer.isBuffer(value) ? { b64: value.toString('base64') } : value
}
const reader = await parquet.ParquetReader.openFile(path)
const cursor = reader.getCursor()
const rows = []
for (let row; (row = await cursor.next());) rows.push(Object.fromEntries(Object.keys(schema.schema).map(name => [name, form(name, row[name])])))
await reader.close()
const text = JSON.stringify({ 'types.parquet': rows }, (_, value) => (typeof value === 'bigint' ? Number(value) : value), 1)
writeFileSync(`${out}/expected.json`, `${text}\n`)
