"""Runs a program of `aiosfstream` with another login host, which that has as a constant."""

from __future__ import annotations

import runpy
import sys

import aiosfstream.auth

login_url, program = sys.argv[1:]
aiosfstream.auth.TOKEN_URL = f"{login_url}/services/oauth2/token"
runpy.run_path(program, run_name="__main__")
