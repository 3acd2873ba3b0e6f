// Package supplychain tests the checks of releases that run other programs:
// govulncheck with a database of its own, as on a machine without a network.
package supplychain
