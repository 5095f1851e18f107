// Starts runs as docs/how-to/program.md describes it, and prints one line of JSON for each step.
import { Client, Connection } from "@temporalio/client";

const { TEMPORAL_ADDRESS: address, TASK_QUEUE: taskQueue } = process.env;
const client = new Client({ connection: await Connection.connect({ address }) });
const day = { start: new Date("2026-11-21"), end: new Date("2026-11-22") };
const nulls = Object.fromEntries(
  [
    ...["parameters", "labels", "interval", "timeoutSeconds", "backoffLimit", "pendingTimeoutSeconds", "errorThreshold"],
    ...["canaryRecords", "shards", "resources", "dryRun", "retryOf"],
  ].map((name) => [name, null]),
);

const request = (configRef, more = {}) => ({ namespace: "team", configRef, ...more });

const start = (id, args, more = {}) =>
  client.workflow.start("SubmitInferenceRun", { taskQueue, workflowId: `${taskQueue}-${id}`, args, ...more });

async function step(name, act) {
  let said;
  try {
    said = await act();
  } catch (error) {
    while (error.cause) error = error.cause;
    const details = error.details?.[0]?.reason ?? "";
    said = { type: error.type ?? error.name.replace("CancelledFailure", "Cancelled"), message: error.message, details };
  }
  console.log(JSON.stringify({ step: name, said }));
}

const phaseOf = async (handle) => (await (await handle).result()).phase;

await step("plain", () => phaseOf(start("plain", [request("fast")])));
await step("nulls", () => phaseOf(start("nulls", [request("fast", nulls)])));
await step("dates", () => phaseOf(start("dates", [request("fast", { interval: day })])));
const interval = { ...day, end: new Date("2026-11-22T00:00:00.123Z") };
await step("fraction", () => phaseOf(start("fraction", [request("fast", { interval })])));
await step("failed", () => phaseOf(start("failed", [request("bad")])));
await step("cron", () => phaseOf(start("cron", [request("fast")], { cronSchedule: "@every 1s" })));
await step("two arguments", () => phaseOf(start("two", [request("fast"), request("fast")])));
await step("no argument", () => phaseOf(start("none", [])));
await step("odd id", () => phaseOf(start(`corp\\anna's "run"?`, [request("fast")])));

const slow = await start("slow", [request("slow")]);
await step("progress", async () => (await slow.query("progress")).phase);
await step("suspend", async () => (await slow.executeUpdate("suspend")).namespace);
await step("suspend again", async () => (await slow.executeUpdate("suspend")).namespace);
await step("resume", async () => (await slow.executeUpdate("resume", { args: [null] })).namespace);
await step("cancel update", async () => (await slow.executeUpdate("cancel")).namespace);
await step("cancelled", () => phaseOf(slow));

const other = await start("other", [request("slow")]);
await step("being cancelled", async () => (await other.query("progress")).phase);
await other.cancel();
await step("workflow cancelled", () => phaseOf(other));
process.exit(0);
