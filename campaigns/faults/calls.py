"""Every call with a side effect that shim, worker, observer and front door make: where in the code,
and what it does.

A unit test compares the list with the source, and the fault matrix with the calls that the running
programs make: a call that is missing here, or is here but never made, fails one of them. A new call
needs a line here and a scenario (`campaigns/faults/scenarios.py`) that makes it; the matrix then
injects every fault into it.
"""

CALLS = frozenset(
    {
        # The shim
        ("operator_shim.configs:Configs._update", "patch inferenceconfigs/status"),
        ("operator_shim.run_loop:RunLoop._accept", "patch inferenceruns/status"),
        ("operator_shim.run_loop:RunLoop._end", "cancel a workflow"),
        ("operator_shim.run_loop:RunLoop._execute", "cancel a workflow"),
        ("operator_shim.run_loop:RunLoop._execute", "signal look_again"),
        ("operator_shim.run_loop:RunLoop._patch", "patch inferenceruns"),
        ("operator_shim.run_loop:RunLoop._send_edits", "patch inferenceruns/status"),
        ("operator_shim.run_loop:RunLoop._send_edits", "signal spec_changed"),
        ("operator_shim.schedules:Schedules.delete", "delete schedule"),
        ("operator_shim.schedules:Schedules.keep", "patch inferenceruns/status"),
        (
            "operator_shim.temporal_schedules:TemporalSchedules._create.<locals>.create",
            "create schedule",
        ),
        (
            "operator_shim.temporal_schedules:TemporalSchedules._update.<locals>.update",
            "update schedule",
        ),
        ("operator_shim.temporal_schedules:TemporalSchedules.pause", "pause a schedule"),
        ("operator_shim.temporal_schedules:TemporalSchedules.submit", "start a submission"),
        ("operator_shim.stuck_workflows:StuckWorkflows._attend", "patch inferenceruns/status"),
        ("operator_shim.stuck_workflows:StuckWorkflows._replace", "patch inferenceruns/status"),
        ("operator_shim.workflows:RunWorkflows.clean_up", "start InferenceRunCleanup"),
        ("operator_shim.workflows:RunWorkflows.ensure", "start InferenceRun"),
        ("operator_shim.workflows:RunWorkflows.ensure", "start InferenceRun for recovery"),
        ("operator_shim.workflows:RunWorkflows.notify_submitter_of_deletion", "signal look_again"),
        ("operator_shim.workflows:RunWorkflows.terminate", "terminate a workflow"),
        # Activities
        ("activities.inspect_launch:LaunchInspector._start_job", "patch inferenceruns/status"),
        ("activities.submitted_runs:SubmittedRuns._patch", "patch inferenceruns"),
        ("activities.submitted_runs:SubmittedRuns.cancel", "cancel a workflow"),
        ("activities.delete_run:start_cleanup", "start InferenceRunCleanup"),
        ("control.cluster.config_maps:ConfigMaps.write", "create configmaps"),
        ("control.cluster.job_marks:make_room", "delete jobs"),
        ("control.cluster.events:EventRecorder.record_on", "create events"),
        ("activities.delete_run:HistoryPruner._prune_one", "delete inferenceruns"),
        ("control.cluster.job_marks:end_job", "patch jobs"),
        ("control.cluster.job_marks:mark_ended", "patch jobs"),
        ("control.cluster.job_marks:mark_limited", "patch jobs"),
        ("control.cluster.job_marks:start_job", "patch jobs"),
        ("control.cluster.job_marks:watch_again", "patch jobs"),
        ("activities.delete_run:RunDeleter.delete_run", "delete inferenceruns"),
        ("activities.delete_schedule:ScheduleDeleter.delete_schedule", "delete schedule"),
        ("control.cluster.signers:Signatures.replace_job", "create jobs"),
        ("control.cluster.signers:Signatures.replace_job", "delete jobs"),
        ("control.cluster.signers:record_signer", "create leases"),
        ("control.cluster.signers:record_signer", "patch leases"),
        ("activities.launch_job:JobLauncher._create", "create jobs"),
        ("activities.launch_job:JobLauncher._publish_blocker", "patch inferenceruns/status"),
        ("activities.launch_job:JobLauncher._publish_job", "patch inferenceruns/status"),
        ("activities.launch_job:JobLauncher._publish_suspension", "patch inferenceruns/status"),
        ("activities.launch_job:JobLauncher._announce", "delete jobs"),
        ("activities.publish_status:StatusPublisher.publish_status", "delete jobs"),
        ("activities.publish_status:StatusPublisher.publish_status", "patch inferenceruns/status"),
        ("activities.record_outcome:OutcomeRecorder._record", "signal look_again"),
        ("activities.record_outcome:OutcomeRecorder._record", "patch inferenceruns/status"),
        ("control.cluster.job_marks:mark_stopped", "patch jobs"),
        ("activities.stop_launch:LaunchStopper._delete_job", "delete jobs"),
        ("activities.stop_launch:LaunchStopper._delete_pods", "delete pods"),
        ("activities.backfill:Backfiller._publish", "patch inferenceruns/status"),
        ("activities.backfill:Backfiller._start_runs", "create inferenceruns"),
        ("activities.backfill:Backfiller._start_runs", "delete inferenceruns"),
        ("activities.submit_run:RunSubmitter._create", "create inferenceruns"),
        ("activities.submit_run:RunSubmitter._take_back_if_overlapping", "delete inferenceruns"),
        ("activities.verify_output:OutputVerifier._create", "create jobs"),
        ("activities.verify_output:OutputVerifier._verify", "delete jobs"),
        ("activities.verify_output:OutputVerifier._finding", "delete pods"),
        ("activities.verify_output:OutputVerifier._publish", "patch inferenceruns/status"),
        # The observer
        ("operator_shim.observer.cluster_jobs:ClusterJobs.withdraw", "delete jobs"),
        ("operator_shim.observer.run_signals:RunSignals.ended", "signal ended"),
        ("operator_shim.observer.run_signals:RunSignals.started", "signal started"),
        ("operator_shim.observer.status_writer:StatusWriter.write", "patch inferenceruns/status"),
        # Both programs
        ("control.installation:installation_id", "create leases"),
        ("control.leases:LeaderElection._release", "patch leases"),
        ("control.leases:LeaderElection._renew", "create leases"),
        ("control.leases:LeaderElection._renew", "patch leases"),
        ("control.leases:LeaderElection._try_to_acquire", "create leases"),
        ("control.leases:LeaderElection._try_to_acquire", "patch leases"),
        ("inferrun.temporal.connection:register_search_attributes", "add search attributes"),
    }
)
"""Where a call is made (module and function; see `call_sites`), and what it does."""

