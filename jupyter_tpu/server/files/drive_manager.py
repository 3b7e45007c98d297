"""A node's files as a contents manager. The root of the drive is the user's home folder on the node.

Files are written beside their target and renamed, so a kernel never reads half a file. Links are followed: SFTP runs as
the user, who may read the same files in a terminal. A node has no trash, so only empty folders can be deleted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import hashlib
import mimetypes
import posixpath
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from jupyter_server.services.contents.filecheckpoints import AsyncGenericFileCheckpoints
from jupyter_server.services.contents.manager import AsyncContentsManager
from tornado.web import HTTPError
from traitlets import default

from jupyter_tpu.errors import TpuError
from jupyter_tpu.transfer.copying import file_behind
from jupyter_tpu.transfer.files import PIECE_BYTES, FileInfo, Files, joined
from jupyter_tpu.transfer.problems import file_failed

MOST_ENTRIES = 5000
"""Maximum number of files in the list of a folder: each hundred takes a round trip."""

MOST_BYTES = 50 << 20
"""Maximum size of a file that is opened in an editor; a larger one would use several times its size of memory."""

_STATUSES = {
    errno.ENOENT: 404,
    errno.ENOTDIR: 404,
    errno.EISDIR: 400,
    errno.EEXIST: 409,
    errno.ENOTEMPTY: 400,
    errno.EACCES: 403,
    errno.EPERM: 403,
    errno.EROFS: 403,
    errno.ENOSPC: 507,
    errno.EDQUOT: 507,
    errno.ENAMETOOLONG: 400,
    errno.EINVAL: 400,
}
_NEW_FILE_MODE = 0o644
_LINKS_AT_ONCE = 16


class NodeContentsManager(AsyncContentsManager):
    """The files of a node.

    Args:
        files: the node's files.
        checkpoints_folder: where checkpoints are stored on this machine.
        settings: traits of the server's own contents manager, such as `allow_hidden`.
    """

    def __init__(self, files: Files, checkpoints_folder: Path, **settings: Any) -> None:
        self._files = files
        self._checkpoints_folder = checkpoints_folder
        super().__init__(**settings)

    @default("checkpoints")
    def _node_checkpoints(self) -> AsyncGenericFileCheckpoints:
        self._checkpoints_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return AsyncGenericFileCheckpoints(
            parent=self, log=self.log, root_dir=str(self._checkpoints_folder), checkpoint_dir="checkpoints"
        )

    def emit(self, data: Any) -> None:
        """Do nothing: listeners would take the path for one of this machine."""

    # -- what exists

    async def is_hidden(self, path: str) -> bool:
        """Return whether a part of the path starts with a dot."""
        return any(part.startswith(".") for part in path.split("/"))

    async def dir_exists(self, path: str) -> bool:
        """Return whether there is such a folder."""
        return await self._kind(path) == "folder"

    async def file_exists(self, path: str = "") -> bool:
        """Return whether there is such a file."""
        return await self._kind(path) == "file"

    async def exists(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        return await self._kind(path) is not None

    async def _kind(self, path: str) -> str | None:
        with http_errors():
            info = await self._files.info(path_on_node(path))
        return info.kind if info else None

    # -- reading

    async def get(
        self,
        path: str,
        content: bool = True,
        type: str | None = None,
        format: str | None = None,
        require_hash: bool = False,
    ) -> dict[str, Any]:
        """Return the model of a file, notebook or folder; see `AsyncContentsManager.get`."""
        path = path.strip("/")
        with http_errors():
            info = await self._files.info(path_on_node(path))
            if info is None or info.kind == "other" or (not self.allow_hidden and await self.is_hidden(path)):
                raise HTTPError(404, f"No such file or folder: {path}")
            if type is not None and (info.kind == "folder") != (type == "directory"):
                raise HTTPError(400, f"{path} is not a {type}", reason="bad type")
            if info.kind == "folder":
                return await self._folder_model(path, info, content=content)
            is_notebook = type == "notebook" or (type is None and path.endswith(".ipynb"))
            model = _model(path, info, "notebook" if is_notebook else "file")
            data = await self._read(path, info) if content or require_hash else b""
        if require_hash:
            digest = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
            model.update(hash=digest, hash_algorithm="sha256")
        if content and is_notebook:
            await self._add_notebook(model, data)
        elif content:
            _add_text(model, data, format)
        return model

    async def _folder_model(self, path: str, info: FileInfo, *, content: bool) -> dict[str, Any]:
        model = {**_model(path, info, "directory"), "size": None}
        if content:
            model.update(format="json", content=await self._list(path, model))
        return model

    async def _list(self, path: str, model: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the models of the files in a folder; if there are too many, the rest is left out."""
        folder = path_on_node(path)

        async def listed(files: Files) -> list[tuple[bytes, FileInfo]]:
            found: list[tuple[bytes, FileInfo]] = []
            entries = files.entries(folder)
            async for each in entries:
                if len(found) == MOST_ENTRIES:
                    model["is_truncated"] = True
                    break
                found.append(each)
            await entries.aclose()  # type: ignore[attr-defined]
            return await _with_links_followed(files, folder, found)

        run = getattr(self._files, "run", None)
        found = await (run(listed) if run else listed(self._files))
        return [
            _model(posixpath.join(path, name), entry, _TYPES.get(entry.kind) or _file_type(name))
            for raw, entry in found
            if (name := _text_or_none(raw)) is not None
            and entry.kind in ("file", "folder")
            and self.should_list(name)  # type: ignore[no-untyped-call]
            and (self.allow_hidden or not name.startswith("."))
        ]

    async def _read(self, path: str, info: FileInfo) -> bytes:
        if info.size > MOST_BYTES:
            raise HTTPError(
                413, f"{path} is larger than {MOST_BYTES >> 20} MiB, and can't be opened here. Download it instead."
            )
        file = await self._files.open_to_read(path_on_node(path))
        try:
            pieces, size = [], 0
            while (piece := await file.read(size, PIECE_BYTES)) and size <= MOST_BYTES:
                pieces.append(piece)
                size += len(piece)
            return b"".join(pieces)
        finally:
            with suppress(TpuError):
                await file.close()

    async def _add_notebook(self, model: dict[str, Any], data: bytes) -> None:
        try:
            notebook = await asyncio.to_thread(nbformat.reads, data.decode("utf-8"), as_version=4)
        except Exception as error:
            raise HTTPError(400, f"Unreadable notebook: {model['path']} {error!r}") from error
        self.mark_trusted_cells(notebook, model["path"])  # type: ignore[no-untyped-call]
        model.update(content=notebook, format="json")
        self.validate_notebook_model(model, {})  # type: ignore[no-untyped-call]

    # -- writing

    async def save(self, model: dict[str, Any], path: str = "") -> dict[str, Any]:
        """Write a file, notebook, folder or one chunk of an upload; return its model without content."""
        path = path.strip("/")
        if not model.get("type"):
            raise HTTPError(400, "No file type provided")
        with http_errors():
            if model["type"] == "directory":
                await self._save_folder(path)
            elif model.get("content") is None:
                raise HTTPError(400, "No file content provided")
            elif model.get("chunk"):
                return await self._save_chunk(model, path)
            else:
                await self._write(path, await self._bytes(model, path))
        return {**await self.get(path, content=False, type=model["type"]), **_message(model)}

    async def _bytes(self, model: dict[str, Any], path: str) -> bytes:
        if model["type"] != "notebook":
            return await asyncio.to_thread(_decoded, model)
        notebook = nbformat.from_dict(model["content"])  # type: ignore[no-untyped-call]
        self.check_and_sign(notebook, path)  # type: ignore[no-untyped-call]
        text: str = await asyncio.to_thread(nbformat.writes, notebook, version=nbformat.NO_CONVERT)
        self.validate_notebook_model(model, {})  # type: ignore[no-untyped-call]
        return (text if text.endswith("\n") else text + "\n").encode()

    async def _save_folder(self, path: str) -> None:
        there = await self._files.info(path_on_node(path))
        if there is None:
            await self._files.make_folder(path_on_node(path))
        elif there.kind != "folder":
            raise HTTPError(400, f"Not a directory: {path}")

    async def _write(self, path: str, data: bytes) -> None:
        """Write a file beside its target, and rename it."""
        target = await file_behind(self._files, path_on_node(path))
        there = await self._files.info(target)
        if there and not there.mode & 0o200:
            raise self._files.error(errno.EACCES, target)
        part = _beside(target, secrets.token_hex(4))
        try:
            file = await self._files.open_to_write(part)
            try:
                await file.write(0, data)
                if (await file.info()).size != len(data):  # a server may report a short write as a success
                    raise self._files.error(errno.ENOSPC, target)
            finally:
                with suppress(TpuError):
                    await file.close()
            await self._files.set_info(part, mode=there.mode if there else _NEW_FILE_MODE)
            await self._files.replace(part, target)
        except BaseException:
            with suppress(OSError, TpuError):
                await self._files.remove(part)
            raise

    async def _save_chunk(self, model: dict[str, Any], path: str) -> dict[str, Any]:
        """Write a chunk of an upload to a part beside the target; the last chunk, number -1, renames it.

        All chunks but the last have the same size, so that one that is sent again replaces itself.
        """
        if model["type"] != "file":
            raise HTTPError(400, f'File type "{model["type"]}" is not supported for large file transfer')
        number, data = model["chunk"], await asyncio.to_thread(_decoded, model)
        if type(number) is not int or (number < 1 and number != -1):
            raise HTTPError(400, "The chunk must be a number from 1, or -1")
        target = await file_behind(self._files, path_on_node(path))
        part = _beside(target, "upload")
        file = await self._files.open_to_write(part)
        try:
            size = (await file.info()).size
            offset = size if number == -1 else (number - 1) * len(data)
            if offset > size or (number == -1 and not size):
                raise HTTPError(409, f"The upload of {path} is incomplete: start it again")
            await file.write(offset, data)
            await file.truncate(offset + len(data))
            info = await file.info()
        finally:
            with suppress(TpuError):
                await file.close()
        if number != -1:
            return _model(path, info, "file")
        there = await self._files.info(target)
        await self._files.set_info(part, mode=there.mode if there else _NEW_FILE_MODE)
        await self._files.replace(part, target)
        return await self.get(path, content=False, type="file")

    async def delete_file(self, path: str) -> None:
        """Delete a file, a link or an empty folder; also what an upload that was cancelled has left."""
        place = path_on_node(path)
        with http_errors():
            itself = await self._files.info(place, follow=False)
            if itself and itself.kind == "folder":
                await self._delete_folder(place, path)
                return
            part = _beside(place, "upload")
            has_part = await self._files.info(part, follow=False) is not None
            if has_part:
                await self._files.remove(part)
            if itself:
                await self._files.remove(place)
            elif not has_part:
                raise HTTPError(404, f"File or directory does not exist: {path}")

    async def _delete_folder(self, place: bytes, path: str) -> None:
        try:
            await self._files.remove_folder(place)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            raise HTTPError(
                400, f"The folder {path} is not empty. A node has no trash: delete its files first, or use a terminal."
            ) from error

    async def rename_file(self, old_path: str, new_path: str) -> None:
        """Rename a file or folder; nothing is replaced."""
        with http_errors():
            if await self._files.info(path_on_node(new_path), follow=False):
                raise HTTPError(409, f"File already exists: {new_path}")
            await self._files.move(path_on_node(old_path), path_on_node(new_path))


