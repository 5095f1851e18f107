// Starts runs as docs/how-to/program.md describes it, and prints one line of JSON for each step.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

type interval struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// A plain struct: what is not set is written as null.
type request struct {
	Namespace      string            `json:"namespace"`
	ConfigRef      string            `json:"configRef"`
	Parameters     map[string]string `json:"parameters"`
	Labels         map[string]string `json:"labels"`
	Interval       *interval         `json:"interval"`
	TimeoutSeconds *int              `json:"timeoutSeconds"`
	BackoffLimit   *int              `json:"backoffLimit"`
	PendingTimeout *int              `json:"pendingTimeoutSeconds"`
	ErrorThreshold *string           `json:"errorThreshold"`
	CanaryRecords  *int              `json:"canaryRecords"`
	Shards         *int              `json:"shards"`
	Resources      map[string]any    `json:"resources"`
	DryRun         *bool             `json:"dryRun"`
	RetryOf        *string           `json:"retryOf"`
}

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

var (
	_     log.Logger = quiet{}
	ctx              = context.Background()
	queue            = os.Getenv("TASK_QUEUE")
	front client.Client
)

func start(id, cron string, arguments ...any) client.WorkflowRun {
	options := client.StartWorkflowOptions{ID: queue + "-" + id, TaskQueue: queue, CronSchedule: cron}
	run, err := front.ExecuteWorkflow(ctx, options, "SubmitInferenceRun", arguments...)
	if err != nil {
		panic(err)
	}
	return run
}

func say(step string, value any, err error) {
	if err != nil {
		told := map[string]string{"type": fmt.Sprintf("%T", err), "message": err.Error(), "details": ""}
		var failure *temporal.ApplicationError
		var canceled *temporal.CanceledError
		if errors.As(err, &failure) {
			told["type"], told["message"] = failure.Type(), failure.Message()
			var details map[string]any
			if failure.HasDetails() && failure.Details(&details) == nil {
				told["details"], _ = details["reason"].(string)
			}
		} else if errors.As(err, &canceled) {
			told["type"] = "Cancelled"
		}
		value = told
	}
	line, _ := json.Marshal(map[string]any{"step": step, "said": value})
	fmt.Println(string(line))
}

func phase(step string, run client.WorkflowRun) {
	var result map[string]any
	err := run.Get(ctx, &result)
	say(step, result["phase"], err)
}

func query(step string, run client.WorkflowRun) {
	value, err := front.QueryWorkflow(ctx, run.GetID(), "", "progress")
	var progress map[string]any
	if err == nil {
		err = value.Get(&progress)
	}
	say(step, progress["phase"], err)
}

func update(step string, run client.WorkflowRun, name string, arguments ...any) {
	handle, err := front.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: run.GetID(), UpdateName: name, Args: arguments, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	var edited map[string]any
	if err == nil {
		err = handle.Get(ctx, &edited)
	}
	say(step, edited["namespace"], err)
}

func main() {
	var err error
	if front, err = client.Dial(client.Options{HostPort: os.Getenv("TEMPORAL_ADDRESS"), Logger: quiet{}}); err != nil {
		panic(err)
	}
	fast := request{Namespace: "team", ConfigRef: "fast"}
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	phase("plain", start("plain", "", map[string]string{"namespace": "team", "configRef": "fast"}))
	phase("nulls", start("nulls", "", fast))
	dated := fast
	dated.Interval = &interval{day, day.Add(24 * time.Hour)}
	phase("dates", start("dates", "", dated))
	dated.Interval = &interval{day, day.Add(24*time.Hour + 123*time.Millisecond)}
	phase("fraction", start("fraction", "", dated))
	phase("failed", start("failed", "", request{Namespace: "team", ConfigRef: "bad"}))
	phase("cron", start("cron", "@every 1s", fast))
	phase("two arguments", start("two", "", fast, fast))
	phase("no argument", start("none", ""))
	phase("odd id", start("corp\\anna's \"run\"?", "", fast))

	slow := start("slow", "", request{Namespace: "team", ConfigRef: "slow"})
	query("progress", slow)
	update("suspend", slow, "suspend")
	update("suspend again", slow, "suspend")
	update("resume", slow, "resume", nil)
	update("cancel update", slow, "cancel")
	phase("cancelled", slow)

	other := start("other", "", request{Namespace: "team", ConfigRef: "slow"})
	query("being cancelled", other)
	if err = front.CancelWorkflow(ctx, other.GetID(), ""); err != nil {
		panic(err)
	}
	phase("workflow cancelled", other)
}
