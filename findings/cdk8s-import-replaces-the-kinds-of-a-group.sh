#!/usr/bin/env bash
# cdk8s-cli 2.207.60: `cdk8s import` writes one file per API group. A second definition of the same group, imported from a file of its
# own, replaces the classes of the first without a message, with exit code 0; both in one file give both classes.
# Output: one after the other: Second; together: First Second
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts cdk8s-cli@2.207.60
definition() {
  cat <<YAML
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${1,,}s.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: $1, plural: ${1,,}s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}}}}
YAML
}
definition First >first.yaml
definition Second >second.yaml
cat first.yaml second.yaml >both.yaml
import() {
  CI=1 CHECKPOINT_DISABLE=1 npx --no-install cdk8s import "$1" --language typescript --output "$2" >/dev/null 2>&1
}
classes() {
  sed -n 's/^export class \(First\|Second\) .*/\1/p' "$1"/*.ts | sort | xargs
}
echo "cdk8s-cli $(node -p 'require("./node_modules/cdk8s-cli/package.json").version')"
import first.yaml apart
import second.yaml apart
import both.yaml together
echo "one after the other: $(classes apart); together: $(classes together)"
[ "$(classes apart)" = Second ]
[ "$(classes together)" = "First Second" ]
