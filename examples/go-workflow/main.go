// A workflow in Go that has two inference runs executed one after the other, as child workflows. The second run gets the name of
// the first as its parameter `upstream`, so its config can read the output of the first one.
//
//	go run . -id iris-monday -namespace models classify review
//
// It prints the progress of the runs, and then the results of both. Ctrl-C cancels the workflow, and with it the run that is in
// progress. Address, namespace, API key and TLS of Temporal are read from the environment (TEMPORAL_ADDRESS, …) or from Temporal's
// configuration file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Request is the argument of SubmitInferenceRun: docs/reference/schemas/submission.json.
type Request struct {
	Namespace  string            `json:"namespace"`
	ConfigRef  string            `json:"configRef"`
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Result is what it returns, and what the details of its failure are: docs/reference/schemas/run-result.json.
type Result struct {
	Name    string `json:"name"`
	Phase   string `json:"phase"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Records *struct {
		Total     *int64 `json:"total"`
		Completed int64  `json:"completed"`
		Failed    int64  `json:"failed"`
	} `json:"records"`
	Usage *struct {
		TotalTokens int64 `json:"totalTokens"`
	} `json:"usage"`
	Output *struct {
		Location string `json:"location"`
		Manifest string `json:"manifest"`
		SHA256   string `json:"sha256"`
	} `json:"output"`
}

// Pair is the argument of TwoRuns.
type Pair struct {
	Namespace, First, Second string
	TaskQueue                string // of inferrun
}

func runID(workflowID string, step int) string { return workflowID + "-" + strconv.Itoa(step) }

// TwoRuns executes the first config and then the second one. If a run fails, so does the workflow, with the run's reason as the
// type of the error.
func TwoRuns(ctx workflow.Context, pair Pair) ([]Result, error) {
	var results []Result
	parameters := map[string]string{}
	for step, config := range []string{pair.First, pair.Second} {
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			// The id names the run, so a retry of this workflow under the same id finds the runs that it has made.
			WorkflowID: runID(workflow.GetInfo(ctx).WorkflowExecution.ID, step+1),
			TaskQueue:  pair.TaskQueue,
			// If this workflow is terminated, its run is cancelled. By default it would go on, with nobody waiting for it.
			ParentClosePolicy:   enums.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
			WaitForCancellation: true,
		})
		request := Request{Namespace: pair.Namespace, ConfigRef: config, Parameters: parameters}
		var result Result
		if err := workflow.ExecuteChildWorkflow(child, "SubmitInferenceRun", request).Get(ctx, &result); err != nil {
			var failed *temporal.ApplicationError
			if errors.As(err, &failed) && failed.HasDetails() {
				// Such as to go on if a few records have failed: failed.Type() is the reason, its details are a Result.
				_ = failed.Details(&result)
				return nil, temporal.NewNonRetryableApplicationError(failed.Message(), failed.Type(), err, result)
			}
			return nil, err
		}
		results = append(results, result)
		parameters = map[string]string{"upstream": result.Name}
	}
	return results, nil
}

func main() {
	id := flag.String("id", "", "id of the workflow; the same id stands for the same runs")
	pair := Pair{}
	flag.StringVar(&pair.Namespace, "namespace", "default", "Kubernetes namespace of the configs")
	flag.StringVar(&pair.TaskQueue, "task-queue", "inferrun", "task queue of inferrun")
	flag.Parse()
	if *id == "" || flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . -id ID [-namespace NAMESPACE] FIRST_CONFIG SECOND_CONFIG")
		os.Exit(2)
	}
	pair.First, pair.Second = flag.Arg(0), flag.Arg(1)
	if err := execute(*id, pair); err != nil {
		var failed *temporal.ApplicationError
		if errors.As(err, &failed) {
			fmt.Fprintf(os.Stderr, "failed, reason %s: %s\n", failed.Type(), failed.Message())
		} else {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

func execute(id string, pair Pair) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	options.Logger = log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	service, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	defer service.Close()

	// Workflows of your own have a task queue and a worker of your own.
	own := worker.New(service, id, worker.Options{})
	own.RegisterWorkflow(TwoRuns)
	if err := own.Start(); err != nil {
		return err
	}
	defer own.Stop()
	handle, err := service.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: id}, TwoRuns, pair)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go show(service, id, ended)
	forget := context.AfterFunc(ctx, func() {
		if err := service.CancelWorkflow(context.Background(), id, ""); err == nil {
			fmt.Fprintln(os.Stderr, "requested cancellation")
		}
	})
	defer forget()
	var results []Result
	if err := handle.Get(context.Background(), &results); err != nil {
		return err
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(results)
}

// show prints the answers of the query `progress`: docs/reference/schemas/progress.json.
func show(service client.Client, id string, ended <-chan struct{}) {
	step, printed := 1, ""
	for {
		var progress Result
		answer, err := service.QueryWorkflow(context.Background(), runID(id, step), "", "progress")
		if err == nil && answer.Get(&progress) == nil {
			line := fmt.Sprintf("%s: %s (%s) %s", runID(id, step), progress.Phase, progress.Reason, progress.Message)
			if line != printed {
				fmt.Fprintln(os.Stderr, line)
				printed = line
			}
			if progress.Phase == "Succeeded" && step == 1 {
				step = 2
				continue
			}
		}
		select {
		case <-ended:
			return
		case <-time.After(time.Second):
		}
	}
}