_TYPES = {"folder": "directory"}


async def _with_links_followed(
    files: Files, folder: bytes, found: list[tuple[bytes, FileInfo]]
) -> list[tuple[bytes, FileInfo]]:
    """Replace links with what they lead to; drop links that lead nowhere."""
    limit = asyncio.Semaphore(_LINKS_AT_ONCE)

    async def followed(name: bytes, entry: FileInfo) -> FileInfo | None:
        if entry.kind != "link":
            return entry
        async with limit:
            try:
                return await files.info(joined(folder, name))
            except OSError:
                return None

    infos = await asyncio.gather(*(followed(name, entry) for name, entry in found))
    return [(name, info) for (name, _), info in zip(found, infos, strict=True) if info]


@contextmanager
def http_errors() -> Iterator[None]:
    """Translate errors of files to those that front ends of the contents protocol expect."""
    try:
        yield
    except OSError as error:
        failed = file_failed(error)
        raise HTTPError(_STATUSES.get(error.errno or 0, 500), failed.message.replace("%", "%%")) from error


def path_on_node(path: str) -> bytes:
    """Return an API path as a path relative to the home folder.

    Raises:
        HTTPError: the path leads out of the home folder, or isn't possible.
    """
    parts = [part for part in path.split("/") if part]
    try:
        encoded = "/".join(parts).encode()
    except UnicodeEncodeError:
        raise HTTPError(400, "The path is not valid Unicode") from None
    if ".." in parts or "." in parts or "\0" in path:
        raise HTTPError(404, f"No such file or folder: {path!r}")
    return encoded


