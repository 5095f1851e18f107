// hyparquet-writer: types that it guesses from values of JavaScript, and those that are named; read by hyparquet.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { parquetReadObjects } from 'hyparquet'
import { parquetWriteBuffer } from 'hyparquet-writer'

const out = process.argv[2]
mkdirSync(`${out}/files`, { recursive: true })

const guessed = [
  { name: 'id', data: [1, 2, 3] },
  { name: 'big', data: [1n, -9223372036854775808n, 9223372036854775807n] },
  { name: 'number', data: [0.1, 2.5, -1e300] },
  { name: 'mixed', data: [1, 2.5, 3] },
  { name: 'text', data: ['', 'é "q"', 'two\nlines'] },
  { name: 'maybe', data: ['a', null, undefined] },
  { name: 'flag', data: [true, null, false] },
  { name: 'when', data: [new Date('2024-02-29T12:34:56.789Z'), new Date(-1), null] },
  { name: 'object', data: [{ a: 1, b: ['x'] }, null, { a: 2 }] },
  { name: 'list', data: [[1, 2], [], null] },
]
const named = [
  { name: 'id', data: [1, 2], type: 'INT32', nullable: false },
  { name: 'f32', data: [0.1, 16777216], type: 'FLOAT' },
  { name: 'f16', data: [0.5, -65504], type: 'FLOAT16' },
  { name: 'bytes', data: [new Uint8Array([0, 255]), new Uint8Array([97])], type: 'BYTE_ARRAY' },
  { name: 'uuid', data: ['61f0c404-5cb3-11e7-907b-a6006ad3dba0', null], type: 'UUID' },
  { name: 'json', data: [{ a: [1] }, null], type: 'JSON' },
  { name: 'delta', data: [1n, -5n], type: 'INT64', encoding: 'DELTA_BINARY_PACKED' },
  { name: 'split', data: [0.1, 1e300], type: 'DOUBLE', encoding: 'BYTE_STREAM_SPLIT' },
]
// Forms of expected.json for what JSON lacks; integers of 64 bits keep their digits.
const form = value => {
  if (value instanceof Date) return JSON.stringify(value.toISOString())
  if (value instanceof Uint8Array) return JSON.stringify({ b64: Buffer.from(value).toString('base64') })
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return `[${value.map(form).join(', ')}]`
  if (value && typeof value === 'object') return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${form(v)}`).join(', ')}}`
  return JSON.stringify(value ?? null)
}

const expected = []
for (const [name, columnData] of Object.entries({ 'guessed.parquet': guessed, 'named.parquet': named })) {
  writeFileSync(`${out}/files/${name}`, Buffer.from(parquetWriteBuffer({ columnData })))
  const bytes = readFileSync(`${out}/files/${name}`)
  const file = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)
  const rows = await parquetReadObjects({ file, utf8: false })
  expected.push(` ${JSON.stringify(name)}: [\n${rows.map(row => `  ${form(row)}`).join(',\n')}\n ]`)
}
writeFileSync(`${out}/expected.json`, `{\n${expected.join(',\n')}\n}\n`)
