"""The credentials with which the objects of each cloud are read."""

import pytest

from inferrun.fields.secrets import SecretRef
from inferrun.results import ResultsUnreachable
from inferrun.results.access import Access
from inferrun.results.bucket import BucketFiles
from inferrun.stores import AzureStorage, GcsStorage, ObjectStorage, S3Storage

SECRET = SecretRef(name="key")
AZURE = AzureStorage(account="records", container="batch", path="out", credentials_ref=SECRET)
GCS = GcsStorage(bucket="records", path="out", credentials_ref=SECRET)
S3 = S3Storage(bucket="records", path="out", credentials_ref=SECRET)
PRINCIPAL = {"tenantId": "t", "clientId": "c", "clientSecret": "s"}


@pytest.mark.parametrize(
    ("storage", "secret", "expected"),
    [
        (S3, {"accessKeyId": "a"}, "has no key secretAccessKey"),
        (GCS, {"key.json": "{}"}, r"has no key credentials\.json"),
        (GCS, {"credentials.json": "{}"}, "with the key file of a Google service account"),
        (AZURE, {}, "accountKey, no key sasToken, and not all of tenantId, clientId, clientSecret"),
        (AZURE, {"tenantId": "t", "clientId": "c"}, "has no key accountKey"),
        (
            AZURE,
            {"accountKey": "%"},
            r"for abfss://batch@records\.dfs\.core\.windows\.net cannot be used",
        ),
    ],
)
def test_a_secret_that_is_incomplete_is_reported(
    storage: ObjectStorage, secret: dict[str, str], expected: str
) -> None:
    with pytest.raises(ResultsUnreachable, match=expected):
        BucketFiles(storage, Access(read_secret=lambda _: secret))


@pytest.mark.parametrize(
    ("storage", "variable"),
    [
        (S3, "AWS_ACCESS_KEY_ID"),
        (GCS, "GOOGLE_APPLICATION_CREDENTIALS"),
        (AZURE, "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_without_access_to_the_secret_a_variable_is_named(
    storage: ObjectStorage, variable: str
) -> None:
    with pytest.raises(ResultsUnreachable, match=f"Secret 'key', or set {variable}"):
        BucketFiles(storage, Access())


@pytest.mark.parametrize(
    "secret", [{"accountKey": "a2V5\n"}, {"sasToken": "?sv=1&sig=2\n"}, PRINCIPAL]
)
def test_azure_has_several_forms_of_credentials(secret: dict[str, str]) -> None:
    BucketFiles(AZURE, Access(read_secret=lambda _: secret))
