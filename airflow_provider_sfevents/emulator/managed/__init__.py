"""Managed subscriptions of an org: configs, rules, committed replay ids."""
