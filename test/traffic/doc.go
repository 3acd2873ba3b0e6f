// Package traffic tests the traffic reports end to end: it runs an edge and an
// agent in a cluster, with an application from Git under load, and checks the
// reports through the agent's API.
//
// It is for tests only.
package traffic
