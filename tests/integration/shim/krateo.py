"""Objects as the earlier Go controller (kserve-controller 0.1) wrote them: same names, fields,
statuses and finalizers."""

import base64
import json
from typing import Any

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, DEPLOYMENTS, JOBS, PODS, RUNS, Object
from inferrun.names import job_base_name
from inferrun.resources import InferenceRun, parse_run
from inferrun_krateo.migrate import CRON_JOBS

AT = "2026-11-20T08:00:00Z"
LATER = "2026-11-20T08:01:30Z"
IMAGE = "ghcr.io/krateoplatformops/kserve-krateo-runner-test:0.1.0"
ENDPOINT = {"name": "finops-database-handler-endpoint", "namespace": "kserve-controller-system"}


class Krateo:
    """The earlier controller at work in one namespace."""

    def __init__(self, api: KubeClient, namespace: str) -> None:
        self._api = api
        self._namespace = namespace

    async def config(self, name: str = "iris") -> None:
        """A config of its test data."""
        api = {
            "endpointRef": ENDPOINT,
            "path": "/compute/sklearn",
            "verb": "POST",
            "headers": ["Accept: application/json"],
        }
        spec = {
            "autoDeletePolicy": "None",
            "image": IMAGE,
            "kserve": {
                "modelName": "sklearn-iris",
                "modelUrl": "iris.test.svc/v2/models/iris/infer",
                "modelVersion": "v2",
            },
            "storage": {"input": {"krateo": {"api": api}}, "output": {"krateo": {"api": api}}},
        }
        await self._create(
            CONFIGS, wellknown.CONFIG_KIND, wellknown.API_VERSION, {"name": name}, spec=spec
        )

    async def run(self, name: str, *, condition: str = "Available", **spec: Any) -> InferenceRun:
        """A run that the controller has seen: finalizer, contract and conditions, but no Job
        yet."""
        metadata = {"name": name, "finalizers": [wellknown.LEGACY_FINALIZER]}
        full = {
            "configRef": {"name": "iris", "namespace": self._namespace},
            "timeoutSeconds": 3600,
            **spec,
        }
        stored = await self._create(
            RUNS, wellknown.RUN_KIND, wellknown.API_VERSION, metadata, spec=full
        )
        contract = json.dumps(
            {"jobId": stored["metadata"]["uid"], "jobName": self._job_name(stored), "kserve": {}}
        )
        data = base64.b64encode(contract.encode()).decode()
        owner = self._owner(stored)
        config_map = {"metadata": {"name": self._job_name(stored), "ownerReferences": [owner]}}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            **config_map,
            "binaryData": {"contract.json": data},
        }
        await self._api.create(CONFIG_MAPS, self._namespace, body)
        conditions = [
            {"type": "Ready", "status": "True", "reason": condition, "lastTransitionTime": AT},
            {
                "type": "Synced",
                "status": "True",
                "reason": "ReconcileSuccess",
                "lastTransitionTime": AT,
            },
        ]
        return await self._write_status(stored, conditions=conditions, contract=data)

    async def job(
        self, run: InferenceRun, *, name: str = "", owner: Object | None = None
    ) -> Object:
        """The run's Job; it is suspended, so that nothing but the test decides what becomes of
        it."""
        stored = await self._api.get(RUNS, self._namespace, run.metadata.name)
        metadata = {
            "name": name or self._job_name(stored),
            "ownerReferences": [owner or self._owner(stored)],
        }
        spec = {**self._job_spec(stored), "suspend": True, "activeDeadlineSeconds": 3600}
        job = await self._create(JOBS, "Job", "batch/v1", metadata, spec=spec)
        reference = {
            "namespace": self._namespace,
            "name": job["metadata"]["name"],
            "uid": job["metadata"]["uid"],
        }
        await self._write_status(stored, jobStatus=reference)
        return job

    async def cron_job(self, run: InferenceRun, *, is_suspended: bool = False) -> Object:
        """The CronJob of a scheduled run."""
        stored = await self._api.get(RUNS, self._namespace, run.metadata.name)
        metadata = {"name": self._job_name(stored), "ownerReferences": [self._owner(stored)]}
        spec = {
            "schedule": run.spec.schedule,
            "suspend": is_suspended,
            "jobTemplate": {"spec": {**self._job_spec(stored), "activeDeadlineSeconds": 3600}},
        }
        return await self._create(CRON_JOBS, "CronJob", "batch/v1", metadata, spec=spec)

    async def job_of(self, cron_job: Object, run: InferenceRun) -> Object:
        """A Job that the CronJob has created."""
        metadata = cron_job["metadata"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        return await self.job(
            run, name=f"{metadata['name']}-29391601", owner={**owner, "controller": True}
        )

    async def ends(
        self, job: Object, *, code: int | None = 0, reason: str = "BackoffLimitExceeded"
    ) -> None:
        """The Job has ended, and so has its Pod with that exit code; None: the Pod is gone."""
        if code is not None:
            await self._pod(job, code=code)
        kinds = ("SuccessCriteriaMet", "Complete") if code == 0 else ("FailureTarget", "Failed")
        why = "CompletionsReached" if code == 0 else reason
        conditions = [
            {
                "type": kind,
                "status": "True",
                "reason": why,
                "message": "as reported",
                "lastTransitionTime": LATER,
            }
            for kind in kinds
        ]
        status: Object = {"conditions": conditions, "startTime": AT, "active": 0, "ready": 0}
        status |= {"completionTime": LATER, "succeeded": 1} if code == 0 else {"failed": 7}
        await self._api.patch(
            JOBS, self._namespace, job["metadata"]["name"], {"status": status}, sub="status"
        )

    async def is_running(self, *, replicas: int = 1) -> None:
        """The controller's Deployment."""
        labels = {"app.kubernetes.io/name": "kserve-controller"}
        container = {
            "name": "kserve-controller",
            "image": "ghcr.io/krateoplatformops/kserve-controller:0.1.3",
        }
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self._create(
            DEPLOYMENTS, "Deployment", "apps/v1", {"name": "kserve-controller"}, spec=spec
        )

    async def stops(self) -> None:
        """The controller is scaled to zero."""
        await self._api.patch(
            DEPLOYMENTS, self._namespace, "kserve-controller", {"spec": {"replicas": 0}}
        )

    async def _pod(self, job: Object, *, code: int) -> None:
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": uid,
            "controller": True,
        }
        metadata: Object = {"name": f"{name}-abcde", "ownerReferences": [owner]}
        spec = {"containers": [{"name": "inference", "image": IMAGE}], "restartPolicy": "Never"}
        await self._create(PODS, "Pod", "v1", metadata, spec=spec)
        ended = {"exitCode": code, "startedAt": AT, "finishedAt": LATER}
        container = {
            "name": "inference",
            "image": IMAGE,
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{**container, "state": {"terminated": ended}}],
        }
        await self._api.patch(
            PODS, self._namespace, metadata["name"], {"status": status}, sub="status"
        )

    async def _write_status(self, stored: Object, **status: Any) -> InferenceRun:
        name = stored["metadata"]["name"]
        return parse_run(
            await self._api.patch(RUNS, self._namespace, name, {"status": status}, sub="status")
        )

    async def _create(
        self, resource: Any, kind: str, version: str, metadata: Object, *, spec: Object
    ) -> Object:
        body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        return await self._api.create(resource, self._namespace, body)

    def _job_spec(self, run: Object) -> Object:
        uid = {"name": "pod_uid", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
        container = {
            "name": "inference",
            "image": IMAGE,
            "imagePullPolicy": "Always",
            "env": [uid],
            "volumeMounts": [{"name": "contract", "mountPath": "/tmp"}],  # noqa: S108 -- the controller's path
        }
        volumes = [{"name": "contract", "configMap": {"name": self._job_name(run)}}]
        pod = {"containers": [container], "volumes": volumes, "restartPolicy": "Never"}
        return {"completions": 1, "template": {"spec": pod}}

    def _job_name(self, run: Object) -> str:
        return job_base_name(run["metadata"]["name"], run["metadata"]["uid"])

    def _owner(self, run: Object) -> Object:
        owner = {"name": run["metadata"]["name"], "uid": run["metadata"]["uid"]}
        version = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND}
        return {**version, **owner, "controller": True, "blockOwnerDeletion": True}
