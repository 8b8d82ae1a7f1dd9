"""Objects in a bucket of S3, or of a service that speaks its protocol. Needs `tracklog[s3]`.

The address and the keys of the service are taken from the environment: AWS_ENDPOINT_URL,
AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the others of the AWS tools.
"""

from typing import TYPE_CHECKING

from tracklog.model.errors import BadPlug, NoSuchObject, StoreBroken

try:
    import obstore
    from obstore import exceptions
    from obstore.store import S3Store
except ImportError as missing:
    raise BadPlug(
        f"object storage needs a package that is not installed: {missing.name}",
        "pip install 'tracklog[s3]'",
    ) from missing

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_ERRORS = (exceptions.BaseError, OSError)


class S3Objects:
    """Objects under a prefix of a bucket."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        bucket, _, prefix = self.url.removeprefix("s3://").partition("/")
        # Only where AWS_ENDPOINT_URL says http, as for a service on the same machine.
        options: ClientConfig = {"allow_http": True}
        self._store = S3Store(bucket, prefix=prefix or None, client_options=options)

    def put(self, name: str, content: bytes) -> None:
        try:
            obstore.put(self._store, name, content)
        except _ERRORS as error:
            raise self._trouble(error) from error

    def create(self, name: str, content: bytes) -> bool:
        try:
            obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except exceptions.AlreadyExistsError:
            return False
        except _ERRORS as error:
            raise self._trouble(error) from error
        return True

    def get(self, name: str) -> bytes:
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            raise NoSuchObject(
                f"there is no {name} in {self.url}", "is the archive complete?"
            ) from None
        except _ERRORS as error:
            raise self._trouble(error) from error

    def has(self, name: str) -> bool:
        try:
            obstore.head(self._store, name)
        except FileNotFoundError:
            return False
        except _ERRORS as error:
            raise self._trouble(error) from error
        return True

    def delete(self, name: str) -> None:
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            pass  # some services say so
        except _ERRORS as error:
            raise self._trouble(error) from error

    def sizes(self, folder: str) -> dict[str, int]:
        try:
            listing = obstore.list_with_delimiter(self._store, folder.rstrip("/") + "/")
        except _ERRORS as error:
            raise self._trouble(error) from error
        return dict(
            sorted(
                (str(each["path"]).rpartition("/")[2], each["size"]) for each in listing["objects"]
            )
        )

    def _trouble(self, error: Exception) -> StoreBroken:
        return StoreBroken(
            f"the archive {self.url} cannot be used: {str(error).splitlines()[0][:300]}",
            "check the bucket, its rights, and the variables AWS_ENDPOINT_URL, AWS_REGION, "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
