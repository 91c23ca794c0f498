"""Stores of files: this machine's disks, Hadoop's file systems, and object stores by fsspec."""
