"""Writes an archive to standard output: this interpreter, its library, and what it is linked with."""

import os
import subprocess
import sys
import sysconfig
import tarfile

LEFT_OUT = ("test", "tkinter", "idlelib", "lib2to3", "ensurepip", "site-packages", "dist-packages")


def keep(entry):
    name = os.path.basename(entry.name)
    return None if name in LEFT_OUT or name.startswith("config-") else entry


program = os.path.realpath(sys.executable)
linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
    for word in {word for word in linked.split() if word.startswith("/")}:
        info = archive.gettarinfo(os.path.realpath(word), arcname=word)
        with open(word, "rb") as file:
            archive.addfile(info, file)
    archive.add(program)
    archive.add(sysconfig.get_path("stdlib"), filter=keep)
    link = tarfile.TarInfo("python")
    link.type, link.linkname = tarfile.SYMTYPE, program
    archive.addfile(link)
