#!/usr/bin/env python3
"""Makes the files of this folder from the vectors of others.

    convert.py WYCHEPROOF CAVP

WYCHEPROOF is the folder `testvectors_v1` of https://github.com/C2SP/wycheproof, CAVP the folder `ciphers/AES` of the
Python package `cryptography_vectors`, which has the files of NIST. Vectors that engines cannot take are left out: other
lengths of nonces and tags, and AAD of more than 16 bytes.
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent


def write(name, lines):
    """Writes lines of words; an empty word is `-`."""
    text = "".join(" ".join(word or "-" for word in line) + "\n" for line in lines)
    (HERE / name).write_text(text)


def tests(folder, name, **sizes):
    """Yields the tests of a file of Wycheproof in groups of some sizes, in bits."""
    for group in json.loads((folder / f"{name}_test.json").read_text())["testGroups"]:
        if all(group.get(key) in values for key, values in sizes.items()):
            yield from ((group, test) for test in group["tests"])


def wycheproof_aead(folder):
    """AEADs: algorithm, key, nonce, AAD, text, encrypted text, tag, result."""
    for name, algorithm in [("aes_gcm", "aes-{}-gcm"), ("chacha20_poly1305", "chacha20-poly1305")]:
        for group, it in tests(folder, name, ivSize=[96], tagSize=[128], keySize=[128, 256]):
            if len(it["aad"]) <= 32:
                words = [it[key] for key in ["key", "iv", "aad", "msg", "ct", "tag", "result"]]
                yield [algorithm.format(group["keySize"]), *words]


def wycheproof_hmac(folder):
    """HMACs: hash, key, message, tag, result."""
    kinds = [("sha1", 160, 160, 24), ("sha256", 256, 128, 32), ("sha512", 512, 256, 64)]
    for name, key, tag, digits in kinds:
        for _, it in tests(folder, f"hmac_{name}", keySize=[key], tagSize=[tag]):
            # ESP sends 96 bits of SHA-1 only: of forged tags, which differ in any bit, it cannot tell all.
            if it["result"] == "valid" or len(it["tag"]) == digits:
                yield [name, it["key"], it["msg"], it["tag"][:digits], it["result"]]


def wycheproof_cbc(folder):
    """CBC: key, IV, padded text, encrypted text."""
    for _, it in tests(folder, "aes_cbc_pkcs5", ivSize=[128], keySize=[128, 256]):
        if it["result"] == "valid":
            padding = 16 - len(it["msg"]) // 2 % 16
            yield [it["key"], it["iv"], it["msg"] + f"{padding:02x}" * padding, it["ct"]]


def records(path):
    """Yields the records of a file of NIST: names and values, and those in brackets above them."""
    above, record = {}, {}
    for line in [*path.read_text().splitlines(), ""]:
        line = line.strip()
        if found := re.fullmatch(r"\[(\w+)(?: = (\d+))?\]", line):
            above[found[1]] = int(found[2] or 0)
        elif line == "FAIL":
            record["FAIL"] = ""
        elif found := re.fullmatch(r"(\w+) =\s*(\w*)", line):
            record[found[1]] = found[2]
        elif not line and record:
            yield above, record
            record = {}


def cavp_gcm(folder):
    """GCM: as Wycheproof's AEADs."""
    for kind in ["EncryptExtIV", "Decrypt"]:
        for bits in [128, 256]:
            for above, it in records(folder / "GCM" / f"gcm{kind}{bits}.rsp"):
                if (above["IVlen"], above["Taglen"]) == (96, 128) and above["AADlen"] <= 128:
                    words = [it.get(key, "") for key in ["Key", "IV", "AAD", "PT", "CT", "Tag"]]
                    yield [f"aes-{bits}-gcm", *words, "invalid" if "FAIL" in it else "valid"]


def cavp_cbc(folder):
    """CBC: as Wycheproof's."""
    for kind in ["GFSbox", "KeySbox", "VarKey", "VarTxt", "MMT"]:
        for bits in [128, 256]:
            for above, it in records(folder / "CBC" / f"CBC{kind}{bits}.rsp"):
                # The files have each record again for decryption.
                if int(it.get("COUNT", "0")) % (4 if kind.startswith("Var") else 1) == 0 and "DECRYPT" not in above:
                    yield [it["KEY"], it["IV"], it["PLAINTEXT"], it["CIPHERTEXT"]]


def main():
    wycheproof, cavp = map(pathlib.Path, sys.argv[1:])
    write("wycheproof-aead.txt", wycheproof_aead(wycheproof))
    write("wycheproof-hmac.txt", wycheproof_hmac(wycheproof))
    write("wycheproof-cbc.txt", wycheproof_cbc(wycheproof))
    write("cavp-gcm.txt", cavp_gcm(cavp))
    write("cavp-cbc.txt", cavp_cbc(cavp))


main()
