#!/usr/bin/env bash
# QuestDB 9.1.0 sends its errors over PostgreSQL's protocol with severity ERROR and SQLSTATE 00000, which is "successful_completion"
# (PostgreSQL, appendix A), whatever is wrong: an unknown column, an unknown table, a syntax error. A client that decides by the class of
# the SQLSTATE whether to try again, or what to say, finds none; psycopg raises the class of no class, DatabaseError.
# Output: unknown column DatabaseError ERROR 00000, unknown table DatabaseError ERROR 00000
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$folder"' EXIT
cd "$folder"
mvn -q dependency:copy -Dartifact=org.questdb:questdb:9.1.0 -DoutputDirectory="$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check 'psycopg[binary]==3.3.4'
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p data/conf
cat >data/conf/server.conf <<CONF
http.enabled=false
http.min.enabled=false
line.tcp.enabled=false
telemetry.enabled=false
pg.net.bind.to=127.0.0.1:$port
CONF
java -cp questdb-9.1.0.jar io.questdb.ServerMain -d data >log 2>&1 &
server=$!
venv/bin/python - "$port" <<'PYTHON'
import sys
import time

import psycopg

address = f"host=127.0.0.1 port={sys.argv[1]} user=admin password=quest dbname=qdb sslmode=disable"
for _ in range(120):
    try:
        connection = psycopg.connect(address, autocommit=True)
        break
    except psycopg.OperationalError:
        time.sleep(0.5)
found = []
for what, query in (("unknown column", "select x from tables()"), ("unknown table", "select * from nosuch")):
    try:
        connection.execute(query)
    except psycopg.Error as error:
        found.append(f"{what} {type(error).__name__} {error.diag.severity} {error.sqlstate}")
print(connection.execute("select version()").fetchone()[0])
print(", ".join(found))
expected = ["unknown column DatabaseError ERROR 00000", "unknown table DatabaseError ERROR 00000"]
sys.exit(found != expected)
PYTHON
