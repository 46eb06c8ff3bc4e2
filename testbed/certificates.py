"""A certificate authority for one control plane.

In: names. Out: PEM files.
"""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=30)
# Certificates made before the clock of a container settled are still valid.
_BACKDATE = dt.timedelta(hours=1)
_SERVICE_ADDRESS = "10.0.0.1"  # the first address of the service range is the API server's own


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs the certificates of a control plane and its clients; all files are in `folder`."""

    def __init__(self, folder: Path, *, identified: bool = True) -> None:
        """`identified`: certificates name the key of their signer (RFC 5280 4.2.1.1), as some tools for clusters leave out."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._identified = identified
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "apportion-testbed")])
        certificate = (
            _certificate(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "ca.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def serving(self) -> KeyPair:
        """Return the API server's certificate: localhost, the loopback address and its service address."""
        names = [
            x509.DNSName("localhost"),
            x509.DNSName("kubernetes.default.svc"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address(_SERVICE_ADDRESS)),
        ]
        return self._sign("serving", "kube-apiserver", (), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, common_name: str, organizations: Sequence[str]) -> KeyPair:
        """Return a client certificate: the common name is the user, the organizations are the groups."""
        stem = common_name.replace(":", "-").replace("/", "-")
        return self._sign(stem, common_name, organizations, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def service_accounts(self) -> KeyPair:
        """Return the pair that signs and verifies tokens; `certificate` holds the bare public key."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pair = KeyPair(self._folder / "service-accounts.pub", self._folder / "service-accounts.key")
        pair.certificate.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        _write_key(pair.key, key)
        return pair

    def _sign(
        self,
        stem: str,
        common_name: str,
        organizations: Sequence[str],
        purpose: x509.ObjectIdentifier,
        names: Sequence[x509.GeneralName],
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations),
                x509.NameAttribute(NameOID.COMMON_NAME, common_name),
            ]
        )
        builder = (
            _certificate(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(_usage(signs_certificates=False), critical=True)
        )
        if self._identified:
            signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(signer, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pair = KeyPair(self._folder / f"{stem}.pem", self._folder / f"{stem}.key")
        signed = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        _write_key(pair.key, key)
        return pair


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + _LIFETIME)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
