"""The parts of workloads/import_pytorch.py: what it records, measures, declares and checks."""
