// Package lifecycle installs, upgrades, restores and uninstalls runtimes.
//
// An operation validates the values, runs the preflight checks, plans, shows
// the plan, requests a confirmation, applies, waits until the runtime is
// healthy and online, and checks again. A release that is not healthy in time
// is rolled back, and the reason is reported. Nothing is changed before
// UI.Confirm has agreed, and nothing at all in a dry run.
//
// The package has no terminal and no flags: it talks to the user through UI and
// to the control plane through Platform, so that any front end can use it.
// Secrets reach neither the values nor a command line: they go into Secrets of
// the cluster or into files that only their owner can read.
package lifecycle
