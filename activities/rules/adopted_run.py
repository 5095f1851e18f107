"""What a run executes, as far as its Job says: for a Job whose run's ConfigMap is gone or cannot be read. Pure."""

import base64
import binascii

from activities.rules.manifests import CONTAINER
from activities.rules.snapshot import CompiledRun, Snapshot
from inferrun.control.run_defaults import Defaults
from inferrun.kube.objects import Object
from inferrun.names import job_base_name
from inferrun.resources import InferenceRun


def read_from_job(job: Object, run: InferenceRun, *, defaults: Defaults) -> CompiledRun:
    """The contract from the run's status, the image from the Job's template, which is immutable, and the limits from the
    run and the current settings. It is enough to follow the Job; another launch is compiled from the config again.
    """
    image = _image_of(job)
    limits = run.spec
    snapshot = Snapshot(
        image=image,
        is_our_runner=image == defaults.runner_image,
        is_dry_run=bool(limits.dry_run),
        pending_timeout_seconds=limits.pending_timeout_seconds or 0,
        backoff_limit=limits.backoff_limit if limits.backoff_limit is not None else defaults.backoff_limit,
        max_disruptions=defaults.max_disruptions,
        deadline_margin_seconds=defaults.deadline_margin_seconds,
        auto_delete_delay_seconds=defaults.auto_delete_delay_seconds,
        ttl_seconds_after_finished=defaults.job_ttl_seconds,
        krateo_post_limit_bytes=defaults.krateo_post_limit_bytes,
        foreign_log_tail=defaults.foreign_log_tail,
    )
    return CompiledRun(job_base_name(run.metadata.name, run.metadata.uid), _contract_of(run), snapshot)


def _image_of(job: Object) -> str:
    template = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = [one for one in template.get("containers") or [] if one.get("name") == CONTAINER]
    return str(containers[0].get("image", "")) if containers else ""


def _contract_of(run: InferenceRun) -> str:
    """The contract in the status; empty if there is none."""
    try:
        return base64.b64decode(run.status.contract or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
