#!/usr/bin/env python3
"""Makes the certificates and keys of this folder, and the kubeconfigs beside it that contain some. They are valid for a hundred
years and protect nothing. Needs the Python package `cryptography`; no test runs this.

Each file NAME.pem has a certificate and its key, each NAME.crt an authority.
"""
import base64, datetime, ipaddress, pathlib
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization as s
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID as use

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
LATER, PAST = NOW.replace(year=2126), NOW.replace(day=2)
NAMES = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost"), x509.DNSName("my_cluster"),
         x509.DNSName("*.k8s.example.com")]
name = lambda text: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

def certificate(subject, key, issuer=None, ca=False, names=None, uses=None, until=LATER, hash=hashes.SHA256(), key_usage=None):
    by, by_key = (issuer[0].subject, issuer[1]) if issuer else (name(subject), key)
    builder = (x509.CertificateBuilder().subject_name(name(subject)).issuer_name(by).public_key(key.public_key())
               .serial_number(x509.random_serial_number()).not_valid_before(NOW).not_valid_after(until)
               .add_extension(x509.BasicConstraints(ca, None), critical=True))
    if names: builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if uses: builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    if key_usage:
        every = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
                 "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"]
        builder = builder.add_extension(x509.KeyUsage(**{word: word == key_usage for word in every}), critical=True)
    return builder.sign(by_key, hash), key

pem = lambda made: made[0].public_bytes(s.Encoding.PEM).decode()
der_of = lambda key, form: key.private_bytes(s.Encoding.DER, form, s.NoEncryption())
def key_pem(key, label="PRIVATE KEY", form=s.PrivateFormat.PKCS8):
    text = base64.encodebytes(der_of(key, form)).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n"
def write(file, *parts): pathlib.Path(file).write_text("".join(parts))

new_rsa = lambda: rsa.generate_private_key(65537, 2048)
p256, p521 = (lambda: ec.generate_private_key(ec.SECP256R1())), (lambda: ec.generate_private_key(ec.SECP521R1()))
ca = certificate("authority", new_rsa(), ca=True)
p521_ca, p256_ca = certificate("authority on P-521", p521(), ca=True), certificate("authority on P-256", p256(), ca=True)
expired_ca = certificate("expired authority", p256(), ca=True, until=PAST)
non_signer = certificate("authority that signs only lists of revoked certificates", p256(), ca=True, key_usage="crl_sign")
for file, made in {"ca": ca, "non-signer": non_signer, "p521-ca": p521_ca, "p256-ca": p256_ca, "expired-ca": expired_ca}.items():
    write(file + ".crt", pem(made))

server = {"names": NAMES, "uses": [use.SERVER_AUTH]}
servers = {
    "server": certificate("kube-apiserver", new_rsa(), ca, **server),
    "self-signed": certificate("127.0.0.1", new_rsa(), ca=True, names=NAMES),
    "ca-true": certificate("kube-apiserver", p256(), ca, ca=True, names=NAMES),
    "p521": certificate("kube-apiserver", p521(), ca, **server),
    "by-p521-sha256": certificate("kube-apiserver", p256(), p521_ca, **server),
    "by-p521-sha512": certificate("kube-apiserver", p256(), p521_ca, **server, hash=hashes.SHA512()),
    "by-p256-sha512": certificate("kube-apiserver", p256(), p256_ca, **server, hash=hashes.SHA512()),
    "by-expired": certificate("kube-apiserver", p256(), expired_ca, **server),
    "expired": certificate("kube-apiserver", p256(), ca, **server, until=PAST),
    "by-non-signer": certificate("kube-apiserver", p256(), non_signer, **server),
    "for-clients": certificate("kube-apiserver", p256(), ca, names=NAMES, uses=[use.CLIENT_AUTH]),
}
servers["by-server"] = certificate("kube-apiserver", p256(), servers["server"], **server)
for file, made in servers.items(): write(file + ".pem", pem(made), key_pem(made[1]))

client = lambda key: certificate("client", key, ca, uses=[use.CLIENT_AUTH])
of_p521, of_rsa, of_p256 = client(p521()), client(new_rsa()), client(p256())
old = s.PrivateFormat.TraditionalOpenSSL
write("client-p521.pem", pem(of_p521), key_pem(of_p521[1]))
write("client-p521-sec1.pem", pem(of_p521), key_pem(of_p521[1], "EC PRIVATE KEY", old))
write("client-rsa-pkcs1-as-private-key.pem", pem(of_rsa), key_pem(of_rsa[1], form=old))
write("client-rsa-pkcs8-as-rsa.pem", pem(of_rsa), key_pem(of_rsa[1], "RSA PRIVATE KEY"))
write("client-p256-sec1-as-private-key.pem", pem(of_p256), key_pem(of_p256[1], form=old))
encrypted = of_p256[1].private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"word")).decode()
write("client-encrypted.pem", pem(of_p256), encrypted)
other = certificate("client", ec.generate_private_key(ec.SECP256K1()), ca, uses=[use.CLIENT_AUTH])
write("client-p256k1.pem", pem(other), key_pem(other[1]))

# The kubeconfigs, as minikube writes them.
data = lambda text: base64.b64encode(text.encode()).decode()
jwt = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in [
    b'{"alg": "RS256", "kid": "x"}', b'{"iss": "https://id.example.com", "sub": "u", "aud": "k8s", "exp": 1767225600}', b"sig"])
BAD = "-----BEGIN CERTIFICATE-----\nTUlJQg==\n-----END CERTIFICATE-----\n"
def kubeconfig(file, authority, user):
    extension = 'extension: {last-update: "Mon, 06 Jan 2025 10:00:00 UTC", provider: minikube.sigs.k8s.io, version: v1.34.0}'
    write(f"../{file}", f"""apiVersion: v1
kind: Config
clusters:
- cluster:
    extensions:
    - {extension}
      name: cluster_info
    server: https://127.0.0.1:18080
    certificate-authority-data: {data(authority)}
  name: mk
contexts:
- context:
    cluster: mk
    extensions:
    - {extension}
      name: context_info
    namespace: default
    user: mk
  name: mk
current-context: mk
preferences: {{}}
users:
- name: mk
  user: {user}
""")
token = "{token: abc}"
with_key = lambda made, key: f"{{client-certificate-data: {data(pem(made))}, client-key-data: {data(key)}}}"
kubeconfig("T4-C2-leaf-as-ca.yaml", pem(servers["server"]), token)
kubeconfig("T4-C3-self-signed-ca-true.yaml", pem(servers["self-signed"]), token)
kubeconfig("T4-C4-client-key-p521.yaml", pem(ca), with_key(of_p521, key_pem(of_p521[1])))
kubeconfig("T4-C5-rsa-key-wrong-label.yaml", pem(ca), with_key(of_rsa, key_pem(of_rsa[1], form=old)))
kubeconfig("T4-C11-bundle-with-bad-certificate.yaml", BAD + pem(ca), token)
kubeconfig("T4-C10-oidc-expired.yaml", pem(ca), f"""
    auth-provider:
      config:
        client-id: kubernetes
        client-secret: not-a-secret
        id-token: {jwt}
        idp-issuer-url: https://id.example.com/realms/x
      name: oidc""")
