#!/usr/bin/env bash
# Checks the rules for Prometheus and the dashboard for Grafana: promtool runs the unit tests of the rules, and a real Prometheus (Debian) reads a
# server, two clusters and the machine (node_exporter, Debian), and answers each expression (scripts/monitoring/check.py).
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=scripts/requirements/check-monitoring.txt
checksum=$(sha256sum <"$requirements")
esker=$(realpath "${ESKER_BIN:-${CARGO_TARGET_DIR:-target}/debug/esker}")
folder=$(realpath -m "${ESKER_MONITORING_DIR:-target/monitoring}")
ESKER_ETCD=${ESKER_ETCD:-$(realpath -m "${ESKER_FTP_SERVERS_DIR:-target/ftp-servers}")/etcd-server/usr/bin/etcd}
export ESKER_ETCD
[ -x "$ESKER_ETCD" ] || { echo "monitoring: $ESKER_ETCD does not exist: run \`make origin-servers\`" >&2; exit 1; }
for package in prometheus prometheus-node-exporter; do
    scripts/fetch-debian.sh "$folder" "$package" "$package"
done
bin=$folder/prometheus/usr/bin
if [ "$(cat "$folder/venv/complete" 2>/dev/null)" != "$checksum" ]; then
    rm -rf "$folder/venv"
    python3 -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    echo "$checksum" >"$folder/venv/complete"
fi

"$folder/venv/bin/python" scripts/monitoring/dashboard.py | diff -u packaging/grafana/esker.json - ||
    { echo "monitoring: packaging/grafana/esker.json is older than scripts/monitoring/dashboard.py: write it again" >&2; exit 1; }
(cd packaging/prometheus && "$bin/promtool" test rules esker.rules.test.yml)

scratch=$(mktemp -d)
processes=()
stop() {
    for process in "${processes[@]}"; do
        kill "$process" 2>/dev/null || true
        wait "$process" || true
    done
    rm -rf "$scratch"
}
trap stop EXIT
address_of() {
    until [ -s "$1" ]; do
        kill -0 "${processes[-1]}" || { cat "$scratch"/*.log >&2; return 1; }
        sleep 0.1
    done
    cat "$1"
}
# These ports are free now. The system gives none of them to programs that let it choose, and to clients, because they are below its range.
free_ports() {
    python3 -c 'import random, socket, sys
sockets = []
while len(sockets) < int(sys.argv[1]):
    try:
        sockets.append(socket.create_server(("127.0.0.1", random.randrange(10_000, 30_000))))
    except OSError:
        pass
print(*(s.getsockname()[1] for s in sockets))' "$1"
}
read -r prometheus node store_0 store_1 window_0 window_1 < <(free_ports 6)

# A server as in packaging/prometheus/prometheus.yml: TLS, and a token for everybody who comes over the network.
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/key.pem" -out "$scratch/esker-ca.pem" -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>"$scratch/openssl.log"
printf '[tls]\ncertificate = "%s/esker-ca.pem"\nkey = "%s/key.pem"\n[access]\nloopback = "socket"\n' "$scratch" "$scratch" >"$scratch/lab.toml"
"$esker" init "$scratch/lab.esker" --quiet
token=$("$esker" grant "$scratch/lab.esker" --token --role read --for 8h)
echo "$token" >"$scratch/esker.token"
echo "$token" >"$scratch/esker-cluster.token"
"$esker" serve "$scratch/lab.esker" --config "$scratch/lab.toml" --listen 127.0.0.1:0 --port-file "$scratch/port" 2>"$scratch/serve.log" &
processes+=($!)
server=$(address_of "$scratch/port")
server=localhost:${server##*:}
# Two clusters, because servers that move between members keep no checkpoints.
printf 'servers = ["127.0.0.1:%s", "127.0.0.1:%s"]\nstores = 2\n' "$store_0" "$store_1" >"$scratch/stores.toml"
printf 'servers = ["127.0.0.1:%s", "127.0.0.1:%s"]\ndurability = "window"\n[checkpoint]\nlive = "%s/live"\n' "$window_0" "$window_1" "$scratch" >"$scratch/window.toml"
mkdir "$scratch/live"
for cluster in stores window; do
    "$esker" cluster up "$scratch/$cluster.toml" >"$scratch/$cluster.log" 2>&1 &
    processes+=($!)
done
for cluster in stores window; do
    until grep -q '^ready' "$scratch/$cluster.log"; do
        for process in "${processes[@]}"; do kill -0 "$process" || { cat "$scratch/$cluster.log" >&2; exit 1; }; done
        sleep 0.1
    done
done

# A token that is sent decides, also for a process of the owner: the same one is valid at all servers.
for cluster in stores window; do
    cp --preserve=mode "$scratch/lab.esker/access_tokens" "$scratch/$cluster.cluster/"
done

# Traffic of all kinds. The last two requests are refused.
for target in "$scratch/lab.esker" "esker://127.0.0.1:$store_0" "esker://127.0.0.1:$window_0"; do
    "$esker" link "$target" job:1 write file:/a --create --quiet
    "$esker" lineage "$target" file:/a >/dev/null
done
"$esker" mkdir "$scratch/lab.esker" /project
"$esker" stat "$scratch/lab.esker" /project >/dev/null
curl -sS --fail --cacert "$scratch/esker-ca.pem" -H "Authorization: Bearer $token" "https://$server/api/v1/stats" >/dev/null
for header in 'Accept: */*' 'Authorization: Bearer esker_unknown'; do
    [ "$(curl -sS --cacert "$scratch/esker-ca.pem" -H "$header" -o "$scratch/refused" -w '%{http_code}' "https://$server/metrics")" = 401 ] ||
        { echo "monitoring: /metrics has answered without a token" >&2; cat "$scratch/refused" >&2; exit 1; }
done
curl -sS --fail --cacert "$scratch/esker-ca.pem" -H "Authorization: Bearer $token" "https://$server/metrics" >"$scratch/metrics"
curl -sS --fail "http://127.0.0.1:$window_0/metrics" >>"$scratch/metrics"

cp packaging/prometheus/*.yml "$scratch"
sed -i -e "s/esker.example.org:7400/$server/" -e "s/esker.example.org:9100/127.0.0.1:$node/" -e 's/_interval: 15s/_interval: 1s/' \
    -e "s/10.0.0.1:7400/127.0.0.1:$store_0/; s/10.0.0.2:7400/127.0.0.1:$store_1/" "$scratch/prometheus.yml"
cat >>"$scratch/prometheus.yml" <<END
  - job_name: window
    static_configs:
      - targets: ["127.0.0.1:$window_0", "127.0.0.1:$window_1"]
END
"$bin/promtool" check config "$scratch/prometheus.yml"
"$folder/prometheus-node-exporter/usr/bin/prometheus-node-exporter" --web.listen-address="127.0.0.1:$node" 2>"$scratch/node.log" &
processes+=($!)
"$bin/prometheus" --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" --web.listen-address="127.0.0.1:$prometheus" \
    --log.level=warn 2>"$scratch/prometheus.log" &
processes+=($!)
until curl -sf "http://127.0.0.1:$prometheus/-/ready" >/dev/null; do
    kill -0 "${processes[-1]}" || { cat "$scratch/prometheus.log" >&2; exit 1; }
    sleep 0.1
done
timeout 600 python3 scripts/monitoring/check.py "http://127.0.0.1:$prometheus" "$scratch/metrics" "${processes[@]:0:3}"
echo "monitoring: all checks passed"
