#!/bin/sh
# Starts PostgreSQL. On the first start it creates the database in a temporary directory and then renames the directory, so that an
# interruption leaves no incomplete database.
# HANDLER_PASSWORD: the password of the data handler. The superuser can log in from inside the Pod only.
# LISTEN_ADDRESSES: the addresses to listen on; default: all.
set -eu

if [ ! -d "$PGDATA" ]; then
    new="$PGDATA.new"
    rm -rf "$new"
    initdb --pgdata="$new" --username=postgres --auth-local=peer --auth-host=scram-sha-256 --encoding=UTF8 --locale=C >/dev/null
    echo "host irises data_handler all scram-sha-256" >>"$new/pg_hba.conf"
    pg_ctl --pgdata="$new" --wait --silent -o "-c listen_addresses='' -c unix_socket_directories=$PGHOST" start
    createdb irises
    psql --quiet --set=ON_ERROR_STOP=1 --set=password="$HANDLER_PASSWORD" --file=/opt/irises/schema.sql
    pg_ctl --pgdata="$new" --wait --silent stop
    mv "$new" "$PGDATA"
fi
exec postgres -c listen_addresses="${LISTEN_ADDRESSES:-*}" -c unix_socket_directories="$PGHOST"
