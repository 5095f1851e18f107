-- For each table the statements that make it; T is the table.

-- mapping-by-name
create table T (id bigint, x double, s struct<a: int, b: string>, l array<struct<p: int, q: int>>, `a b` map<string, struct<z: int>>, gone int)
  using delta tblproperties ('delta.columnMapping.mode' = 'name');
insert into T values (1, 0.5, struct(1, 'u'), array(struct(1, 2)), map('k', struct(9)), 1);
alter table T rename column x to y;
alter table T rename column s.a to c;
alter table T rename column l.element.p to r;
alter table T rename column `a b` to `c,;{}()= d`;
alter table T drop column gone;
alter table T add columns (gone string, s.e int);
insert into T values (2, 1.5, struct(2, 'v', 3), array(struct(3, 4), null), map('k', null), 'again'),
  (3, null, null, null, null, null);

-- mapping-by-id
create table T (id bigint, a double, b double, p string)
  using delta partitioned by (p) tblproperties ('delta.columnMapping.mode' = 'id');
insert into T values (1, 0.5, 10, 'x y%');
alter table T rename column a to c;
alter table T rename column b to a;
alter table T rename column c to b;
alter table T rename column p to part;
insert into T values (2, 1.5, 20, 'z'), (3, null, null, null);

-- mapping-set-later
create table T (id bigint, x double) using delta;
insert into T values (1, 0.5);
alter table T set tblproperties ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5');
alter table T rename column x to y;
insert into T values (2, 1.5);

-- mapping-removed
create table T (id bigint, x double)
  using delta tblproperties ('delta.columnMapping.mode' = 'name');
insert into T values (1, 0.5);
alter table T rename column x to y;
alter table T set tblproperties ('delta.columnMapping.mode' = 'none');
alter table T drop feature columnMapping;

-- deletion-vectors
create table T (id bigint, p string)
  using delta partitioned by (p) tblproperties ('delta.enableDeletionVectors' = 'true');
insert into T select id, if(id % 2 = 0, 'a/b c%=ü', null) from range(0, 20, 1, 1);
insert into T select id, 'all' from range(20, 22, 1, 1);
delete from T where id in (3, 4, 5, 11);
delete from T where id in (7, 20, 21);

-- deletion-vectors-mapped
create table T (id bigint, x double)
  using delta tblproperties ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name');
insert into T select id, id / 2 from range(0, 20, 1, 1);
alter table T rename column x to y;
update T set y = -1 where id = 3;

-- type-widening
create table T (a tinyint, b int, c float, d int, e date, f decimal(5, 2), g int, h struct<i: smallint>, k array<smallint>)
  using delta tblproperties ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported');
insert into T values (1, 2, 0.1, 3, date'9999-12-31', 1.25, 5, struct(6), array(7));
alter table T change column a type bigint;
alter table T change column b type bigint;
alter table T change column c type double;
alter table T change column d type double;
alter table T change column e type timestamp_ntz;
alter table T change column f type decimal(12, 4);
alter table T change column g type decimal(12, 1);
alter table T change column h.i type int;
alter table T change column k.element type int;
insert into T values (5000000000, 5000000000, 0.1, 3.5, timestamp_ntz'2020-01-01 01:02:03', 123.4567, 5.5, struct(70000), array(70000));

-- type-widening-with-deletion-vectors
create table T (id int)
  using delta tblproperties ('delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true');
insert into T select id from range(0, 5, 1, 1);
alter table T change column id type bigint;
delete from T where id = 3;

-- v2-checkpoint
create table T (id bigint)
  using delta tblproperties ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2');
insert into T values (0);
insert into T values (1);
insert into T values (2);
delete from T where id = 1;

-- timestamp-ntz
create table T (id bigint, at timestamp_ntz) using delta;
insert into T values (1, timestamp_ntz'2020-01-01 01:02:03.123456'),
  (2, timestamp_ntz'9999-12-31 23:59:59.999999'),
  (3, timestamp_ntz'0001-01-01 00:00:00');

-- dates
create table T (id bigint, day date, at timestamp, l array<timestamp>) using delta;
insert into T values (1, date'9999-12-31', timestamp'9999-12-31 23:59:59.999999', null),
  (2, date'0001-01-01', timestamp'0001-01-01 00:00:00', array(timestamp'9999-12-31 23:59:59.999999')),
  (3, date'1582-10-15', timestamp'1582-10-15 04:05:06.123456', array());

-- partitions
create table T (id bigint, s string, d date, i tinyint, t timestamp, n timestamp_ntz, e decimal(5, 2), b boolean, f double, g float)
  using delta partitioned by (s, d, i, t, n, e, b, f, g);
insert into T values (1, 'a/b c%=ü', date'0001-01-01', -5, timestamp'2020-01-01 00:00:00.123456', timestamp_ntz'0001-01-01 00:00:00', 1.10, true, 0.1, float(0.1)),
  (2, null, null, null, null, null, null, null, null, null),
  (3, '', date'9999-12-31', 5, timestamp'9999-12-31 23:59:59.999999', timestamp_ntz'2020-01-01 00:00:00.5', -1, false, double('nan'), float('-inf'));

-- variant
create table T (id bigint, v variant, s struct<v: array<variant>>) using delta;
insert into T values (1, parse_json('{"a": 1}'), null);

-- variant-shredded
create table T (id bigint, v variant)
  using delta tblproperties ('delta.enableVariantShredding' = 'true');
insert into T values (1, parse_json('{"a": 1}'));

-- iceberg-compat-1
create table T (id bigint, x double)
  using delta tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV1' = 'true');
insert into T values (1, 0.5);

-- iceberg-compat-2
create table T (id bigint, x double)
  using delta tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true');
insert into T values (1, 0.5);

-- iceberg-compat-3
create table T (id bigint, x double)
  using delta tblproperties ('delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV3' = 'true');
insert into T values (1, 0.5);

-- vacuum-protocol-check
create table T (id bigint)
  using delta tblproperties ('delta.feature.vacuumProtocolCheck' = 'supported');
insert into T values (1);

-- row-tracking
create table T (id bigint, x double)
  using delta tblproperties ('delta.enableRowTracking' = 'true');
insert into T select id, id / 2 from range(0, 5, 1, 1);
update T set x = 9 where id = 3;

-- in-commit-timestamps
create table T (id bigint) using delta;
insert into T values (1);
alter table T set tblproperties ('delta.enableInCommitTimestamps' = 'true');
insert into T values (2);

-- clustering
create table T (id bigint, x double)
  using delta cluster by (id);
insert into T values (1, 0.5);

-- constraints
create table T (id bigint not null, x double) using delta;
insert into T values (1, 0.5);
alter table T add constraint positive check (id > 0);

-- computed-columns
create table T (id bigint generated always as identity, x double, twice double generated always as (x * 2), word string default 'w')
  using delta tblproperties ('delta.feature.allowColumnDefaults' = 'supported');
insert into T (x) values (0.5);
alter table T add column later int;
alter table T alter column later set default 7;
insert into T (x) values (1.5);

-- change-data-feed
create table T (id bigint, x double) using delta;
insert into T values (1, 0.5), (2, 1);
alter table T set tblproperties ('delta.enableChangeDataFeed' = 'true');
update T set x = 3 where id = 1;

-- upgraded
create table T (id bigint, x double) using delta;
insert into T values (1, 0.5);
alter table T set tblproperties ('delta.feature.timestampNtz' = 'supported');

-- materialized-partitions
create table T (id bigint, p string)
  using delta partitioned by (p) tblproperties ('delta.feature.materializePartitionColumns' = 'supported');
insert into T values (1, 'a');
