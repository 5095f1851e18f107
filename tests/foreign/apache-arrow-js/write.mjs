// apache-arrow of npm: what tableFromArrays and vectorFromArray make of values of JavaScript, and of named types.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import * as arrow from 'apache-arrow'

const out = process.argv[2]
mkdirSync(`${out}/files`, { recursive: true })

const guessed = arrow.tableFromArrays({
  id: Int32Array.from([1, 2, 3]),
  big: BigInt64Array.from([1n, -9223372036854775808n, 9223372036854775807n]),
  u64: BigUint64Array.from([0n, 18446744073709551615n, 1n]),
  number: [0.1, 2.5, -1e300],
  text: ['', 'é "q"', 'two\nlines'],
  maybe: ['a', null, 'a'],
  flag: [true, null, false],
  when: [new Date('2024-02-29T12:34:56.789Z'), new Date(-1), null],
  list: [[1, 2], [3], [4, 5]],
  object: [{ a: 1, b: 'x' }, { a: 2, b: 'y' }, { a: 3, b: 'x' }],
})
const named = new arrow.Table({
  day: arrow.vectorFromArray([new Date('2024-02-29'), null], new arrow.DateDay()),
  seconds: arrow.vectorFromArray([new Date('2024-02-29T12:34:56Z'), null], new arrow.TimestampSecond()),
  micros: arrow.vectorFromArray([1709210096123, null], new arrow.TimestampMicrosecond('UTC')),
  large: arrow.vectorFromArray(['é', null], new arrow.LargeUtf8()),
  bytes: arrow.vectorFromArray([new Uint8Array([0, 255]), null], new arrow.Binary()),
  half: arrow.vectorFromArray([0.5, null], new arrow.Float16()),
  u8: arrow.vectorFromArray([255, null], new arrow.Uint8()),
})
const iso = value => new Date(Number(value)).toISOString()
const form = (value, type) => {
  if (value === null || value === undefined) return 'null'
  if (arrow.DataType.isDate(type) ) return JSON.stringify(iso(value).slice(0, type.unit === 0 ? 10 : 24))
  if (arrow.DataType.isTimestamp(type)) return JSON.stringify(iso(value))
  if (arrow.DataType.isDictionary(type)) return form(value, type.dictionary)
  if (value instanceof Uint8Array) return JSON.stringify({ b64: Buffer.from(value).toString('base64') })
  if (typeof value === 'bigint') return value.toString()
  if (arrow.DataType.isList(type)) return `[${[...value].map(one => form(one, type.children[0].type)).join(', ')}]`
  if (arrow.DataType.isStruct(type)) return `{${type.children.map(one => `${JSON.stringify(one.name)}: ${form(value[one.name], one.type)}`).join(', ')}}`
  return JSON.stringify(value)
}

const expected = []
for (const [name, table, kind] of [['guessed.arrow', guessed, 'file'], ['named.arrow', named, 'file'], ['stream.arrow', named, 'stream']]) {
  writeFileSync(`${out}/files/${name}`, arrow.tableToIPC(table, kind))
  const read = arrow.tableFromIPC(readFileSync(`${out}/files/${name}`))
  const rows = read.toArray().map(row => `  {${read.schema.fields.map(one => `${JSON.stringify(one.name)}: ${form(row[one.name], one.type)}`).join(', ')}}`)
  expected.push(` ${JSON.stringify(name)}: [\n${rows.join(',\n')}\n ]`)
}
writeFileSync(`${out}/expected.json`, `{\n${expected.join(',\n')}\n}\n`)
