"""Every call with a side effect that shim, worker, observer and front door make: where in the code, and what it does.

A unit test compares the list with the source, and the fault matrix with the calls that the running programs make: a call that
is missing here, or is here but never made, fails one of them. A new call needs a line here and a scenario
(`tests/faults/scenarios.py`) that makes it; the matrix then injects every fault into it.
"""

CALLS = frozenset(
    {
        # The shim
        ("operator_shim.acceptance:Acceptance._accept", "patch inferenceruns/status"),
        ("operator_shim.configs:ConfigStatuses.update", "patch inferenceconfigs/status"),
        ("operator_shim.deletions:Deletions._reconcile", "cancel a workflow"),
        ("operator_shim.deletions:Deletions._reconcile", "delete schedule"),
        ("operator_shim.deletions:Deletions._remove_legacy_finalizer", "patch inferenceruns"),
        ("operator_shim.executions:Executions._cancel", "cancel a workflow"),
        ("operator_shim.executions:Executions._send_recheck", "signal look_again"),
        ("operator_shim.executions:Executions._send_edits", "patch inferenceruns/status"),
        ("operator_shim.executions:Executions._send_edits", "signal spec_changed"),
        ("operator_shim.schedules:Schedules.reconcile", "patch inferenceruns/status"),
        ("operator_shim.schedules:Schedules.reject", "patch inferenceruns/status"),
        ("operator_shim.schedules:Schedules.sweep", "delete schedule"),
        ("operator_shim.sweep:Sweep._cancel_left_over", "cancel a workflow"),
        ("operator_shim.temporal_schedules:TemporalSchedules._create.<locals>.create", "create schedule"),
        ("operator_shim.temporal_schedules:TemporalSchedules._update.<locals>.update", "update schedule"),
        ("operator_shim.temporal_schedules:TemporalSchedules.pause", "pause a schedule"),
        ("operator_shim.stuck_workflows:StuckWorkflows._replace", "patch inferenceruns/status"),
        ("operator_shim.workflows:RunWorkflows.clean_up", "start InferenceRunCleanup"),
        ("operator_shim.workflows:RunWorkflows.ensure", "start InferenceRun"),
        ("operator_shim.workflows:RunWorkflows.ensure", "start InferenceRun for recovery"),
        ("operator_shim.workflows:RunWorkflows.notify_submitter_of_deletion", "signal look_again"),
        ("operator_shim.workflows:RunWorkflows.terminate", "terminate a workflow"),
        # Activities
        ("activities.cancel_run:RunCanceller.cancel", "patch inferenceruns"),
        ("activities.cancel_run:RunCanceller.cancel", "cancel a workflow"),
        ("activities.cluster.cleanup_starter:start_cleanup", "start InferenceRunCleanup"),
        ("activities.cluster.config_maps:ConfigMaps.write", "create configmaps"),
        ("activities.cluster.ended_jobs:make_room", "delete jobs"),
        ("activities.cluster.events:EventRecorder.record_on", "create events"),
        ("activities.cluster.history_pruner:HistoryPruner.prune", "delete inferenceruns"),
        ("activities.cluster.job_marks:end_job", "patch jobs"),
        ("activities.cluster.job_marks:mark_ended", "patch jobs"),
        ("activities.cluster.job_marks:mark_limited", "patch jobs"),
        ("activities.cluster.job_marks:start_job", "patch jobs"),
        ("activities.cluster.job_marks:take_out_of_queue", "delete jobs"),
        ("activities.cluster.job_marks:watch_again", "patch jobs"),
        ("activities.cluster.progress_publisher:ProgressPublisher.publish_running", "patch inferenceruns/status"),
        ("activities.cluster.progress_publisher:ProgressPublisher.publish_waiting", "patch inferenceruns/status"),
        ("activities.delete_run:RunDeleter.delete_run", "delete inferenceruns"),
        ("activities.delete_schedule:ScheduleDeleter.delete_schedule", "delete schedule"),
        ("activities.cluster.signatures:Signatures.replace_job", "create jobs"),
        ("activities.cluster.signatures:Signatures.replace_job", "delete jobs"),
        ("activities.cluster.signatures:record_signer", "create leases"),
        ("activities.cluster.signatures:record_signer", "patch leases"),
        ("activities.launch_job:JobLauncher._create", "create jobs"),
        ("activities.launch_job:JobLauncher._publish_blocker", "patch inferenceruns/status"),
        ("activities.launch_job:JobLauncher._publish_job", "patch inferenceruns/status"),
        ("activities.launch_job:JobLauncher._publish_suspension", "patch inferenceruns/status"),
        ("activities.launch_job:JobLauncher._withdraw", "delete jobs"),
        ("activities.publish_status:StatusPublisher._end_job", "delete jobs"),
        ("activities.publish_status:StatusPublisher.publish_status", "patch inferenceruns/status"),
        ("activities.record_outcome:OutcomeRecorder._notify", "signal look_again"),
        ("activities.record_outcome:OutcomeRecorder.record_outcome", "patch inferenceruns/status"),
        ("activities.stop_job:JobStopper._delete", "delete jobs"),
        ("activities.stop_job:JobStopper._delete", "delete pods"),
        ("activities.cluster.job_marks:mark_stopped", "patch jobs"),
        ("activities.stop_launch:LaunchStopper._delete_job", "delete jobs"),
        ("activities.stop_launch:LaunchStopper._delete_pods", "delete pods"),
        ("activities.submit_run:RunSubmitter._create", "create inferenceruns"),
        ("activities.submit_run:RunSubmitter._withdraw", "delete inferenceruns"),
        ("activities.verify_output:OutputVerifier._create", "create jobs"),
        ("activities.verify_output:OutputVerifier._conclude", "delete jobs"),
        ("activities.verify_output:OutputVerifier._finding", "delete pods"),
        ("activities.verify_output:OutputVerifier._give_up", "delete jobs"),
        ("activities.verify_output:OutputVerifier._publish", "patch inferenceruns/status"),
        ("activities.verify_output:OutputVerifier._withdraw", "delete jobs"),
        # The observer
        ("worker.observer.cluster_jobs:ClusterJobs.withdraw", "delete jobs"),
        ("worker.observer.run_signals:RunSignals._send", "signal ended"),
        ("worker.observer.run_signals:RunSignals._send", "signal started"),
        ("worker.observer.run_signals:RunSignals.look_again", "signal look_again"),
        ("worker.observer.status_writer:StatusWriter.write", "patch inferenceruns/status"),
        # Both programs
        ("inferrun.control.installation:_record", "create leases"),
        ("inferrun.control.territory:Territory._store", "create leases"),
        ("inferrun.control.territory:Territory._store", "patch leases"),
        ("inferrun.kube.leases:LeaderElection._release", "patch leases"),
        ("inferrun.kube.leases:LeaderElection._renew", "create leases"),
        ("inferrun.kube.leases:LeaderElection._renew", "patch leases"),
        ("inferrun.kube.leases:LeaderElection._try_to_acquire", "create leases"),
        ("inferrun.kube.leases:LeaderElection._try_to_acquire", "patch leases"),
        ("inferrun.temporal.connection:register_search_attributes", "add search attributes"),
    }
)
"""Where a call is made (module and function; see `call_sites`), and what it does."""

