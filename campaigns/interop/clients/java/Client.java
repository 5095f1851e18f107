// Starts runs as docs/how-to/program.md describes it, and prints one line of JSON for each step.
import com.fasterxml.jackson.databind.ObjectMapper;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.client.WorkflowStub;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.CanceledFailure;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import java.time.Instant;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;

public class Client {
  /** A plain class: Jackson writes what is not set as null. */
  public static class Request {
    public String namespace = "team";
    public String configRef;
    public Map<String, String> parameters;
    public Map<String, String> labels;
    public Interval interval;
    public Integer timeoutSeconds, backoffLimit, pendingTimeoutSeconds, canaryRecords, shards;
    public String errorThreshold, retryOf;
    public Map<String, Object> resources;
    public Boolean dryRun;

    public Request(String configRef) {
      this.configRef = configRef;
    }
  }

  public static class Interval {
    public Date start, end;
    public String timeZone;

    public Interval(String start, String end) {
      this.start = Date.from(Instant.parse(start));
      this.end = Date.from(Instant.parse(end));
    }
  }

  static final String QUEUE = System.getenv("TASK_QUEUE");
  static final WorkflowClient CLIENT = WorkflowClient.newInstance(WorkflowServiceStubs.newServiceStubs(
      WorkflowServiceStubsOptions.newBuilder().setTarget(System.getenv("TEMPORAL_ADDRESS")).build()));

  static WorkflowStub start(String id, String cron, Object... arguments) {
    WorkflowOptions.Builder options = WorkflowOptions.newBuilder().setTaskQueue(QUEUE).setWorkflowId(QUEUE + "-" + id);
    WorkflowStub stub = CLIENT.newUntypedWorkflowStub(
        "SubmitInferenceRun", (cron == null ? options : options.setCronSchedule(cron)).build());
    stub.start(arguments);
    return stub;
  }

  static void step(String name, Callable<Object> act) throws Exception {
    Object said;
    try {
      said = act.call();
    } catch (Exception error) {
      Throwable cause = error;
      while (cause.getCause() != null) cause = cause.getCause();
      Map<String, Object> told = new LinkedHashMap<>();
      told.put("type", cause.getClass().getSimpleName());
      told.put("message", cause.getMessage());
      told.put("details", "");
      if (cause instanceof CanceledFailure) told.put("type", "Cancelled");
      if (cause instanceof ApplicationFailure failure) {
        told.put("type", failure.getType());
        told.put("message", failure.getOriginalMessage());
        Map<?, ?> details = failure.getDetails().getSize() > 0 ? failure.getDetails().get(Map.class) : null;
        told.put("details", details == null ? "" : details.get("reason"));
      }
      said = told;
    }
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("step", name);
    line.put("said", said);
    System.out.println(new ObjectMapper().writeValueAsString(line));
  }

  static Object phase(WorkflowStub stub) {
    return stub.getResult(Map.class).get("phase");
  }

  static Request of(String start, String end) {
    Request request = new Request("fast");
    request.interval = new Interval(start, end);
    return request;
  }

  public static void main(String[] none) throws Exception {
    String day = "2026-11-21T00:00:00Z";
    step("plain", () -> phase(start("plain", null, Map.of("namespace", "team", "configRef", "fast"))));
    step("nulls", () -> phase(start("nulls", null, new Request("fast"))));
    step("dates", () -> phase(start("dates", null, of(day, "2026-11-22T00:00:00Z"))));
    step("fraction", () -> phase(start("fraction", null, of(day, "2026-11-22T00:00:00.123Z"))));
    step("failed", () -> phase(start("failed", null, new Request("bad"))));
    step("cron", () -> phase(start("cron", "@every 1s", new Request("fast"))));
    step("two arguments", () -> phase(start("two", null, new Request("fast"), new Request("fast"))));
    step("no argument", () -> phase(start("none", null)));
    step("odd id", () -> phase(start("corp\\anna's \"run\"?", null, new Request("fast"))));

    WorkflowStub slow = start("slow", null, new Request("slow"));
    step("progress", () -> slow.query("progress", Map.class).get("phase"));
    step("suspend", () -> slow.update("suspend", Map.class).get("namespace"));
    step("suspend again", () -> slow.update("suspend", Map.class).get("namespace"));
    step("resume", () -> slow.update("resume", Map.class, (Object) null).get("namespace"));
    step("cancel update", () -> slow.update("cancel", Map.class).get("namespace"));
    step("cancelled", () -> phase(slow));

    WorkflowStub other = start("other", null, new Request("slow"));
    step("being cancelled", () -> other.query("progress", Map.class).get("phase"));
    other.cancel();
    step("workflow cancelled", () -> phase(other));
    System.exit(0);
  }
}
