"""ManagedSubscribe: subscriptions whose place Salesforce keeps. Configs, committed replay ids, the one client of each."""
