#!/usr/bin/env bash
# cdk8s-cli 2.207.60, cdk8s 2.70.106: an object with x-kubernetes-preserve-unknown-fields and properties of its own may have any other
# field, but the classes that `cdk8s import` generates write its own properties only. What else a program in JavaScript sets is left out
# of the manifest without an error.
# Output: given {"a":1,"b":2}, in the manifest {"a":1}
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund --ignore-scripts cdk8s-cli@2.207.60 cdk8s@2.70.106 constructs@10.4.2 typescript@5.9.3
cat >definition.yaml <<'YAML'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: opens.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Open, plural: opens}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}}
YAML
CI=1 npx --no-install cdk8s import definition.yaml --language typescript --output imports >/dev/null 2>&1
cat >program.cjs <<'JAVASCRIPT'
const fs = require("fs"), ts = require("typescript"), { Testing } = require("cdk8s");
const options = { compilerOptions: { module: "commonjs", target: "es2022" } };
fs.writeFileSync("open.cjs", ts.transpileModule(fs.readFileSync("imports/example.org.ts", "utf8"), options).outputText);
const { Open } = require("./open.cjs");
const chart = Testing.chart(), spec = { a: 1, b: 2 };
new Open(chart, "one", { spec });
const written = JSON.stringify(Testing.synth(chart)[0].spec);
const version = (name) => require(`./node_modules/${name}/package.json`).version;
console.log(`cdk8s-cli ${version("cdk8s-cli")}, cdk8s ${version("cdk8s")}`);
console.log(`given ${JSON.stringify(spec)}, in the manifest ${written}`);
process.exit(written === '{"a":1}' ? 0 : 1);
JAVASCRIPT
node program.cjs
