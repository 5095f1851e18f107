-- For each table the statements that make it; T is the table.

-- imported
create table T (id bigint, t timestamp, x double, p string) using iceberg partitioned by (p);
insert overwrite directory 'FOLDER/imported.iceberg/hive/p=a' using parquet
  select 1L as id, timestamp'9999-12-31 23:59:59.999999' as t, 0.5D as x union all select 2L, timestamp'0001-01-01 00:00:00', null;
call c.system.add_files(table => 'db.`imported.iceberg`', source_table => '`parquet`.`FOLDER/imported.iceberg/hive`');
alter table T rename column x to y;

-- renamed
create table T (id bigint, a bigint, b bigint, s struct<x: int, y: string>) using iceberg;
insert into T values (1, 10, 100, named_struct('x', 1, 'y', 'one')), (2, null, 200, null);
alter table T rename column a to c;
alter table T rename column b to a;
alter table T rename column c to b;
alter table T rename column s.x to z;
alter table T alter column b after s;

-- added-again
create table T (id bigint, v string, w int, s struct<x: int, y: string>) using iceberg;
insert into T values (1, 'old', 1, named_struct('x', 1, 'y', 'old'));
alter table T drop column v;
alter table T add column v string after id;
alter table T drop column w;
alter table T add column w string;
alter table T drop column s.y;
alter table T add column s.y string;
insert into T (id, v, s, w) values (2, 'new', named_struct('x', 2, 'y', 'new'), 'two');

-- deleted-and-promoted
create table T (id bigint, n int, f float, d decimal(5, 2)) using iceberg tblproperties ('write.delete.mode' = 'merge-on-read');
insert into T values (1, 2147483647, 0.1F, 999.99), (2, -2147483648, 3.4028234E38F, -999.99), (3, null, float('NaN'), null);
delete from T where id = 1;
alter table T alter column n type bigint;
alter table T alter column f type double;
alter table T alter column d type decimal(18, 2);
insert into T values (4, 9223372036854775807, 0.1D, 9999999999999999.99), (5, 5, 5, 5);
delete from T where id = 5;