def _beside(path: bytes, key: str) -> bytes:
    folder, name = posixpath.split(path)
    end = b"." + key.encode() + b".part"
    return joined(folder, b"." + name[: 254 - len(end)] + end)


def _text_or_none(name: bytes) -> str | None:
    """Return a name as text, or None if it isn't UTF-8: a browser can't ask for such a name."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _file_type(name: str) -> str:
    return "notebook" if name.endswith(".ipynb") else "file"


def _model(path: str, info: FileInfo, kind: str) -> dict[str, Any]:
    changed = datetime.fromtimestamp(max(0, info.modified_at), UTC)
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "type": kind,
        "created": changed,  # SFTP has no time of creation
        "last_modified": changed,
        "content": None,
        "format": None,
        "mimetype": mimetypes.guess_type(path)[0] if kind == "file" else None,
        "size": info.size,
        "writable": bool(info.mode & 0o200),
        "hash": None,
        "hash_algorithm": None,
    }


def _add_text(model: dict[str, Any], data: bytes, format: str | None) -> None:
    if format != "base64":
        try:
            model.update(content=data.decode("utf-8"), format="text", mimetype=model["mimetype"] or "text/plain")
            return
        except UnicodeDecodeError as error:
            if format == "text":
                raise HTTPError(400, f"{model['path']} is not UTF-8 encoded", reason="bad format") from error
    content = base64.b64encode(data).decode("ascii")
    model.update(content=content, format="base64", mimetype=model["mimetype"] or "application/octet-stream")


def _decoded(model: dict[str, Any]) -> bytes:
    content = model["content"]
    if not isinstance(content, str) or model.get("format") not in ("text", "base64"):
        raise HTTPError(400, "Must specify format of file contents as 'text' or 'base64'")
    try:
        return content.encode() if model["format"] == "text" else base64.b64decode(content)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise HTTPError(400, f"The content can't be decoded: {error}") from error


def _message(model: dict[str, Any]) -> dict[str, Any]:
    return {"message": model["message"]} if model.get("message") else {}
