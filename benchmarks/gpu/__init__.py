"""Measurements on a GPU: what is found there, workloads, contenders, reports. ``make gpu`` runs everything."""