NOT_PLAYED = frozenset(
    {
        ("control.cluster.signers:Signatures.replace_job", "create jobs"),
        ("control.cluster.signers:Signatures.replace_job", "delete jobs"),
        ("control.cluster.signers:record_signer", "patch leases"),
        ("operator_shim.observer.cluster_jobs:ClusterJobs.withdraw", "delete jobs"),
        ("operator_shim.stuck_workflows:StuckWorkflows._attend", "patch inferenceruns/status"),
        ("operator_shim.stuck_workflows:StuckWorkflows._replace", "patch inferenceruns/status"),
        ("operator_shim.workflows:RunWorkflows.terminate", "terminate a workflow"),
        ("operator_shim.workflows:RunWorkflows.clean_up", "start InferenceRunCleanup"),
        ("activities.inspect_launch:LaunchInspector._start_job", "patch inferenceruns/status"),
        ("activities.publish_status:StatusPublisher.publish_status", "delete jobs"),
        ("activities.submit_run:RunSubmitter._take_back_if_overlapping", "delete inferenceruns"),
        ("activities.verify_output:OutputVerifier._verify", "delete jobs"),
        ("activities.verify_output:OutputVerifier._finding", "delete pods"),
    }
)
"""Calls that no scenario makes. In this order, they are made when: a worker died between creating a
Job and naming it in the status (two calls); a worker starts that is not the first one of its
installation; a launcher died after it had created a Job whose run was cancelled meanwhile; a
workflow's task has failed for four minutes (two calls); a clean-up is two minutes overdue; a Pod
has waited for ten minutes longer than it may run; two runs of a schedule are created at the same
moment; a webhook puts a Job into a queue; a quota has room again; a verifying Job has not ended
within 330 seconds, its run was cancelled meanwhile, or an injected container outlives it (two
calls). Tests of each are in tests/integration.
"""
