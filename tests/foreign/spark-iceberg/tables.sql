-- For each table the statements that make it; T is the table.

-- imported
create table T (id bigint, t timestamp, x double, p string) using iceberg partitioned by (p);
insert overwrite directory 'FOLDER/imported.iceberg/hive/p=a' using parquet
  select 1L as id, timestamp'9999-12-31 23:59:59.999999' as t, 0.5D as x union all select 2L, timestamp'0001-01-01 00:00:00', null;
call c.system.add_files(table => 'db.`imported.iceberg`', source_table => '`parquet`.`FOLDER/imported.iceberg/hive`');
alter table T rename column x to y;