NOT_PLAYED = frozenset(
    {
        ("activities.cluster.signatures:Signatures.replace_job", "create jobs"),
        ("activities.cluster.signatures:Signatures.replace_job", "delete jobs"),
        ("activities.cluster.signatures:record_signer", "patch leases"),
        ("activities.verify_output:OutputVerifier._give_up", "delete jobs"),
        ("activities.verify_output:OutputVerifier._withdraw", "delete jobs"),
        ("worker.observer.cluster_jobs:ClusterJobs.withdraw", "delete jobs"),
        ("operator_shim.stuck_workflows:StuckWorkflows._replace", "patch inferenceruns/status"),
        ("operator_shim.workflows:RunWorkflows.terminate", "terminate a workflow"),
        ("operator_shim.workflows:RunWorkflows.clean_up", "start InferenceRunCleanup"),
        ("activities.publish_status:StatusPublisher._end_job", "delete jobs"),
        ("activities.submit_run:RunSubmitter._withdraw", "delete inferenceruns"),
        ("activities.cluster.job_marks:take_out_of_queue", "delete jobs"),
        ("worker.observer.run_signals:RunSignals.look_again", "signal look_again"),
        ("activities.verify_output:OutputVerifier._conclude", "delete jobs"),
        ("activities.verify_output:OutputVerifier._finding", "delete pods"),
    }
)
"""Calls that no scenario makes. In this order, they are made when: a worker died between creating a Job and naming it in the
status (two calls); a worker starts that is not the first one of its installation; a verifying Job has not ended within 330
seconds; a verifying Job is created while its run is cancelled; a launcher died after it had created a Job whose run was
cancelled meanwhile; a workflow's task has failed for four minutes (two calls); a clean-up is two minutes overdue; a Pod has
waited for ten minutes longer than it may run; two runs of a schedule are created at the same moment; a webhook puts a Job
into a queue; a quota has room again; an injected container outlives a verification (two calls). Tests of each are in
tests/integration.
"""
