#!/usr/bin/env bash
# ry 0.0.105: Client(identity=Identity.from_pem(…)) is accepted, and config() returns it, but no client certificate is shown: the same
# files work with the standard library. (At be837d27, client_config.rs reads the option and never hands it to reqwest's builder.)
# Output: http.client 200; ry: the server got no certificate
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ry==0.0.105
cd "$folder"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /O=Authority -keyout ca.key -out ca.pem 2>/dev/null
for name in server client; do
  openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr" 2>/dev/null
  openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out "$name.pem" \
    -extfile <(echo "subjectAltName=IP:127.0.0.1") 2>/dev/null
done
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio
import http.client
import http.server
import ssl
import threading
from pathlib import Path

import ry


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile="ca.pem")
context.load_cert_chain("server.pem", "server.key")
context.verify_mode = ssl.CERT_REQUIRED
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.handle_error = lambda *_: None
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
port = server.server_address[1]

own = ssl.create_default_context(cafile="ca.pem")
own.load_cert_chain("client.pem", "client.key")
connection = http.client.HTTPSConnection("127.0.0.1", port, context=own)
connection.request("GET", "/")
print("http.client", connection.getresponse().status)


async def main():
    identity = ry.Identity.from_pem(Path("client.pem").read_bytes() + Path("client.key").read_bytes())
    authorities = ry.Certificate.from_pem_bundle(Path("ca.pem").read_bytes())
    client = ry.Client(identity=identity, tls_certs_only=authorities)
    assert client.config()["identity"] is not None
    try:
        print("ry", (await client.get(f"https://127.0.0.1:{port}/")).status)
        raise SystemExit("fixed")
    except ry.ReqwestError:
        print("ry: the server got no certificate")


asyncio.run(main())
PYTHON
