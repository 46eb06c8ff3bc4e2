"""Settings: where the API server is, and by what right it is asked.

In: kubeconfigs, the pod's service account, the environment. Out: what kubernetes_asyncio read of them, or an error that names the file.
"""

import binascii
import os
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio import config

from apportion.errors import ApiError, BrokenInput


async def settings_of(kubeconfig: Path | None, context: str | None) -> kubernetes.Configuration:
    """Read a kubeconfig, which may run a plugin for a token, or the pod's service account. Raises ApportionError."""
    settings = kubernetes.Configuration()
    try:
        if kubeconfig is not None:
            settings.host = ""  # the library's own default is an address on this machine
            await config.load_kube_config(
                config_file=str(kubeconfig), context=context, client_configuration=settings
            )
        else:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=settings, try_refresh_token=False
            )
    except (config.ConfigException, OSError) as error:
        unnamed = (
            ""
            if kubeconfig is not None
            else "no kubeconfig is named (--kubeconfig, KUBECONFIG), and this is no pod: "
        )
        raise ApiError(f"no way to the API server: {unnamed}{error}") from None
    except binascii.Error as error:
        data = "certificate-authority-data, client-certificate-data or client-key-data"
        raise BrokenInput(f"kubeconfig: {kubeconfig}: {data}: {error}") from None
    except (ValueError, yaml.YAMLError) as error:
        raise BrokenInput(f"kubeconfig: {' '.join(str(error).split())}") from None
    except (AttributeError, TypeError):
        # The library that reads a kubeconfig takes its form for granted, and its own words name nothing of the file.
        raise BrokenInput(f"kubeconfig: {kubeconfig}: this is no kubeconfig") from None
    except AssertionError:
        settings.host = None
    if kubeconfig is not None and not _is_address(settings.host):
        raise BrokenInput(
            f"kubeconfig: {kubeconfig}: cluster.server: expected an address, as https://api.example.com:6443"
        )
    return settings


def _is_address(server: str | None) -> bool:
    """Say whether requests can be made to a server."""
    try:
        found = urlsplit(server or "")
        return found.scheme in {"http", "https"} and bool(found.hostname) and found.port != 0
    except ValueError:
        return False


def require_a_file(kubeconfig: Path | None) -> None:
    """Raise BrokenInput where none of the files of a kubeconfig is there."""
    files = str(kubeconfig).split(os.pathsep) if kubeconfig is not None else []
    if files and not any(Path(each).expanduser().exists() for each in files if each):
        raise BrokenInput(f"kubeconfig: {kubeconfig}: there is no such file")


def proxy_of(settings: kubernetes.Configuration) -> str | None:
    """Return the proxy through which the server is reached: that of the kubeconfig, else of the environment, as for kubectl."""
    if settings.proxy:
        return str(settings.proxy)
    server = urlsplit(str(settings.host))
    return None if proxy_bypass(server.netloc) else getproxies().get(server.scheme)
